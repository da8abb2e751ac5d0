//! A correction that is made once.

use super::MemoryStore;
use super::counter::{judge, keep};
use super::place::Place;
use super::shard::Shard;
use crate::algorithm::{Op, Verdict};
use crate::store::{Charge, Mark, Marked, Moved};
use crate::time::Timestamp;

impl MemoryStore {
    /// Sets the mark and corrects the counter beside it under one lock. If the mark was set
    /// before, nothing changes. If the store forgets the mark because it is full, the lease can
    /// be settled again; it forgets counters first that are used less. Says how the correction has
    /// changed the counter, if it is made.
    pub fn correct_once(
        &self,
        charge: &Charge<'_>,
        op: Op,
        mark: &Mark,
        now: Timestamp,
    ) -> (Marked, Option<Moved>) {
        let setting = mark.charge(charge.key);
        let [place, marked] = [charge.key, setting.key].map(|key| self.place(key));
        debug_assert_eq!(place.shard, marked.shard, "a mark has its counter's shard");
        let mut shard = self.shards[place.shard].lock();
        let outcome =
            Mark::outcome(&step(&mut shard, &marked, &setting, Op::Take(setting.cost), now));
        let moved = (outcome == Marked::Now).then(|| {
            let slot = shard.find(&place);
            let (_, before) = judge(&shard, &place, slot, charge, Op::Peek, now);
            let after = step(&mut shard, &place, charge, op, now);
            let remaining = [before.remaining, after.remaining];
            Moved { remaining, reset_after: after.reset_after }
        });
        (outcome, moved)
    }

    /// Sets a mark beside a counter of another store.
    pub fn mark(&self, charge: &Charge<'_>, mark: &Mark, now: Timestamp) -> Marked {
        let setting = mark.charge(charge.key);
        let place = self.place(setting.key);
        let mut shard = self.shards[place.shard].lock();
        Mark::outcome(&step(&mut shard, &place, &setting, Op::Take(setting.cost), now))
    }
}

fn step(shard: &mut Shard, place: &Place, charge: &Charge<'_>, op: Op, now: Timestamp) -> Verdict {
    let slot = shard.find(place);
    let (next, verdict) = judge(shard, place, slot, charge, op, now);
    keep(shard, place, slot, charge.algorithm, next, verdict.remaining, now);
    verdict
}
