//! Several shards locked at once.
//!
//! Each shard is locked once, in ascending order, and no lock is released before the last one
//! is taken. So decisions are atomic, and no deadlock is possible.

use std::ops::DerefMut;

use smallvec::SmallVec;

use super::counter::{answer, judge, keep, unspent};
use super::place::Place;
use super::shard::{Shard, Slot};
use crate::algorithm::{Op, State, Verdict};
use crate::store::{Answer, Answers, Charge};
use crate::time::Timestamp;

/// The locked shards of several keys.
///
/// The type of the guard is a parameter, so that a test can run this code with locks whose
/// threads it schedules itself.
pub(super) struct Locked<G> {
    indices: SmallVec<[usize; 4]>,
    shards: SmallVec<[G; 4]>,
}

/// A charge on its counter.
struct Step<'c> {
    charge: &'c Charge<'c>,
    place: &'c Place,
    slot: Option<Slot>,
    /// The next state of the counter.
    next: Option<State>,
}

impl<G: DerefMut<Target = Shard>> Locked<G> {
    /// Locks the shards of these places. `lock` locks the shard with an index.
    pub(super) fn new(places: &[Place], lock: impl Fn(usize) -> G) -> Self {
        let mut indices: SmallVec<[usize; 4]> = SmallVec::new();
        for place in places {
            // All counters of a principal are in one shard.
            if indices.last() != Some(&place.shard) {
                indices.push(place.shard);
            }
        }
        indices.sort_unstable();
        indices.dedup();
        let shards = indices.iter().map(|&index| lock(index)).collect();
        Self { indices, shards }
    }

    fn shard(&mut self, place: &Place) -> &mut Shard {
        let position = match self.indices.len() {
            1 => 0,
            _ => self.position(place),
        };
        &mut self.shards[position]
    }

    fn position(&self, place: &Place) -> usize {
        let position = self.indices.binary_search(&place.shard);
        position.expect("the shard of every place is locked")
    }

    /// Judges each charge, and stores all of their next states, or none.
    pub(super) fn decide(
        &mut self,
        charges: &[Charge<'_>],
        places: &[Place],
        now: Timestamp,
    ) -> Answers {
        // All keys are looked up before any charge is judged, so that their cache misses
        // overlap.
        let step = |(charge, place)| {
            let slot = self.shard(place).find(place);
            Step { charge, place, slot, next: None }
        };
        let mut steps: SmallVec<[Step<'_>; 4]> = charges.iter().zip(places).map(step).collect();
        let mut answers = Answers::with_capacity(steps.len());
        let mut is_refused = false;
        for step in &mut steps {
            let verdict = self.judge(step, now);
            is_refused |= step.charge.binding && !verdict.admitted;
            answers.push(answer(step.charge, step.next.as_ref(), verdict, now));
        }
        if is_refused {
            self.look(&steps, &mut answers, now);
        } else {
            self.keep(steps, &answers, now);
        }
        answers
    }

    fn judge(&mut self, step: &mut Step<'_>, now: Timestamp) -> Verdict {
        let Step { charge, place, slot, .. } = *step;
        let shard = self.shard(place);
        let (next, verdict) = judge(shard, place, slot, charge, Op::Take(charge.cost), now);
        if let Some(sample) = place.sample() {
            shard.promises.judged(place, sample, charge, &verdict, now);
        }
        step.next = next;
        verdict
    }

    /// Nothing was consumed, so the verdicts must not subtract the costs.
    fn look(&mut self, steps: &[Step<'_>], answers: &mut Answers, now: Timestamp) {
        for (step, answer) in steps.iter().zip(answers) {
            if answer.verdict.admitted {
                let Step { charge, place, slot, .. } = *step;
                let (_, before) = judge(self.shard(place), place, slot, charge, Op::Peek, now);
                *answer = Answer::of_store(unspent(before));
            }
        }
    }

    fn keep(&mut self, steps: SmallVec<[Step<'_>; 4]>, answers: &[Answer], now: Timestamp) {
        // A state of a new key may take the slot of another one.
        let has_new = steps.iter().any(|step| step.slot.is_none());
        for (Step { charge, place, slot, next }, answer) in steps.into_iter().zip(answers) {
            let shard = self.shard(place);
            let slot = if has_new { shard.find(place) } else { slot };
            keep(shard, place, slot, charge.algorithm, next, answer.verdict.remaining, now);
        }
    }
}
