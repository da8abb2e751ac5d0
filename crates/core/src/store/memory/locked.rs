//! Several shards locked at once.
//!
//! Each shard is locked once, in ascending order, and no lock is released before the last one
//! is taken. So decisions are atomic, and no deadlock is possible.

use std::ops::DerefMut;

use smallvec::SmallVec;

use super::counter::{judge, keep, unspent};
use super::place::Place;
use super::shard::{Shard, Slot};
use crate::algorithm::Op;
use crate::store::{Charge, Verdicts};
use crate::time::Timestamp;

/// The locked shards of several keys.
///
/// The type of the guard is a parameter, so that a test can run this code with locks whose
/// threads it schedules itself.
pub(super) struct Locked<G> {
    indices: SmallVec<[usize; 4]>,
    shards: SmallVec<[G; 4]>,
}

impl<G: DerefMut<Target = Shard>> Locked<G> {
    /// Locks the shards of these places. `lock` locks the shard with an index.
    pub(super) fn new(places: &[Place], lock: impl Fn(usize) -> G) -> Self {
        let mut indices: SmallVec<[usize; 4]> = places.iter().map(|place| place.shard).collect();
        indices.sort_unstable();
        indices.dedup();
        let shards = indices.iter().map(|&index| lock(index)).collect();
        Self { indices, shards }
    }

    fn shard(&mut self, place: &Place) -> &mut Shard {
        let position = self.indices.binary_search(&place.shard);
        &mut self.shards[position.expect("the shard of every place is locked")]
    }

    /// Judges each charge, and stores all of their next states, or none.
    pub(super) fn decide(
        &mut self,
        charges: &[Charge<'_>],
        places: &[Place],
        now: Timestamp,
    ) -> Verdicts {
        let placed = || charges.iter().zip(places);
        // All keys are looked up before any charge is judged, so that their cache misses
        // overlap.
        let slots: SmallVec<[Option<Slot>; 4]> =
            places.iter().map(|place| self.shard(place).find(place)).collect();
        let (mut nexts, mut verdicts) = (SmallVec::<[_; 4]>::new(), Verdicts::new());
        for ((charge, place), slot) in placed().zip(&slots) {
            let op = Op::Take(charge.cost);
            let (next, verdict) = judge(self.shard(place), place, *slot, charge, op, now);
            if let Some(sample) = place.sample() {
                self.shard(place).promises.judged((place, sample), charge, &verdict, now);
            }
            nexts.push(next);
            verdicts.push(verdict);
        }
        if charges.iter().zip(&verdicts).any(|(charge, it)| charge.binding && !it.admitted) {
            // Nothing was consumed, so the verdicts must not subtract the costs.
            for (((charge, place), slot), verdict) in placed().zip(&slots).zip(&mut verdicts) {
                if verdict.admitted {
                    let (_, before) = judge(self.shard(place), place, *slot, charge, Op::Peek, now);
                    *verdict = unspent(before);
                }
            }
        } else {
            for (((charge, place), next), verdict) in placed().zip(nexts).zip(&verdicts) {
                // A new lookup: storing one state may have taken another one's slot.
                let shard = self.shard(place);
                let slot = shard.find(place);
                keep(shard, place, slot, charge.algorithm, next, verdict.remaining, now);
            }
        }
        verdicts
    }
}
