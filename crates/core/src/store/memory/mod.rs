//! States in this process, in memory of a fixed size.
//!
//! Keys are spread over shards. Each shard is a table of fixed size with its own lock (see
//! [`shard`]). All memory is reserved at the start and touched only when it is needed. No
//! table grows, moves or is swept. A key takes 38 bytes. With the spare slots that keep groups
//! from overflowing, it takes at most 50 bytes, from a hundred thousand keys on. A key with
//! sub-windows takes 4 more bytes for each of its counts and about 80 more.
//!
//! A log takes the bytes of its entries instead, and its limit bounds it.
//!
//! A decision over several keys locks all their shards in ascending order, each once (see
//! [`locked`]).

mod counter;
mod key_count;
mod locked;
mod once;
mod packed;
mod place;
mod promises;
mod shard;
mod slab;
#[cfg(test)]
mod tests;
mod weight;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};

pub use self::key_count::KeyCount;
pub use self::promises::PromiseCounts;
pub use self::shard::Forgiven;

use self::counter::{answer, judge, keep, unspent};
use self::locked::Locked;
use self::place::Place;
use self::shard::{Shard, WAYS};
use super::{Answer, Answers, Charge, HoldingTimes, Moved, Verdicts};
use crate::algorithm::{Algorithm, Op, State, Verdict};
use crate::digest::{Counter, Key};
use crate::time::{SLOWEST, Span, Timestamp};

/// The minimum number of shards, so that threads rarely wait for a lock.
const MIN_SHARDS: usize = 64;
/// The number of shards for each core.
const SHARDS_PER_CORE: usize = 4;
/// The slots of the near groups of all shards: about 600 KiB. See [`shard`].
const NEAR_SLOTS: usize = 16 * 1024;
/// A clock that goes back by more than this was set back. See [`crate::time::SLOWEST`].
const STEP: Span = Span::from_micros(SLOWEST.as_micros() / 2);
/// The maximum number of reserved keys: about 190 GB.
const MAX_KEYS: usize = 1 << 32;

/// States in this process.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Box<[Mutex<Shard>]>,
    /// The groups of a shard, and how many of them, from the first on, are near ones.
    groups: usize,
    near_groups: usize,
    holding: HoldingTimes,
    /// The time of the last housekeeping.
    kept_us: AtomicU64,
}

impl MemoryStore {
    /// A store with room for `max_keys` keys at the same time, at least 1 and at most 2^32. If
    /// there are more, it forgets those that have used the smallest part of their limits.
    pub fn new(max_keys: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_shards(max_keys, (SHARDS_PER_CORE * cores).next_power_of_two().max(MIN_SHARDS))
    }

    /// A store for the counters of one decision: at most four for each of 16 policies.
    pub fn of_one_decision() -> Self {
        Self::with_shards(256, 1)
    }

    /// `shards` is a power of two.
    fn with_shards(max_keys: usize, shards: usize) -> Self {
        let groups = groups_per_shard(max_keys.clamp(1, MAX_KEYS), shards);
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::new(groups, shards))).collect(),
            groups,
            near_groups: near_groups(groups, shards),
            holding: HoldingTimes::default(),
            kept_us: AtomicU64::new(0),
        }
    }

    /// The slots in which a key may be, from independent parts of its bits.
    fn place(&self, key: Key) -> Place {
        let key = key.bits();
        let part = |at: u32| usize::try_from(key >> at & 0xffff_ffff).expect("32 bits fit");
        let far_groups = self.groups - self.near_groups;
        let group = |at: u32| self.near_groups + ((part(at) * far_groups) >> 32);
        let near = ((part(0) >> 16) * self.near_groups) >> 16;
        Place {
            shard: part(0) & (self.shards.len() - 1),
            near: (self.near_groups > 0).then_some(near),
            groups: [group(64), group(96)],
            // From the half that differs among the counters of a principal: they share a near group.
            tag: key.to_le_bytes()[8],
            key,
        }
    }

    /// The verdicts of [`Store::apply`](super::Store::apply), without the times at which they count.
    pub fn apply(&self, charges: &[Charge<'_>], now: Timestamp) -> Verdicts {
        self.decide(charges, now).into_iter().map(|answer| answer.verdict).collect()
    }

    /// See [`Store::apply`](super::Store::apply).
    pub(crate) fn decide(&self, charges: &[Charge<'_>], now: Timestamp) -> Answers {
        match charges {
            [charge] => smallvec![self.take(charge, now)],
            _ => self.decide_together(charges, now),
        }
    }

    /// The same for a single charge.
    pub(crate) fn take(&self, charge: &Charge<'_>, now: Timestamp) -> Answer {
        let place = self.place(charge.key);
        let mut shard = self.shards[place.shard].lock();
        let slot = shard.find(&place);
        let (next, verdict) = judge(&shard, &place, slot, charge, Op::Take(charge.cost), now);
        if let Some(sample) = place.sample() {
            shard.promises.judged(&place, sample, charge, &verdict, now);
        }
        let answer = answer(charge, next.as_ref(), verdict, now);
        keep(&mut shard, &place, slot, charge.algorithm, next, verdict.remaining, now);
        answer
    }

    fn decide_together(&self, charges: &[Charge<'_>], now: Timestamp) -> Answers {
        let places: SmallVec<[Place; 4]> = charges.iter().map(|c| self.place(c.key)).collect();
        let mut locked = Locked::new(&places, |index| self.shards[index].lock());
        locked.decide(charges, &places, now)
    }

    /// Counts each charge alone, whether it fits or not. See [`Op::Count`].
    pub fn count(&self, charges: &[Charge<'_>], now: Timestamp) -> Verdicts {
        let count = |charge: &Charge<'_>| self.change(charge, Op::Count(charge.cost), now);
        charges.iter().map(count).collect()
    }

    /// Corrects a counter by an operation that is never refused: [`Op::Give`],
    /// [`Op::Cancel`], [`Op::Settle`] or [`Op::Peek`].
    pub fn correct(&self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        self.change(charge, op, now);
    }

    /// The same. Says how it has changed the counter.
    pub(super) fn correct_told(&self, charge: &Charge<'_>, op: Op, now: Timestamp) -> Moved {
        let place = self.place(charge.key);
        let mut shard = self.shards[place.shard].lock();
        let slot = shard.find(&place);
        let (_, before) = judge(&shard, &place, slot, charge, Op::Peek, now);
        let (next, verdict) = judge(&shard, &place, slot, charge, op, now);
        keep(&mut shard, &place, slot, charge.algorithm, next, verdict.remaining, now);
        let remaining = [before.remaining, verdict.remaining];
        Moved { remaining, reset_after: verdict.reset_after }
    }

    fn change(&self, charge: &Charge<'_>, op: Op, now: Timestamp) -> Verdict {
        let place = self.place(charge.key);
        let mut shard = self.shards[place.shard].lock();
        let slot = shard.find(&place);
        let (next, verdict) = judge(&shard, &place, slot, charge, op, now);
        keep(&mut shard, &place, slot, charge.algorithm, next, verdict.remaining, now);
        verdict
    }

    /// The verdict of [`apply`](Self::apply) on one charge of a request that another charge
    /// refuses.
    pub fn look(&self, charge: &Charge<'_>, now: Timestamp) -> Verdict {
        let place = self.place(charge.key);
        let shard = self.shards[place.shard].lock();
        let slot = shard.find(&place);
        let ask = |op| judge(&shard, &place, slot, charge, op, now).1;
        match ask(Op::Take(charge.cost)) {
            verdict if verdict.admitted => unspent(ask(Op::Peek)),
            verdict => verdict,
        }
    }

    /// The state of a counter. It may have expired.
    pub fn state(&self, key: Key) -> Option<State> {
        let place = self.place(key);
        let shard = self.shards[place.shard].lock();
        shard.state(&place, shard.find(&place)).map(Cow::into_owned)
    }

    /// Forgets a counter. Returns the units that it counted.
    pub fn take_out(&self, key: Key, algorithm: &Algorithm, now: Timestamp) -> u64 {
        let place = self.place(key);
        let mut shard = self.shards[place.shard].lock();
        let slot = shard.find(&place);
        let state = shard.state(&place, slot);
        let (_, verdict) = algorithm.apply(state.as_deref(), Op::Take(0), now);
        shard.forget(&place, slot);
        algorithm.capacity().saturating_sub(verdict.remaining)
    }

    /// Regular housekeeping. `now` is the clock that decisions use. If it was set back far,
    /// all states are forgotten except for units in flight. Otherwise they would last until the
    /// clock reaches the time at which they were counted.
    pub fn housekeep(&self, now: Timestamp) {
        let kept = Timestamp::from_micros(self.kept_us.swap(now.as_micros(), Ordering::Relaxed));
        if kept.since(now) > STEP {
            self.shards.iter().for_each(|shard| shard.lock().begin_anew());
        }
    }

    /// How long this node holds units in flight.
    pub const fn holding(&self) -> &HoldingTimes {
        &self.holding
    }

    /// Whether the store has a state of this counter that has not expired.
    pub fn holds(&self, key: Key, algorithm: &Algorithm, now: Timestamp) -> bool {
        let place = self.place(key);
        let shard = self.shards[place.shard].lock();
        let state = shard.state(&place, shard.find(&place));
        state.is_some_and(|state| algorithm.expires_at(&state) > now)
    }

    /// Replaces the state of a counter.
    pub fn put(&self, key: Key, algorithm: &Algorithm, state: State, now: Timestamp) {
        let (_, verdict) = algorithm.apply(Some(&state), Op::Take(0), now);
        self.put_known(key, algorithm, state, verdict.remaining, now);
    }

    /// Replaces the state of a counter, which is known to leave so many units.
    pub fn put_known(
        &self,
        key: Key,
        algorithm: &Algorithm,
        state: State,
        remaining: u64,
        now: Timestamp,
    ) {
        let place = self.place(key);
        let mut shard = self.shards[place.shard].lock();
        let slot = shard.find(&place);
        keep(&mut shard, &place, slot, algorithm, Some(state), remaining, now);
    }

    /// The number of keys whose state has not expired, with a tolerance of one second. It reads
    /// each slot, so it is for tests and measurements: see [`KeyCount`] otherwise.
    pub fn live_keys(&self, now: Timestamp) -> usize {
        let live = |shard: &Shard| shard.live_in(0..self.groups, now) + shard.held();
        self.shards.iter().map(|shard| live(&shard.lock())).sum()
    }

    /// Counts the live keys in the next part of the store, of at most 69,632 slots. Call it at
    /// intervals, with the same `count`. A round takes one call for each 57,000 keys for which
    /// the store has room. Returns how many slots were read.
    pub fn count_keys(&self, count: &mut KeyCount, now: Timestamp) -> usize {
        let live = |shard: usize, groups| self.shards[shard].lock().live_in(groups, now);
        count.step(self.shards.len(), self.groups, live)
    }

    /// The number of keys whose state has not expired, with a tolerance of one second, at the
    /// time when their part was counted. Units in flight are counted now.
    pub fn counted_keys(&self, count: &KeyCount) -> usize {
        count.sum() + self.shards.iter().map(|shard| shard.lock().held()).sum::<usize>()
    }

    /// Whether clients of a sample were admitted when they came back after the wait that they
    /// were told, by counter. See [`PromiseCounts`].
    pub fn promises(&self) -> HashMap<Counter, PromiseCounts> {
        let mut sums = HashMap::new();
        self.shards.iter().for_each(|shard| shard.lock().promises.add_to(&mut sums));
        sums
    }

    /// The states that were forgotten before they ended, because no slot was free. If this
    /// grows, `max_keys` is too small.
    pub fn forgiven(&self) -> Forgiven {
        let shards = self.shards.iter().map(|shard| shard.lock().forgiven());
        shards.fold(Forgiven::default(), |sum, shard| Forgiven {
            states: sum.states + shard.states,
            milli_limits: sum.milli_limits.saturating_add(shard.milli_limits),
        })
    }
}

/// The near groups of a shard. A small table has none: it stays in the caches as it is.
fn near_groups(groups: usize, shards: usize) -> usize {
    let near = (NEAR_SLOTS / WAYS / shards).max(1);
    if groups >= 4 * near { near } else { 0 }
}

/// The number of groups that `max_keys` keys fill to seven eighths. At that level two choices
/// of sixteen slots hardly ever fail. Four standard deviations are added for the shards that
/// get more keys than others.
fn groups_per_shard(max_keys: usize, shards: usize) -> usize {
    let keys = max_keys.div_ceil(shards);
    (keys * 8 / 7 + 4 * keys.isqrt()).div_ceil(WAYS)
}
