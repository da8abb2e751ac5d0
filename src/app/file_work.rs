//! Work on files, on threads of its own and for a bounded time.
//!
//! A file system may never answer, such as a network file system without its server. The thread
//! that waits for it cannot be stopped: it is left behind, and the gateway goes on without it. The
//! number of such threads has a bound.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::config::Progress;

/// How long work for a call of the admin API may take. It is shorter than the time that a call has,
/// so that its answer says what the matter is.
pub const CALL_LIMIT: Duration = Duration::from_secs(4);
/// Threads that work or were left behind.
const MAX_THREADS: usize = 4;

/// Does work on files.
#[derive(Debug)]
pub struct FileWork {
    threads: Arc<Semaphore>,
    late_end: Arc<Notify>,
}

/// Why work has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// It takes longer than the limit, and is at this file.
    Late(Duration, Option<PathBuf>),
    /// As many threads as may be were left behind.
    Full,
    /// The thread has panicked.
    Broken,
}

impl Default for FileWork {
    fn default() -> Self {
        let threads = Arc::new(Semaphore::new(MAX_THREADS));
        Self { threads, late_end: Arc::default() }
    }
}

impl FileWork {
    /// The result of `work`, which may take as long as `limit`. It says by its argument which file
    /// it uses.
    ///
    /// # Errors
    /// If it does not end in time. It may still end later.
    pub async fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        let thread = Arc::clone(&self.threads).try_acquire_owned();
        let thread = thread.map_err(|_| Unfinished::Full)?;
        let progress = Progress::default();
        // Set by the one that is later: the end of the work, or the end of the time.
        let is_over = Arc::new(AtomicBool::new(false));
        let task = spawn_blocking({
            let progress = progress.clone();
            let is_over = Arc::clone(&is_over);
            let late_end = Arc::clone(&self.late_end);
            move || {
                let done = work(&progress);
                drop(thread);
                if is_over.swap(true, Ordering::AcqRel) {
                    late_end.notify_one();
                }
                done
            }
        });
        match timeout(limit, task).await {
            Ok(done) => done.map_err(|_| Unfinished::Broken),
            Err(_) => {
                if is_over.swap(true, Ordering::AcqRel) {
                    self.late_end.notify_one();
                }
                Err(Unfinished::Late(limit, progress.file()))
            }
        }
    }

    /// Returns when work has ended that was left behind.
    pub async fn late_end(&self) {
        self.late_end.notified().await;
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(limit, Some(file)) => write!(
                f,
                "the file {} has not answered for {limit:?}: see whether its file system is there",
                file.display()
            ),
            Self::Late(limit, None) => write!(f, "the files have not answered for {limit:?}"),
            Self::Full => write!(
                f,
                "{MAX_THREADS} attempts before it still wait for files that do not answer: see \
                 whether their file systems are there, or restart"
            ),
            Self::Broken => f.write_str("the thread that reads the files has failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn work_that_ends_has_a_result() {
        let files = FileWork::default();
        for number in 0..3 * MAX_THREADS {
            assert_eq!(files.run(PATIENCE, move |_| number).await, Ok(number));
        }
        assert!(timeout(SHORT, files.late_end()).await.is_err());
    }

    #[tokio::test]
    async fn work_that_does_not_end_is_left_behind_and_bounded() {
        let files = FileWork::default();
        let mut ends = Vec::new();
        for _ in 0..MAX_THREADS {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let late = files.run(SHORT, move |progress| {
                progress.at(Path::new("/dead/file"));
                let _ = ended.recv();
            });
            let late = late.await.unwrap_err();
            assert_eq!(late, Unfinished::Late(SHORT, Some("/dead/file".into())));
            assert!(late.to_string().contains("/dead/file has not answered for 50ms"), "{late}");
        }
        assert_eq!(files.run(SHORT, |_| ()).await, Err(Unfinished::Full));
        drop(ends.pop());
        timeout(PATIENCE, files.late_end()).await.expect("its end is noticed");
        assert_eq!(files.run(PATIENCE, |_| 7).await, Ok(7));
        drop(ends);
    }
}
