//! Looks at files on another thread. A file system that does not answer keeps that thread, and
//! nothing else.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::config::{FileStamp, NamedFile, Progress};

/// How long a look may take until the files count as not answering.
pub const LIMIT: Duration = Duration::from_secs(5);

type Stamps = HashMap<PathBuf, FileStamp>;

/// Files that are looked at together.
#[derive(Debug)]
pub struct Group {
    /// The files, and their state at the last look. None: the file did not exist.
    pub files: Vec<NamedFile>,
    /// The look that has begun.
    look: Option<Look>,
}

#[derive(Debug)]
struct Look {
    task: JoinHandle<Stamps>,
    progress: Progress,
    /// What it has found.
    found: Option<Stamps>,
    is_late: bool,
}

/// What a look says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All files are as before, or nothing new is known.
    Same,
    /// A file has changed, or files answer that did not.
    Changed,
    /// This file does not answer. That is said once.
    Silent(PathBuf),
}

impl Group {
    pub fn new(files: Vec<NamedFile>) -> Self {
        Self { files, look: None }
    }

    /// Looks at the files, for a bounded time. If the future is dropped, the next call continues
    /// with the same look.
    pub async fn look(&mut self) {
        let files = &self.files;
        let look = self.look.get_or_insert_with(|| Look::begin(files));
        // A look that is late is only asked whether it has ended.
        let limit = if look.is_late { Duration::ZERO } else { LIMIT };
        if look.found.is_none()
            && let Ok(ended) = timeout(limit, &mut look.task).await
        {
            look.found = Some(ended.unwrap_or_default());
        }
    }

    /// What the last look says. A missing file does not count as changed: it may be about to be
    /// replaced.
    pub fn seen(&mut self) -> Seen {
        let Some(look) = &mut self.look else { return Seen::Same };
        let Some(found) = look.found.take() else {
            let is_said = std::mem::replace(&mut look.is_late, true);
            let file = look.progress.file().filter(|_| !is_said);
            return file.map_or(Seen::Same, Seen::Silent);
        };
        let mut has_changed = look.is_late;
        self.look = None;
        for file in &mut self.files {
            let now = found.get(&file.path);
            if now.is_some_and(|now| Some(*now) != file.stamp) {
                file.stamp = now.copied();
                has_changed = true;
            }
        }
        if has_changed { Seen::Changed } else { Seen::Same }
    }

    /// Replaces the files. A change that was not noticed yet is not lost.
    pub fn replace(&mut self, files: Vec<NamedFile>) {
        let mut known = std::mem::take(&mut self.files);
        let kept =
            files.into_iter().map(|file| match known.iter().position(|it| it.path == file.path) {
                Some(index) => known.swap_remove(index),
                None => file,
            });
        self.files = kept.collect();
        let files = &self.files;
        // A thread is left behind if it waits for a file that is not named any more.
        self.look.take_if(|look| {
            let path = look.progress.file();
            !look.is_late || path.is_some_and(|path| !files.iter().any(|it| it.path == path))
        });
    }

    /// The state of the first file was set: what a look has found before is out of date.
    pub fn set_first(&mut self, stamp: Option<FileStamp>) {
        self.files[0].stamp = stamp;
        self.look.take_if(|look| !look.is_late);
    }
}

impl Look {
    fn begin(files: &[NamedFile]) -> Self {
        let paths: Vec<_> = files.iter().map(|it| it.path.clone()).collect();
        let progress = Progress::default();
        let task = spawn_blocking({
            let progress = progress.clone();
            move || {
                let stamp = |path: PathBuf| {
                    progress.at(&path);
                    FileStamp::of(&path).map(|stamp| (path, stamp))
                };
                paths.into_iter().filter_map(stamp).collect()
            }
        });
        Self { task, progress, found: None, is_late: false }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn named(path: &Path) -> NamedFile {
        NamedFile { path: path.to_owned(), stamp: FileStamp::of(path) }
    }

    /// A look that is late and waits for a file, and what ends it.
    fn late(group: &mut Group, path: &Path) -> mpsc::Sender<()> {
        let (end, ended) = mpsc::channel();
        let progress = Progress::default();
        progress.at(path);
        let task = spawn_blocking(move || {
            let _ = ended.recv();
            Stamps::new()
        });
        group.look = Some(Look { task, progress, found: None, is_late: false });
        end
    }

    #[tokio::test]
    async fn a_file_that_does_not_answer_is_said_once_and_its_answer_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut group = Group::new(vec![named(&path)]);
        let end = late(&mut group, &path);
        // Without the wait for the limit.
        assert_eq!([group.seen(), group.seen()], [Seen::Silent(path.clone()), Seen::Same]);
        group.look().await;
        assert_eq!(group.seen(), Seen::Same);
        drop(end);
        let mut seen = Seen::Same;
        let answered = async {
            while seen == Seen::Same {
                group.look().await;
                seen = group.seen();
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, answered).await.expect("it answers");
        assert_eq!(seen, Seen::Changed);
        group.look().await;
        assert_eq!(group.seen(), Seen::Same);
    }

    #[tokio::test]
    async fn a_look_that_waits_for_a_file_that_is_not_named_any_more_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let [dead, good] = ["dead", "good"].map(|name| directory.path().join(name));
        std::fs::write(&good, "a").unwrap();
        let mut group = Group::new(vec![named(&dead)]);
        let _end = late(&mut group, &dead);
        assert_eq!(group.seen(), Seen::Silent(dead));
        group.replace(vec![named(&good)]);
        std::fs::write(&good, "ab").unwrap();
        timeout(PATIENCE, group.look()).await.expect("it answers");
        assert_eq!(group.seen(), Seen::Changed);
    }
}
