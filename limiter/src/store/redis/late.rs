//! Answers that come after their requests were judged without them.
//!
//! A request that the store has not answered in time is judged by this node
//! alone. The answer tells what the store has done, and settles the account:
//!
//! | there | here | |
//! |---|---|---|
//! | admitted | admitted | charged once: what this node counted of its share is given back |
//! | admitted | refused | the store gets it back |
//! | refused | admitted | the store is told of it, as a debt |
//! | refused | refused | nothing was counted |
//!
//! Whatever it says of the counters is learnt. If no answer comes, as of a
//! connection that has closed, it stays unknown what was counted; then the request is not charged
//! again.

use std::rc::Rc;

use smallvec::SmallVec;

use super::codec::{Answered, Ask, Asked, Encoder, Finding, decode};
use super::deadline::LateReply;
use super::fan_out::{self, Part, Wanted};
use super::question::OwnedCharge;
use super::{Destination, RedisStore, StoreError};
use crate::algorithm::{Algorithm, Op};
use crate::store::shared::fallback;
use crate::store::{Charge, Decided, Source};
use crate::time::Timestamp;

/// What one place was asked for a request that was judged without its answer.
struct Overdue {
    destination: Destination,
    charges: SmallVec<[OverdueCharge; 1]>,
    /// Whether the request was admitted.
    is_admitted: bool,
    /// When it was asked for, by this node's clock.
    asked: Timestamp,
    /// When it was judged, by the store's clock.
    judged: Timestamp,
}

/// One charge of it.
struct OverdueCharge {
    charge: OwnedCharge,
    ask: Ask,
    /// This node has admitted it by its share.
    is_counted_locally: bool,
}

impl Overdue {
    fn wanted(&self) -> SmallVec<[Wanted<'_>; 4]> {
        self.charges.iter().map(|it| Wanted { charge: it.charge.charge(), ask: it.ask }).collect()
    }

    /// What this node has admitted by its shares, and the store must count.
    fn counted_locally(&self) -> impl Iterator<Item = (usize, Charge<'_>)> {
        let counted = self.charges.iter().enumerate().filter(|(_, it)| it.is_counted_locally);
        let charges = counted.map(|(index, it)| (index, it.charge.charge()));
        charges.filter(|(_, charge)| fallback::consumes(charge.algorithm))
    }
}

impl RedisStore {
    /// Waits for what `part` of a request may still be answered that is `decided`
    /// without it, at `now` by this node's clock.
    pub(super) fn await_late(
        self: &Rc<Self>,
        encoder: &Rc<Encoder>,
        wanted: &[Wanted<'_>],
        (part, answer): (&Part<'_>, LateReply),
        decided: &Decided,
        now: Timestamp,
    ) {
        let is_admitted = !fan_out::refuses(wanted.iter().map(|it| &it.charge), &decided.answers);
        let overdue_charge = |&index: &usize| {
            let (Wanted { charge, ask }, said) = (&wanted[index], &decided.answers[index]);
            let is_local = said.source == Source::Local && said.verdict.admitted;
            OverdueCharge {
                charge: OwnedCharge::of(charge),
                ask: *ask,
                is_counted_locally: is_admitted && is_local,
            }
        };
        let charges = part.indices.iter().map(overdue_charge).collect();
        let judged = self.store_time(now);
        let overdue =
            Overdue { destination: part.destination, charges, is_admitted, asked: now, judged };
        let (store, encoder) = (Rc::clone(self), Rc::clone(encoder));
        self.background.begin(async move {
            let Some(answer) = answer.await else { return };
            let wanted = overdue.wanted();
            if let Some(part) = Part::split(&wanted, |_| overdue.destination).first() {
                let answered = answer.and_then(|answer| Ok(decode(&part.asked, &answer)?));
                store.settle_late(&encoder, &overdue, &wanted, part, answered);
            }
        });
    }

    fn settle_late(
        &self,
        encoder: &Encoder,
        overdue: &Overdue,
        wanted: &[Wanted<'_>],
        part: &Part<'_>,
        answered: Result<Answered, StoreError>,
    ) {
        let (now, nodes, fallback) = (self.clock.now(), self.nodes(), &self.shared.fallback);
        let store_now = self.store_time(now);
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) if error.may_have_counted() => return,
            Err(_) => {
                overdue.counted_locally().for_each(|(_, it)| fallback.owe(&it, it.cost, store_now));
                return;
            }
        };
        if !answered.refused && !overdue.is_admitted {
            let mut refund = part.refund(&answered);
            refund.retain(|it| !matches!(it.algorithm, Algorithm::Concurrency(_)));
            self.post(encoder, part.destination, &refund, now);
            return;
        }
        self.learn(wanted, &[(part, &answered)], answered.refused, overdue.asked);
        for (index, charge) in overdue.counted_locally() {
            // A charge that does not bind may be refused in a request that is not.
            match !answered.refused && answered.findings[index].verdict.admitted {
                true => fallback.counted_by_store(&charge, overdue.judged, nodes, store_now),
                false => self.charge_in_store(encoder, &charge, charge.cost, now),
            }
        }
        self.post(encoder, part.destination, &unspent(part, &answered), now);
    }
}

/// What gives back that was leased beside the costs: no ledger knows of it.
fn unspent<'a>(part: &Part<'a>, answered: &Answered) -> SmallVec<[Asked<'a>; 4]> {
    let leased = part.asked.iter().zip(&answered.findings).filter(|(_, it)| it.extra > 0);
    let give = |(asked, found): (&Asked<'a>, &Finding)| {
        let op = Op::Give { cost: found.extra, taken: answered.at };
        Asked::correction(asked.key, asked.algorithm, op)
    };
    leased.filter_map(give).collect()
}
