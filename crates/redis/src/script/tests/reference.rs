//! The algorithms alone on a plain map, which the script must agree with.

use std::collections::HashMap;

use tollgate_core::algorithm::{Op, Retry, State, Verdict};
use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

use crate::codec::{Ask, Asked, CounterReply};

/// States by key. Expired states are removed when they are stored, as in the stores.
#[derive(Default)]
pub(super) struct Reference(HashMap<Key, State>);

impl Reference {
    /// Judges one body, and stores its changes unless it is refused. The replies are without the
    /// states before.
    pub(super) fn ask(&mut self, asked: &[Asked<'_>], now: Timestamp) -> Vec<CounterReply> {
        let (replies, nexts): (Vec<_>, Vec<_>) =
            asked.iter().map(|asked| self.judge(asked, now)).unzip();
        let refuses = |(asked, reply): (&Asked<'_>, &CounterReply)| {
            asked.binding && asked.ask != Ask::Peek && !reply.verdict.admitted
        };
        let refused = asked.iter().zip(&replies).any(refuses);
        if refused {
            return asked.iter().zip(replies).map(|(a, f)| self.unspent(a, f, now)).collect();
        }
        for (asked, next) in asked.iter().zip(nexts) {
            match next {
                None => {}
                Some(next) if asked.algorithm.expires_at(&next) > now => {
                    self.0.insert(asked.key, next);
                }
                Some(_) => {
                    self.0.remove(&asked.key);
                }
            }
        }
        replies
    }

    fn judge(&self, asked: &Asked<'_>, now: Timestamp) -> (CounterReply, Option<State>) {
        let apply = |op| asked.algorithm.apply(self.0.get(&asked.key), op, now);
        let (op, extra) = match asked.ask {
            Ask::Peek => (Op::Peek, 0),
            Ask::Take(cost) => (Op::Take(cost), 0),
            Ask::Count(cost) => (Op::Count(cost), 0),
            Ask::Lease { cost, ahead } => {
                let room = apply(Op::Take(0)).1.remaining;
                let extra = room.checked_sub(cost).map_or(0, |free| ahead.granted(free));
                (Op::Take(cost + extra), extra)
            }
            Ask::Give { cost, taken } => (Op::Give { cost, taken }, 0),
            Ask::Cancel { cost, taken } => (Op::Cancel { cost, taken }, 0),
            Ask::Charge(actual) => (Op::Settle { reserved: 0, actual, taken: now }, 0),
            Ask::Renew { .. } | Ask::Reset | Ask::ResetAll => {
                unreachable!("these have tests of their own")
            }
        };
        let (next, verdict) = apply(op);
        (CounterReply { before: None, verdict, extra }, next)
    }

    /// The reply to one operation of a body that was refused.
    fn unspent(&self, asked: &Asked<'_>, reply: CounterReply, now: Timestamp) -> CounterReply {
        if !reply.verdict.admitted {
            return reply;
        }
        let (_, before) = asked.algorithm.apply(self.0.get(&asked.key), Op::Peek, now);
        let verdict = Verdict { admitted: true, retry: Retry::Now, ..before };
        CounterReply { before: None, verdict, extra: 0 }
    }
}
