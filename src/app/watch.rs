//! Watches a file, and other files that it names, for changes of any kind: written in
//! place, replaced by a rename, or replaced behind symbolic links, as Kubernetes does with
//! mounted files.
//!
//! The system reports changes in the directory of the file, so that they are noticed
//! quickly. A report is only a hint: what counts is the state of the files. It is also
//! checked at an interval, because the system does not report all changes, for example
//! behind a link to another directory, or on a network file system.
//!
//! The file and those that it names are looked at apart from each other: a change of the file is
//! also noticed while another file does not answer.

mod look;

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::join;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::config::{FileStamp, NamedFile};
use look::{Group, Seen};

/// The interval of checks without a hint.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);
/// The delay of a check after a hint. A program that writes a file may not have written
/// all of it yet.
const SETTLE: Duration = Duration::from_millis(100);

/// Watches one file, and the files that it names.
pub struct FileWatch {
    path: PathBuf,
    file: Group,
    others: Group,
    hints: mpsc::Receiver<()>,
    /// Sends the hints until it is dropped. None: the system provides no hints.
    _watcher: Option<RecommendedWatcher>,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The file, and perhaps others.
    File,
    /// Only files that it names.
    Others,
    /// Nothing that is known: this file does not answer.
    Silent(PathBuf),
}

impl FileWatch {
    /// Watches `file` and `others` from the states on that they had when they were read. Without a
    /// state, the current one of `file` is used.
    pub fn new(file: NamedFile, others: Vec<NamedFile>) -> Self {
        let NamedFile { path, stamp } = file;
        // One waiting hint is enough.
        let (sender, hints) = mpsc::channel(1);
        let watcher = watch_directory(&path, sender).inspect_err(|error| {
            warn!(
                "changes of {} are noticed late, because the system does not report them: {error}",
                path.display()
            );
        });
        let stamp = stamp.or_else(|| FileStamp::of(&path));
        let file = Group::new(vec![NamedFile { path: path.clone(), stamp }]);
        let others = Group::new(others);
        Self { path, file, others, hints, _watcher: watcher.ok() }
    }

    /// The path of the file.
    pub fn file(&self) -> &Path {
        &self.path
    }

    /// Replaces the other files that are watched.
    pub fn set_others(&mut self, others: Vec<NamedFile>) {
        self.others.replace(others);
    }

    /// The state of the file when it was looked at last.
    pub fn seen(&self) -> Option<FileStamp> {
        self.file.files[0].stamp
    }

    /// This process has written the file, which has this stamp now: that is no change.
    pub fn wrote(&mut self, stamp: Option<FileStamp>) {
        self.file.set_first(stamp);
    }

    /// Returns when one of the files has changed, or does not answer.
    pub async fn changed(&mut self) -> Changed {
        loop {
            match timeout(LOOK_INTERVAL, self.hints.recv()).await {
                Ok(Some(())) => sleep(SETTLE).await,
                Ok(None) => sleep(LOOK_INTERVAL).await,
                Err(_) => {}
            }
            // All files are looked at, so that several changes count as one.
            join!(self.file.look(), self.others.look());
            match (self.file.seen(), self.others.seen()) {
                (Seen::Changed, _) => return Changed::File,
                (_, Seen::Changed) => return Changed::Others,
                (Seen::Silent(path), _) | (_, Seen::Silent(path)) => return Changed::Silent(path),
                (Seen::Same, Seen::Same) => {}
            }
        }
    }
}

/// Watches the directory, because a file that is replaced by a rename is no longer watched.
fn watch_directory(path: &Path, hints: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_read = event.as_ref().is_ok_and(|event| is_read(event.kind));
        if !is_read {
            // If the queue is full, a hint is already waiting.
            let _ = hints.try_send(());
        }
    })?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    watcher.watch(directory.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Whether a file was only read, as this process itself does.
fn is_read(kind: EventKind) -> bool {
    kind.is_access() && kind != EventKind::Access(AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn named(path: &Path) -> NamedFile {
        NamedFile { path: path.to_owned(), stamp: FileStamp::of(path) }
    }

    async fn sees_change(watch: &mut FileWatch) {
        timeout(PATIENCE, watch.changed()).await.expect("the change is noticed");
    }

    async fn sees_nothing(watch: &mut FileWatch) {
        assert!(timeout(SETTLE * 3, watch.changed()).await.is_err());
    }

    #[tokio::test]
    async fn a_file_that_is_written_or_replaced_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(named(&path), Vec::new());
        sees_nothing(&mut watch).await;
        fs::write(&path, "ab").unwrap();
        sees_change(&mut watch).await;
        let other = directory.path().join("other");
        fs::write(&other, "cd").unwrap();
        sees_nothing(&mut watch).await;
        fs::rename(&other, &path).unwrap();
        sees_change(&mut watch).await;
        sees_nothing(&mut watch).await;
    }

    /// The first text is compiled before the watch begins.
    #[tokio::test]
    async fn a_file_that_has_changed_since_it_was_read_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "a").unwrap();
        let read = named(&path);
        fs::write(&path, "ab").unwrap();
        let mut watch = FileWatch::new(read, Vec::new());
        sees_change(&mut watch).await;
        sees_nothing(&mut watch).await;
        // Of what is no file, the state before is not known.
        let unknown = NamedFile { path: path.clone(), stamp: None };
        sees_nothing(&mut FileWatch::new(unknown, Vec::new())).await;
    }

    #[tokio::test]
    async fn a_file_behind_replaced_links_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("file"), version).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/file", at("file")).unwrap();
        let mut watch = FileWatch::new(named(&at("file")), Vec::new());
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        sees_change(&mut watch).await;
    }

    #[tokio::test]
    async fn a_change_in_another_directory_is_noticed_without_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let link = directory.path().join("file");
        let file = elsewhere.path().join("file");
        fs::write(&file, "a").unwrap();
        symlink(&file, &link).unwrap();
        let mut watch = FileWatch::new(named(&link), Vec::new());
        fs::write(&file, "ab").unwrap();
        sees_change(&mut watch).await;
    }

    #[tokio::test]
    async fn a_removed_file_has_changed_when_it_exists_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(named(&path), Vec::new());
        fs::remove_file(&path).unwrap();
        sees_nothing(&mut watch).await;
        fs::write(&path, "back").unwrap();
        sees_change(&mut watch).await;
    }

    #[tokio::test]
    async fn only_the_current_other_files_are_watched() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let [first, second] = ["first", "second"].map(|name| elsewhere.path().join(name));
        for path in [&file, &first, &second] {
            fs::write(path, "a").unwrap();
        }
        let mut watch = FileWatch::new(named(&file), vec![named(&first)]);
        fs::write(&first, "ab").unwrap();
        sees_change(&mut watch).await;
        watch.set_others(vec![named(&second)]);
        fs::write(&first, "abc").unwrap();
        assert!(timeout(LOOK_INTERVAL * 2, watch.changed()).await.is_err());
        fs::write(&second, "ab").unwrap();
        watch.set_others(vec![named(&second), named(&first)]);
        assert_eq!(timeout(PATIENCE, watch.changed()).await, Ok(Changed::Others));
        fs::write(&file, "ab").unwrap();
        fs::write(&second, "abc").unwrap();
        assert_eq!(timeout(PATIENCE, watch.changed()).await, Ok(Changed::File));
    }

    #[tokio::test]
    async fn a_file_that_this_process_has_written_is_no_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(named(&path), Vec::new());
        assert_eq!(watch.seen(), FileStamp::of(&path));
        fs::write(&path, "ab").unwrap();
        assert_ne!(watch.seen(), FileStamp::of(&path));
        watch.wrote(FileStamp::of(&path));
        sees_nothing(&mut watch).await;
        fs::write(&path, "abc").unwrap();
        sees_change(&mut watch).await;
    }
}
