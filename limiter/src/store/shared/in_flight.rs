//! The units that this node has in flight, and their renewal in the store.
//!
//! Units in flight are leased: the store forgets those of a node that has not
//! been heard of for 15 s, so that a crashed node's share comes back. A node
//! that lives says every 5 s how much it still holds, which also mends what a
//! store that was emptied has lost.
//!
//! Under a limit that many requests use at the same time, units that a request has
//! ended with are kept for the next one, which then makes no call. The store counts
//! them all the while, so no limit is exceeded. Near the limit none are kept, and
//! those that are not needed are given back after a fifth of a second.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Op, State};
use crate::digest::Key;
use crate::store::{Charge, Verdicts};
use crate::time::{Span, Timestamp};

/// How often a lease is renewed: of three times in a lease's length, two may fail.
const RENEWAL: Span = Span::from_secs(5);

/// Units of smaller limits are not kept: each of them matters to others at once.
const LEAST_LIMIT: u64 = 32;
/// Kept units are used for so long after the store has last been heard of: it counts
/// them for 15 s.
const HEARD_FOR: Span = Span::from_secs(10);

/// How keys are found. In tests the order of the table is the same in each run.
#[cfg(not(test))]
type Hashing = std::hash::RandomState;
#[cfg(test)]
type Hashing = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// What one worker holds in flight. It is bounded by the requests that it has
/// under way.
#[derive(Debug, Default)]
pub(in crate::store) struct InFlight {
    counters: HashMap<Key, Holding, Hashing>,
    renewed: Timestamp,
    /// Whether any of the counters is in doubt.
    doubts: bool,
    /// Whether units of any counter are kept.
    keeps: bool,
}

/// Units under one key.
#[derive(Debug)]
struct Holding {
    algorithm: Algorithm,
    /// In flight.
    units: u64,
    /// Kept for the next request: the store counts them, too.
    kept: u64,
    /// The least that was kept since the last look.
    idle: u64,
    /// How many units fitted when the store was last heard, and when it was asked.
    heard: (u64, Timestamp),
    /// The store was asked for them and has not answered: it may count them.
    asked: u64,
    /// The store was told while units were asked for: what it counts may still be more
    /// than is held.
    is_told: bool,
    /// The store may count units that are not held: an answer did not come.
    is_doubtful: bool,
}

/// What the store is told to count for this worker, in place of what it does.
#[derive(Debug)]
pub(in crate::store) struct Renewal {
    pub(in crate::store) key: Key,
    pub(in crate::store) algorithm: Algorithm,
    pub(in crate::store) units: u64,
    /// Units that it was asked for beside them. It knows how many of them it counts.
    pub(in crate::store) asked: u64,
}

/// Charges that the store was asked for, until this is dropped.
#[derive(Debug)]
#[must_use]
pub(in crate::store) struct Asking<'h> {
    held: &'h RefCell<InFlight>,
    charges: SmallVec<[(Key, u64); 1]>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut held = self.held.borrow_mut();
        for (key, units) in &self.charges {
            held.change(*key, |holding| holding.asked = holding.asked.saturating_sub(*units));
        }
    }
}

impl InFlight {
    /// The store is asked for these charges.
    pub(in crate::store) fn ask<'h, 'a: 'c, 'c>(
        held: &'h RefCell<Self>,
        charges: impl Iterator<Item = &'c Charge<'a>>,
    ) -> Asking<'h> {
        let in_flight = charges.filter(|it| is_in_flight(it));
        let asked = in_flight.map(|charge| {
            held.borrow_mut().holding(charge).asked += charge.cost;
            (charge.key, charge.cost)
        });
        Asking { held, charges: asked.collect() }
    }

    /// The store was asked at `now`, and has admitted this charge. After that as
    /// many units as `room` fit.
    pub(in crate::store) fn take(&mut self, charge: &Charge<'_>, room: u64, now: Timestamp) {
        if is_in_flight(charge) {
            let holding = self.holding(charge);
            holding.units += charge.cost;
            holding.heard = (room, now);
        }
    }

    /// The store was told at `now` what is held, and says that so many units fit.
    pub(in crate::store) fn hear(&mut self, key: Key, room: u64, now: Timestamp) {
        self.change(key, |holding| holding.heard = (room, now));
    }

    /// Takes kept units for all of these charges, if there are enough of each. The
    /// verdicts are those that the store would give, if others changed nothing.
    pub(in crate::store) fn spend<'a: 'c, 'c>(
        &mut self,
        charges: impl Iterator<Item = &'c Charge<'a>> + Clone,
        now: Timestamp,
    ) -> Option<Verdicts> {
        let has_enough = |charge: &Charge<'_>| {
            let holding = self.counters.get(&charge.key);
            holding.is_some_and(|it| it.kept >= charge.cost && it.keeps(now))
        };
        if !self.keeps || !charges.clone().all(has_enough) {
            return None;
        }
        let spend = |charge: &Charge<'_>| {
            let holding = self.holding(charge);
            holding.kept -= charge.cost;
            holding.idle = holding.idle.min(holding.kept);
            holding.units += charge.cost;
            let units = charge.algorithm.limit().saturating_sub(holding.heard.0 + charge.cost);
            let state = State::InFlight { units };
            charge.algorithm.apply(Some(&state), Op::Take(charge.cost), now).1
        };
        Some(charges.map(spend).collect())
    }

    /// Kept units of which no request had need since the last look, and those that
    /// must not be kept any more. They are given back.
    pub(in crate::store) fn unneeded(&mut self, now: Timestamp) -> Vec<Renewal> {
        let mut unneeded = Vec::new();
        if !mem::take(&mut self.keeps) {
            return unneeded;
        }
        self.counters.retain(|key, it| {
            let units = if it.keeps(now) { it.idle } else { it.kept };
            it.kept -= units;
            it.idle = it.kept;
            self.keeps |= it.kept > 0;
            if units > 0 {
                unneeded.push(Renewal {
                    key: *key,
                    algorithm: it.algorithm.clone(),
                    units,
                    asked: 0,
                });
            }
            !it.is_empty()
        });
        unneeded
    }

    /// The store may have counted units under this key of which it did not tell:
    /// soon it is told how many are held.
    pub(in crate::store) fn doubt(&mut self, key: Key, algorithm: &Algorithm) {
        let holding = self.entry(key, algorithm);
        (holding.is_doubtful, holding.is_told) = (true, false);
        self.doubts = true;
    }

    /// A request has ended with so many units. Returns how many of them the store is
    /// to be given back: all or nothing.
    pub(in crate::store) fn give(&mut self, key: Key, units: u64, now: Timestamp) -> u64 {
        let mut given = units;
        self.change(key, |holding| {
            if holding.units >= units && holding.keeps(now) {
                holding.kept += units;
                given = 0;
            }
            holding.units = holding.units.saturating_sub(units);
        });
        self.keeps |= given < units;
        given
    }

    /// All that is held, which from now on is not.
    pub(in crate::store) fn release(&mut self) -> Vec<Renewal> {
        let all = mem::take(&mut self.counters).into_iter();
        all.map(|(key, it)| Renewal { key, algorithm: it.algorithm, units: 0, asked: 0 }).collect()
    }

    /// What the store is told if it is time to, and at once where it is in doubt. Where
    /// units are being asked for meanwhile, a doubt is over only when it has been told
    /// without them.
    pub(in crate::store) fn due(&mut self, now: Timestamp) -> Vec<Renewal> {
        // A clock that was set back must not put it off.
        let is_time = now < self.renewed || now.since(self.renewed) >= RENEWAL;
        if !is_time && !self.doubts {
            return Vec::new();
        }
        if is_time {
            self.renewed = now;
        }
        let mut renewals = Vec::new();
        self.counters.retain(|key, it| {
            let is_urgent = it.is_doubtful && !(it.is_told && it.asked > 0);
            if !is_time && !is_urgent {
                return true;
            }
            if it.units + it.kept > 0 || it.is_doubtful {
                it.is_doubtful &= it.asked > 0;
                it.is_told = it.is_doubtful;
                let (algorithm, units) = (it.algorithm.clone(), it.units + it.kept);
                renewals.push(Renewal { key: *key, algorithm, units, asked: it.asked });
            }
            !it.is_empty()
        });
        self.doubts = self.counters.values().any(|it| it.is_doubtful);
        renewals
    }

    fn holding(&mut self, charge: &Charge<'_>) -> &mut Holding {
        self.entry(charge.key, charge.algorithm)
    }

    fn entry(&mut self, key: Key, algorithm: &Algorithm) -> &mut Holding {
        let holding = self.counters.entry(key).or_insert_with(|| Holding {
            algorithm: algorithm.clone(),
            units: 0,
            kept: 0,
            idle: 0,
            heard: (0, Timestamp::default()),
            asked: 0,
            is_told: false,
            is_doubtful: false,
        });
        // Its limit may be another one by now.
        if holding.algorithm != *algorithm {
            holding.algorithm = algorithm.clone();
        }
        holding
    }

    fn change(&mut self, key: Key, change: impl FnOnce(&mut Holding)) {
        if let Entry::Occupied(mut entry) = self.counters.entry(key) {
            change(entry.get_mut());
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }
}

impl Holding {
    fn is_empty(&self) -> bool {
        self.units + self.kept + self.asked == 0 && !self.is_doubtful
    }

    /// Whether units may be kept, and used when they are. Half of the limit must be
    /// free.
    fn keeps(&self, now: Timestamp) -> bool {
        let (limit, (room, heard)) = (self.algorithm.limit(), self.heard);
        let is_heard = now >= heard && now.since(heard) < HEARD_FOR;
        may_keep(&self.algorithm) && room >= limit / 2 && is_heard
    }
}

/// Whether units of ended requests may be kept for the next ones.
pub(in crate::store) fn may_keep(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Concurrency(_)) && algorithm.limit() >= LEAST_LIMIT
}

/// Whether the charge holds units until its request has ended.
pub(in crate::store) fn is_in_flight(charge: &Charge<'_>) -> bool {
    matches!(charge.algorithm, Algorithm::Concurrency(_)) && charge.cost > 0
}

#[cfg(test)]
mod tests;
