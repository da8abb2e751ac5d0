//! Refunds that are sent again: units that were given back while the store was away.

use std::rc::Rc;
use std::sync::Arc;

use tollgate_core::digest::Key;
use tollgate_core::time::{Clock, Timestamp};

use crate::codec::Encoder;
use crate::deadline::Reply;
use crate::shared::Asked;
use crate::shared::refunds::Refund;
use crate::store::{NodeState, RedisStore};

/// The maximum number of refunds that are sent at a time.
const MAX_AT_A_TIME: usize = 64;

impl RedisStore {
    /// The tasks that send refunds again to servers that are back. A refund is kept until its
    /// outcome is known.
    pub(super) fn send_refunds(
        &self,
        encoder: &Encoder,
        now: Timestamp,
    ) -> Vec<impl Future<Output = ()> + 'static> {
        if self.node.refunds.waiting() == 0 {
            return Vec::new();
        }
        let status = |key: &Key| self.server_status(encoder, key);
        let refunds = self.node.refunds.take(MAX_AT_A_TIME, self.store_time(now), status);
        self.report_debts_of(encoder, refunds.iter().map(|it| &it.key), now);
        let send = |refund: Refund| {
            let call = self.call_one(encoder, refund.key, &refund.algorithm, refund.ask(), now);
            let node = Arc::clone(&self.node);
            let denied = Rc::clone(&self.denied);
            let clock = self.clock.clone();
            async move {
                let key = refund.key;
                let mut is_late = false;
                let reply = call
                    .final_reply(|| {
                        is_late = true;
                        node.refunds.ended();
                    })
                    .await;
                if !is_late {
                    node.refunds.ended();
                }
                node.refunded(refund, reply, &clock);
                denied.borrow_mut().forget(&key);
                node.invalidations.announce(&key);
            }
        };
        refunds.into_iter().map(send).collect()
    }
}

impl NodeState {
    /// Records the outcome of a refund that was sent again.
    fn refunded(&self, refund: Refund, reply: Reply, clock: &Clock) {
        let Refund { key, ref algorithm, .. } = refund;
        let asked = [Asked { key, algorithm, ask: refund.ask(), binding: false }];
        match reply.and_then(|answer| self.decode(&asked, &answer)) {
            Ok(answered) => {
                let state = answered.after(&asked[0], 0);
                self.fallback.learn(key, algorithm, state.clone(), false, answered.at);
                self.local.returned(&key, state, answered.at);
            }
            Err(error) => {
                let now = self.local.store_time(clock.now());
                self.refunds.failed(refund, &error, now);
            }
        }
    }
}
