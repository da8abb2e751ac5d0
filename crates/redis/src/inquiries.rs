//! Questions about clients that are known to be refused: at most one at a time for each key.
//!
//! The first such request of a key asks the store. The others wait for its reply, and are
//! then answered from the cache. So a client that sends requests without a pause causes one
//! call at a time for each worker.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::timeout_at;

use tollgate_core::digest::Key;

/// The questions of one worker that have no reply yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Inquiries(Rc<RefCell<HashMap<Key, Arc<Notify>>>>);

/// What a request does that needs the reply to a question.
pub(super) enum Turn {
    /// It asks. The question ends when this is dropped.
    Ask(Inquiry),
    /// Another request asks. This one waits.
    Wait(Reply),
}

/// A question that has no reply yet.
pub(super) struct Inquiry {
    inquiries: Inquiries,
    key: Key,
}

/// The end of the question of another request.
pub(super) struct Reply(OwnedNotified);

impl Inquiries {
    /// Begins a question about this key, unless one has no reply yet.
    pub(super) fn begin(&self, key: Key) -> Turn {
        let mut under_way = self.0.borrow_mut();
        if let Some(other) = under_way.get(&key) {
            return Turn::Wait(Reply(Arc::clone(other).notified_owned()));
        }
        under_way.insert(key, Arc::default());
        Turn::Ask(Inquiry { inquiries: self.clone(), key })
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        if let Some(over) = self.inquiries.0.borrow_mut().remove(&self.key) {
            over.notify_waiters();
        }
    }
}

impl Reply {
    /// Waits for it, until the deadline at the latest.
    pub(super) async fn by(self, deadline: Instant) {
        let _ = timeout_at(deadline.into(), self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::algorithm::{Algorithm, Quota, SlidingLog};
    use tollgate_core::time::Span;

    use crate::shared::testing::charge;
    use futures_util::FutureExt as _;

    use super::*;

    /// Requests of one client without a pause cause one question, and the others wait for it.
    #[tokio::test(flavor = "current_thread")]
    async fn one_question_at_a_time_is_under_way_for_a_key() {
        let quota = Quota::new(1, Span::SECOND).unwrap();
        let algorithm = Algorithm::SlidingLog(SlidingLog::new(quota).unwrap());
        let [one, other] = [1, 2].map(|client| charge(client, &algorithm, 1).key);
        let inquiries = Inquiries::default();
        let far = tollgate_core::time::monotonic() + Duration::from_secs(60);
        let Turn::Ask(first) = inquiries.begin(one) else { panic!("no question is under way") };
        assert!(matches!(inquiries.begin(other), Turn::Ask(_)));
        let followers: Vec<_> = (0..3)
            .map(|_| match inquiries.begin(one) {
                Turn::Wait(reply) => Box::pin(reply.by(far)),
                Turn::Ask(_) => panic!("a question is under way"),
            })
            .collect();
        let mut followers = followers.into_iter();
        let mut waiting = followers.next().unwrap();
        assert_eq!(waiting.as_mut().now_or_never(), None);
        drop(first);
        waiting.await;
        for reply in followers {
            assert_eq!(reply.now_or_never(), Some(()), "it was not polled before");
        }
        assert!(matches!(inquiries.begin(one), Turn::Ask(_)));
        assert!(inquiries.0.borrow().is_empty(), "nothing is kept of a question that has ended");
    }
}
