//! Tasks of one worker for which no request waits.

use std::cell::RefCell;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::task::spawn_local;

use tollgate_core::drain::{self, Drain, Stop};

/// The background tasks that are under way. They end with the worker.
#[derive(Debug)]
pub(super) struct BackgroundTasks(RefCell<Option<(Stop, Drain)>>);

impl BackgroundTasks {
    pub(super) fn new() -> Self {
        Self(RefCell::new(Some(drain::channel())))
    }

    /// Begins a task. It is polled once before this returns, so that later calls are
    /// sent after its first one. After [`end`](Self::end) no task begins, because the
    /// runtime ends too.
    pub(super) fn begin(&self, task: impl Future<Output = ()> + 'static) {
        let Some((_, drain)) = &*self.0.borrow() else { return };
        let drain = drain.clone();
        let mut task = Box::pin(async move {
            task.await;
            drop(drain);
        });
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            spawn_local(task);
        }
    }

    /// Waits until all tasks have ended, but no longer than `limit`.
    pub(super) async fn end(&self, limit: Duration) {
        let all = self.0.borrow_mut().take();
        if let Some((stop, drain)) = all {
            drop(drain);
            stop.finish(limit).await;
        }
    }
}
