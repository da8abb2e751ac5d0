//! A limit on the pause between two frames of a body.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use tollgate_core::time::monotonic;

/// A limit on the pause between two frames of a body. The timer is made only when
/// a frame must be waited for, so a body that is complete needs no timer.
#[derive(Debug)]
pub struct IdleTimer {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the timer was set for the current pause.
    running: bool,
}

impl IdleTimer {
    pub fn new(limit: Duration) -> Self {
        Self { limit, timer: None, running: false }
    }

    /// Ends the current pause.
    pub fn reset(&mut self) {
        self.running = false;
    }

    /// Ready when the current pause has exceeded the limit.
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
