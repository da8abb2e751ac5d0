//! Carries batches: each goes out, and is waited for until its time is over.
//!
//! A late reply is still awaited, so that the caller learns what was counted: for [`LATE`] at most, or until the connection closes. There
//! are [`MAX_LATE`] such batches at most; of others it stays unknown.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::super::failure::StoreError;
use super::exchange::{self, BatchResult};
use super::{Connection, Shared};
use crate::store::in_time::in_time;

/// How long an answer that is late is listened for. Its connection stays open for
/// as long, also where calls go by another one.
const LATE: Duration = Duration::from_secs(30);
/// Batches that are listened for at the same time on behalf of one link.
pub(super) const MAX_LATE: usize = 64;

impl Shared {
    /// Carries the next batch, if one may go now.
    pub(super) async fn deliver(self: Rc<Self>) {
        let Some((connection, batch)) = self.state.borrow_mut().next_batch() else { return };
        let Connection { mut wire, number } = connection;
        self.pump();
        let mut exchange = pin!(exchange::run(&mut wire, self.script, batch));
        match in_time(self.settings.timeout, exchange.as_mut()).await {
            Some(finished) => self.finished(finished, number),
            None => {
                let late = BatchResult { verdict: Err(StoreError::Timeout), again: Vec::new() };
                self.finished(late, number);
                self.await_late_replies(exchange).await;
            }
        }
    }

    /// A batch has landed: what follows from it, and for those that wait.
    fn finished(self: &Rc<Self>, BatchResult { verdict, again }: BatchResult, number: u64) {
        {
            let mut state = self.state.borrow_mut();
            state.queue.finished();
            if state.breaker.admits() {
                state.queue.put_back(again);
            }
        }
        self.judge(verdict, number);
        self.pump();
    }

    /// Waits for the answers of a batch that are late. They tell their callers what
    /// was counted. They say nothing for the server: it was late.
    async fn await_late_replies(&self, exchange: impl Future<Output = BatchResult>) {
        if self.state.borrow().late >= MAX_LATE {
            return;
        }
        self.state.borrow_mut().late += 1;
        // Calls that the connection broke under are told so; none is sent again.
        drop(timeout(LATE, exchange).await);
        self.state.borrow_mut().late -= 1;
    }
}
