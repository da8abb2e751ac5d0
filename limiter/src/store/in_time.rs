//! Time limits that do not throw away an answer that has come.
//!
//! A worker that had no CPU for a while finds two things at once: its time is
//! over, and the answer lies in a socket. The timer may be told first, because
//! the answer has to pass through the tasks that read it. So the connections
//! are looked at once more before a wait is given up.

use std::pin::pin;
use std::time::Duration;

use tokio::select;
use tokio::task::yield_now;
use tokio::time::timeout;

/// How often all other tasks have a turn. Before the first, sockets are polled;
/// in it their connections read; in the second the tasks that wait for these are
/// told; the third is for the callers that wait for them.
const TURNS: usize = 3;

/// What `future` gives within `limit`, or what it can give now that the limit
/// has passed.
pub(super) async fn in_time<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    if let Ok(output) = timeout(limit, future.as_mut()).await {
        return Some(output);
    }
    select! {
        biased;
        output = future => Some(output),
        () = catch_up() => None,
    }
}

/// Returns when what has already come has been read.
pub(super) async fn catch_up() {
    for _ in 0..TURNS {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::task::spawn_local;
    use tokio::time::{advance, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    fn run(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build_local(Default::default());
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn what_comes_within_the_limit_is_taken_and_what_never_comes_is_not() {
        run(async {
            assert_eq!(in_time(LIMIT, async { 1 }).await, Some(1));
            assert_eq!(in_time(LIMIT, sleep(LIMIT / 2)).await, Some(()));
            assert_eq!(in_time(LIMIT, std::future::pending::<()>()).await, None);
            assert_eq!(in_time(LIMIT, sleep(LIMIT * 2)).await, None);
        });
    }

    /// The clock jumps past the limit, as when the machine stood still. What the
    /// answer passes through has its turn only after that.
    #[test]
    fn an_answer_that_other_tasks_are_about_to_bring_is_waited_for() {
        run(async {
            let (read, reading) = oneshot::channel();
            let (told, telling) = oneshot::channel();
            let waiting = spawn_local(in_time(LIMIT, telling));
            spawn_local(async move {
                let answer: u8 = reading.await.expect("it is read");
                told.send(answer).expect("it is waited for");
            });
            yield_now().await;
            advance(LIMIT * 5).await;
            read.send(7).expect("it is waited for");
            assert_eq!(waiting.await.expect("it does not panic"), Some(Ok(7)));
        });
    }
}
