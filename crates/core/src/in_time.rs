//! Time limits that do not lose a reply that has already arrived.
//!
//! A worker that had no CPU time for a while finds that its time limit has passed and that the
//! reply is in a socket. Its timer may fire first, because the reply must pass through the
//! tasks that read it. So the connections are polled once more before the wait is given up.

use std::pin::pin;
use std::time::Duration;

use tokio::select;
use tokio::task::yield_now;
use tokio::time::timeout;

/// How often all other tasks run. Before the first time, sockets are polled. In the first, the
/// connections read them. In the second, the tasks that wait for these run. The third is for
/// their callers.
const TURNS: usize = 3;

/// The output of `future` within `limit`, or its output if it is available when the limit has
/// passed.
pub async fn in_time<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
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

/// Returns when all data that has arrived has been read.
pub async fn catch_up() {
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
    fn output_within_the_limit_is_returned_and_later_output_is_not() {
        run(async {
            assert_eq!(in_time(LIMIT, async { 1 }).await, Some(1));
            assert_eq!(in_time(LIMIT, sleep(LIMIT / 2)).await, Some(()));
            assert_eq!(in_time(LIMIT, std::future::pending::<()>()).await, None);
            assert_eq!(in_time(LIMIT, sleep(LIMIT * 2)).await, None);
        });
    }

    /// The clock jumps past the limit, as on a machine that was suspended. The tasks that pass on
    /// the reply run only after that.
    #[test]
    fn a_reply_that_other_tasks_are_about_to_deliver_is_returned() {
        run(async {
            let (read, reading) = oneshot::channel();
            let (told, telling) = oneshot::channel();
            let waiting = spawn_local(in_time(LIMIT, telling));
            spawn_local(async move {
                let answer: u8 = reading.await.expect("the sender sends it");
                told.send(answer).expect("the receiver waits");
            });
            yield_now().await;
            advance(LIMIT * 5).await;
            read.send(7).expect("the receiver waits");
            assert_eq!(waiting.await.expect("the task does not panic"), Some(Ok(7)));
        });
    }
}
