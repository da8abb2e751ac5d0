//! One step on one counter in its shard.

use super::place::Place;
use super::shard::{Record, Shard, Slot};
use super::weight::Weight;
use crate::algorithm::{Algorithm, Op, Retry, State, Verdict};
use crate::store::{Answer, Charge};
use crate::time::{Span, Timestamp};

/// The verdict on a charge that fits but was not counted, from the verdict before it.
pub(super) fn unspent(before: Verdict) -> Verdict {
    Verdict { admitted: true, retry: Retry::Now, ..before }
}

/// The answer to a charge with this verdict at `now`, which has left this state.
pub(super) fn answer(
    charge: &Charge<'_>,
    next: Option<&State>,
    verdict: Verdict,
    now: Timestamp,
) -> Answer {
    let at = next.map(|state| charge.algorithm.counted_at(state, now));
    Answer { at: at.filter(|at| *at != now), ..Answer::of_store(verdict) }
}

/// The next state of a counter and the verdict on `op`.
pub(super) fn judge(
    shard: &Shard,
    place: &Place,
    slot: Option<Slot>,
    charge: &Charge<'_>,
    op: Op,
    now: Timestamp,
) -> (Option<State>, Verdict) {
    let state = shard.state(place, slot);
    let (next, verdict) = charge.algorithm.apply(state.as_deref(), op, now);
    #[cfg(test)]
    let verdict = super::promises::with_fault(verdict);
    if matches!(next, Some(State::InFlight { units: 1.. })) && !shard.can_hold(place) {
        // Units that cannot be stored cannot be limited.
        let retry = Retry::After(Span::SECOND);
        return (None, Verdict { admitted: false, remaining: 0, retry, ..verdict });
    }
    (next, verdict)
}

/// Stores the next state of a counter, which leaves so many units, if there is one.
pub(super) fn keep(
    shard: &mut Shard,
    place: &Place,
    slot: Option<Slot>,
    algorithm: &Algorithm,
    next: Option<State>,
    remaining: u64,
    now: Timestamp,
) {
    let Some(state) = next else { return };
    if let Some(sample) = place.sample() {
        shard.promises.changed(place, sample);
    }
    let expires_at = algorithm.expires_at(&state);
    let capacity = algorithm.capacity();
    let used = capacity.saturating_sub(remaining);
    let weight = Weight::new(algorithm, used, capacity, expires_at.since(now));
    let record = Record { state, expires_at, weight };
    shard.put(place, slot, record, now);
}
