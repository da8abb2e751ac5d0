//! A limit on the pause between two pieces of a body.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::time::monotonic;

/// A limit on the pause between two pieces of a body. The timer is made only
/// when a piece has to be waited for, so a body that is all there costs none.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the timer was set for the present pause.
    running: bool,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, timer: None, running: false }
    }

    /// A piece has come.
    pub(super) fn reset(&mut self) {
        self.running = false;
    }

    /// Ready when the present pause has been too long.
    pub(super) fn poll_exhausted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = match &mut self.timer {
            Some(timer) if self.running => timer,
            Some(timer) => {
                timer.as_mut().reset(Instant::from_std(monotonic() + self.limit));
                timer
            }
            none => none.insert(Box::pin(sleep_until(Instant::from_std(monotonic() + self.limit)))),
        };
        self.running = true;
        timer.as_mut().poll(cx)
    }
}
