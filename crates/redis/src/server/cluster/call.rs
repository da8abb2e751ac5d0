//! One call in a cluster: to the node that the map has for its slot, and to another node if
//! that node redirects.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tollgate_core::in_time::in_time;
use tollgate_core::time::monotonic;

use super::{Node, Shared};
use crate::StoreError;
use crate::batch::Repeat;
use crate::deadline::{LateReply, PendingReply, Reply};
use crate::script::Encoded;

/// A pending call. All steps except the first are rare, and are boxed.
pub(in crate::server) struct ClusterCall {
    shared: Rc<Shared>,
    slot: u16,
    encoded: Encoded,
    /// The deadline of the call, however many nodes are asked.
    deadline: Instant,
    step: Step,
}

enum Step {
    /// The first node is asked.
    First(Rc<Node>, PendingReply),
    /// Another node is asked, or the call waits for the map.
    Further(LocalBoxFuture<'static, Further>),
    /// The reply was returned.
    Over(Option<LateReply>),
}

/// The reply of another node, or none, and then the late reply.
type Further = (Reply, Option<LateReply>);

impl fmt::Debug for ClusterCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterCall").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl ClusterCall {
    pub(super) fn begin(
        shared: &Rc<Shared>,
        slot: u16,
        encoded: Encoded,
        repeat: Repeat,
        deadline: Instant,
    ) -> Self {
        let step = match shared.begin(slot, &encoded, repeat, deadline) {
            Some((node, answer)) => Step::First(node, answer),
            None => {
                let shared = Rc::clone(shared);
                let encoded = encoded.clone();
                let later = Self::begin_later(shared, slot, encoded, repeat, deadline);
                Step::Further(later.boxed_local())
            }
        };
        Self { shared: Rc::clone(shared), slot, encoded, deadline, step }
    }

    /// Waits for the map, to learn the first node.
    async fn begin_later(
        shared: Rc<Shared>,
        slot: u16,
        encoded: Encoded,
        repeat: Repeat,
        deadline: Instant,
    ) -> Further {
        // If the map does not come in time, no node is known.
        let _ = in_time(until(deadline), shared.has_settled()).await;
        let Some((node, answer)) = shared.begin(slot, &encoded, repeat, deadline) else {
            shared.stale.notify_one();
            return (Err(StoreError::Away), None);
        };
        let mut call = Self { shared, slot, encoded, deadline, step: Step::First(node, answer) };
        let answer = (&mut call).await;
        (answer, call.give_up())
    }

    /// How often the call was sent: 0 if no node can have received it.
    pub(in crate::server) fn times_sent(&self) -> u8 {
        match &self.step {
            Step::First(_, answer) => answer.times_sent(),
            Step::Further(_) | Step::Over(_) => 1,
        }
    }

    /// The late reply of the node that was asked last, if it may still come.
    pub(in crate::server) fn give_up(self) -> Option<LateReply> {
        match self.step {
            Step::First(_, answer) => answer.give_up(),
            Step::Further(_) => None,
            Step::Over(late) => late,
        }
    }

    /// The step after a reply of the first node that is no answer: another node is asked, if
    /// the first node redirects.
    fn further(&self, node: &Node, error: &StoreError) -> Option<Step> {
        if *error == StoreError::Overloaded {
            return None;
        }
        self.shared.stale.notify_one();
        let (link, asking) = self.shared.redirected(error, self.slot, node)?;
        let encoded = self.encoded.clone();
        let mut answer = link.call(encoded, Repeat::Never, self.deadline, self.slot, asking);
        let answer = async move {
            // The link exists until the call has ended.
            let _link = link;
            let said = (&mut answer).await;
            (said, answer.give_up())
        };
        Some(Step::Further(answer.boxed_local()))
    }
}

impl Future for ClusterCall {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let answer = match &mut self.step {
            Step::First(_, answer) => ready!(Pin::new(answer).poll(cx)),
            Step::Further(answer) => {
                let (answer, late) = ready!(answer.as_mut().poll(cx));
                self.step = Step::Over(late);
                return Poll::Ready(answer);
            }
            Step::Over(_) => return Poll::Ready(Err(StoreError::Timeout)),
        };
        let next = match (&answer, &self.step) {
            (Err(error), Step::First(node, _)) => self.further(node, error),
            _ => None,
        };
        match next {
            None => Poll::Ready(answer),
            Some(step) => {
                self.step = step;
                self.poll(cx)
            }
        }
    }
}

fn until(deadline: Instant) -> std::time::Duration {
    deadline.saturating_duration_since(monotonic())
}
