//! Watching a file, and others that it names, for changes, however they are
//! changed: written in place, renamed over, or exchanged behind symbolic links, as
//! Kubernetes does it with what it mounts.
//!
//! The system is asked to tell of changes in the file's directory, which makes
//! it quick. What counts is a look at the file itself, also now and then without
//! a hint: not every change is told of, such as one behind a link that leads
//! elsewhere, or on a network's file system.

use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::config::FileStamp;

/// How often the files are looked at without a hint.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);
/// How long after a hint the files are looked at: whoever writes one may not have
/// written all of it.
const SETTLE: Duration = Duration::from_millis(100);

/// Watches one file, and those that it names.
pub(super) struct FileWatch {
    file: Watched,
    others: Vec<Watched>,
    hints: mpsc::Receiver<()>,
    /// Gives hints for as long as it lives. None: the system gives none.
    _watcher: Option<RecommendedWatcher>,
}

struct Watched {
    path: PathBuf,
    /// As it was last seen; none: it was not there.
    seen: Option<FileStamp>,
}

impl Watched {
    fn new(path: PathBuf) -> Self {
        Self { seen: FileStamp::of(&path), path }
    }

    /// Whether it is another one than it was. A file that is gone is one that is
    /// just being replaced.
    fn has_changed(&mut self) -> bool {
        let now = FileStamp::of(&self.path);
        let has_changed = now.is_some() && now != self.seen;
        if has_changed {
            self.seen = now;
        }
        has_changed
    }
}

impl FileWatch {
    /// Watches the file at `path`, and `others`, as they are now.
    pub(super) fn new(path: &Path, others: Vec<PathBuf>) -> Self {
        // One hint that waits is as good as many.
        let (sender, hints) = mpsc::channel(1);
        let watcher = watch_directory(path, sender).inspect_err(|error| {
            warn!(
                "changes of {} are seen late, for the system does not tell of them: {error}",
                path.display()
            );
        });
        let others = others.into_iter().map(Watched::new).collect();
        Self { file: Watched::new(path.to_owned()), others, hints, _watcher: watcher.ok() }
    }

    /// Where the file is.
    pub(super) fn file(&self) -> &Path {
        &self.file.path
    }

    /// From now on these are the others.
    pub(super) fn follow(&mut self, others: Vec<PathBuf>) {
        let mut known = std::mem::take(&mut self.others);
        let watched = others.into_iter().map(|path| {
            // A change that was not told of yet is not lost.
            match known.iter().position(|it| it.path == path) {
                Some(index) => known.swap_remove(index),
                None => Watched::new(path),
            }
        });
        self.others = watched.collect();
    }

    /// Returns when one of the files is another than it was.
    pub(super) async fn changed(&mut self) {
        loop {
            match timeout(LOOK_INTERVAL, self.hints.recv()).await {
                Ok(Some(())) => sleep(SETTLE).await,
                Ok(None) => sleep(LOOK_INTERVAL).await,
                Err(_) => {}
            }
            let files = iter::once(&mut self.file).chain(&mut self.others);
            // All are looked at: whoever changes two of them means one change.
            if files.map(Watched::has_changed).filter(|changed| *changed).count() > 0 {
                return;
            }
        }
    }
}

/// Watches the directory: a watched file is lost when another is renamed over it.
fn watch_directory(path: &Path, hints: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_read = event.as_ref().is_ok_and(|event| is_read(event.kind));
        if !is_read {
            // If one waits already, that is enough.
            let _ = hints.try_send(());
        }
    })?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    watcher.watch(directory.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Whether somebody has only looked at a file, as we do ourselves.
fn is_read(kind: EventKind) -> bool {
    kind.is_access() && kind != EventKind::Access(AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn sees_change(watch: &mut FileWatch) {
        timeout(PATIENCE, watch.changed()).await.expect("the change is seen");
    }

    async fn sees_nothing(watch: &mut FileWatch) {
        assert!(timeout(SETTLE * 3, watch.changed()).await.is_err());
    }

    #[tokio::test]
    async fn a_file_that_is_written_or_renamed_over_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(&path, Vec::new());
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

    #[tokio::test]
    async fn links_that_are_exchanged_change_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("file"), version).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/file", at("file")).unwrap();
        let mut watch = FileWatch::new(&at("file"), Vec::new());
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        sees_change(&mut watch).await;
    }

    #[tokio::test]
    async fn a_file_elsewhere_is_seen_without_a_hint() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (link, file) = (directory.path().join("file"), elsewhere.path().join("file"));
        fs::write(&file, "a").unwrap();
        symlink(&file, &link).unwrap();
        let mut watch = FileWatch::new(&link, Vec::new());
        fs::write(&file, "ab").unwrap();
        sees_change(&mut watch).await;
    }

    #[tokio::test]
    async fn a_file_that_is_gone_has_changed_when_it_is_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "a").unwrap();
        let mut watch = FileWatch::new(&path, Vec::new());
        fs::remove_file(&path).unwrap();
        sees_nothing(&mut watch).await;
        fs::write(&path, "back").unwrap();
        sees_change(&mut watch).await;
    }

    #[tokio::test]
    async fn another_file_that_changes_is_seen_and_one_that_is_not_followed_is_not() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = directory.path().join("file");
        let [first, second] = ["first", "second"].map(|name| elsewhere.path().join(name));
        for path in [&file, &first, &second] {
            fs::write(path, "a").unwrap();
        }
        let mut watch = FileWatch::new(&file, vec![first.clone()]);
        fs::write(&first, "ab").unwrap();
        sees_change(&mut watch).await;
        watch.follow(vec![second.clone()]);
        fs::write(&first, "abc").unwrap();
        assert!(timeout(LOOK_INTERVAL * 2, watch.changed()).await.is_err());
        fs::write(&second, "ab").unwrap();
        watch.follow(vec![second, first]);
        sees_change(&mut watch).await;
    }
}
