//! Late replies: replies that come after this node has decided their requests itself.
//!
//! If the store does not reply in time, this node decides the request. The late reply says
//! what the store has done, and corrects the counters:
//!
//! | store | this node | correction |
//! |---|---|---|
//! | admitted | admitted | the charge is removed from this node's share, so it counts once |
//! | admitted | refused | the units are given back to the store |
//! | refused | admitted | the units are charged in the store, or become a debt |
//! | refused | refused | none: nothing was counted |
//!
//! The states in the reply are recorded in any case. If no reply comes, for example because
//! the connection has closed, it stays unknown what was counted. Then the request is not
//! charged again.

use std::rc::Rc;

use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::store::{Charge, Decided, Source};
use tollgate_core::time::Timestamp;

use super::codec::{Answered, Ask, Asked, CounterReply, Encoder};
use super::deadline::LateReply;
use super::fan_out::{self, Part};
use super::pending::OwnedCharge;
use super::{Destination, RedisStore, StoreError};
use crate::shared::fallback;

/// The part of a request at one destination whose reply is late.
struct Overdue {
    destination: Destination,
    charges: SmallVec<[OverdueCharge; 1]>,
    /// Whether the request was admitted.
    is_admitted: bool,
    /// When the call was sent, by this node's clock.
    asked: Timestamp,
    /// When this node decided the request, by the store's clock.
    judged: Timestamp,
}

/// One charge of the part.
struct OverdueCharge {
    charge: OwnedCharge,
    ask: Ask,
    /// Whether this node has admitted it by its share.
    is_counted_locally: bool,
}

impl Overdue {
    /// The part and its charges.
    fn part(&self) -> (Part<'_>, SmallVec<[Charge<'_>; 4]>) {
        let mut part = Part::new(self.destination);
        for (index, it) in self.charges.iter().enumerate() {
            part.push(index, &it.charge.charge(), it.ask);
        }
        (part, self.charges.iter().map(|it| it.charge.charge()).collect())
    }

    /// The charges that this node has admitted by its shares and the store must count.
    fn counted_locally(&self) -> impl Iterator<Item = (usize, Charge<'_>)> {
        let counted = self.charges.iter().enumerate().filter(|(_, it)| it.is_counted_locally);
        let charges = counted.map(|(index, it)| (index, it.charge.charge()));
        charges.filter(|(_, charge)| fallback::consumes(charge.algorithm))
    }
}

impl RedisStore {
    /// Waits in the background for the late reply to `part` of a request that was `decided`
    /// without it. The call was sent at `now`, by this node's clock.
    pub(super) fn await_late(
        self: &Rc<Self>,
        encoder: &Rc<Encoder>,
        remote: &[Charge<'_>],
        (part, answer): (&Part<'_>, LateReply),
        decided: &Decided,
        now: Timestamp,
    ) {
        let is_admitted = !fan_out::refuses(remote, &decided.answers);
        let overdue_charge = |(&index, asked): (&usize, &Asked<'_>)| {
            let said = &decided.answers[index];
            let is_local = said.source == Source::Local && said.verdict.admitted;
            OverdueCharge {
                charge: OwnedCharge::of(&remote[index]),
                ask: asked.ask,
                is_counted_locally: is_admitted && is_local,
            }
        };
        let charges = part.indices.iter().zip(&part.asked).map(overdue_charge).collect();
        let judged = self.store_time(now);
        let overdue =
            Overdue { destination: part.destination, charges, is_admitted, asked: now, judged };
        part.indices.iter().for_each(|&index| self.node.local.ask(&remote[index]));
        let (store, encoder) = (Rc::clone(self), Rc::clone(encoder));
        self.background.begin(async move {
            let answer = answer.await;
            let (part, charges) = overdue.part();
            let answered = answer.map(|it| it.and_then(|it| store.node.decode(&part.asked, &it)));
            let is_known = matches!(answered, Some(Ok(_)));
            if let Some(answered) = answered {
                store.settle_late(&encoder, &overdue, &charges, &part, answered);
            }
            for charge in &charges {
                if !is_known {
                    store.node.local.doubt_ask(charge);
                }
                store.node.local.end_ask(charge);
            }
        });
    }

    fn settle_late(
        &self,
        encoder: &Encoder,
        overdue: &Overdue,
        charges: &[Charge<'_>],
        part: &Part<'_>,
        answered: Result<Answered, StoreError>,
    ) {
        let (now, nodes, fallback) = (self.clock.now(), self.nodes(), &self.node.fallback);
        let store_now = self.store_time(now);
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) if error.may_have_counted() => return,
            Err(_) => {
                let owe = |it: &Charge<'_>| {
                    let since = fallback.since(it, nodes, store_now);
                    fallback.owe(it, it.cost, since, store_now);
                };
                overdue.counted_locally().for_each(|(_, it)| owe(&it));
                return;
            }
        };
        if !answered.refused && !overdue.is_admitted {
            let mut refund = part.refund(&answered);
            refund.retain(|it| !matches!(it.algorithm, Algorithm::Concurrency(_)));
            self.post(encoder, part.destination, &refund, now);
            return;
        }
        self.learn(charges, &[(part, &answered)], answered.refused, overdue.asked);
        for (index, charge) in overdue.counted_locally() {
            // A charge that does not bind may be refused in a request that is admitted.
            match !answered.refused && answered.replies[index].verdict.admitted {
                true => fallback.counted_by_store(&charge, overdue.judged, nodes, store_now),
                false => self.charge_in_store(encoder, &charge, charge.cost, now),
            }
        }
        self.post(encoder, part.destination, &unspent(part, &answered), now);
    }
}

/// The operations that give back leased units, because no ledger has recorded the lease.
fn unspent<'a>(part: &Part<'a>, answered: &Answered) -> SmallVec<[Asked<'a>; 4]> {
    let leased = part.asked.iter().zip(&answered.replies).filter(|(_, it)| it.extra > 0);
    let give = |(asked, found): (&Asked<'a>, &CounterReply)| {
        let op = Op::Give { cost: found.extra, taken: answered.at };
        Asked::correction(asked.key, asked.algorithm, op)
    };
    leased.filter_map(give).collect()
}
