//! The units that this node has in flight, and their renewal in the store.
//!
//! Units in flight expire: the store forgets the units of a node that has not renewed them
//! for 15 s, so that the units of a crashed node become free. A node renews its units every
//! 5 s. This also restores them in a store that has lost its data.
//!
//! Under a large limit, the units of a request that has ended are kept for the next request,
//! which then needs no call. The store still counts them, so no limit is exceeded. Near the
//! limit no units are kept. Units that are not needed are given back after a fifth of a
//! second. Requests of one key may have different limits, by their plans, and the limit of a key
//! may change: what counts is the limit of the request that would use the units.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;

use smallvec::SmallVec;

use tollgate_core::algorithm::{Algorithm, Op, State};
use tollgate_core::digest::Key;
use tollgate_core::store::{Charge, Verdicts};
use tollgate_core::time::{Span, Timestamp};

/// The time between two renewals. Two of three in a row may fail before units expire.
const RENEWAL: Span = Span::from_secs(5);

/// Units of smaller limits are not kept, because each unit matters to other nodes at once.
const LEAST_LIMIT: u64 = 32;
/// How long kept units are used after the store's last reply. The store counts them for
/// 15 s.
const HEARD_FOR: Span = Span::from_secs(10);

/// The hasher of the table. In tests the order of the table is the same in each run.
#[cfg(not(test))]
type Hashing = std::hash::RandomState;
#[cfg(test)]
type Hashing = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// The units that one worker holds in flight. It is bounded by the number of its concurrent
/// requests.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
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
    /// Units in flight.
    units: u64,
    /// Units that are kept for the next request. The store counts them, too.
    kept: u64,
    /// The minimum of `kept` since the last look.
    idle: u64,
    /// How many units the store counted by its last reply, and when that call was sent.
    heard: (u64, Timestamp),
    /// Units of calls without a reply. The store may count them.
    asked: u64,
    /// Whether a renewal was sent while calls had no reply. The store may still count more
    /// than is held.
    is_told: bool,
    /// Whether the store may count units that are not held, because a reply is missing.
    is_doubtful: bool,
}

/// The units that the store must count for this worker from now on.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) key: Key,
    pub(crate) algorithm: Algorithm,
    pub(crate) units: u64,
    /// Units of calls without a reply. The store knows how many of them it counts.
    pub(crate) asked: u64,
}

/// Marks charges as calls without a reply, until it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Asking<'h> {
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
    /// Marks these charges as calls without a reply.
    pub(crate) fn ask<'h, 'c>(
        held: &'h RefCell<Self>,
        charges: impl Iterator<Item = Charge<'c>>,
    ) -> Asking<'h> {
        let in_flight = charges.filter(is_in_flight);
        let asked = in_flight.map(|charge| {
            held.borrow_mut().holding(&charge).asked += charge.cost;
            (charge.key, charge.cost)
        });
        Asking { held, charges: asked.collect() }
    }

    /// Records that the store, in the reply to a call sent at `now`, has admitted this charge.
    /// `room` more units fit.
    pub(crate) fn take(&mut self, charge: &Charge<'_>, room: u64, now: Timestamp) {
        if is_in_flight(charge) {
            let holding = self.holding(charge);
            holding.units += charge.cost;
            holding.heard = (counted(charge.algorithm, room), now);
        }
    }

    /// Records that the store, in the reply to a renewal sent at `now`, says that `room` units
    /// fit under the limit of this algorithm.
    pub(crate) fn hear(&mut self, key: Key, algorithm: &Algorithm, room: u64, now: Timestamp) {
        self.change(key, |holding| holding.heard = (counted(algorithm, room), now));
    }

    /// Takes kept units for all these charges, if there are enough for each. The verdicts are
    /// those of the store if no other node has changed the counters.
    pub(crate) fn spend<'c>(
        &mut self,
        charges: impl Iterator<Item = Charge<'c>> + Clone,
        now: Timestamp,
    ) -> Option<Verdicts> {
        let has_enough = |charge: Charge<'_>| {
            let holding = self.counters.get(&charge.key);
            holding.is_some_and(|it| it.kept >= charge.cost && it.keeps(charge.algorithm, now))
        };
        if !self.keeps || !charges.clone().all(has_enough) {
            return None;
        }
        let spend = |charge: Charge<'_>| {
            let holding = self.holding(&charge);
            holding.kept -= charge.cost;
            holding.idle = holding.idle.min(holding.kept);
            holding.units += charge.cost;
            let state = State::InFlight { units: holding.heard.0.saturating_sub(charge.cost) };
            charge.algorithm.apply(Some(&state), Op::Take(charge.cost), now).1
        };
        Some(charges.map(spend).collect())
    }

    /// Kept units that no request needed since the last look, and those that must not be kept
    /// any more. The caller gives them back.
    pub(crate) fn unneeded(&mut self, now: Timestamp) -> Vec<Renewal> {
        let mut unneeded = Vec::new();
        if !mem::take(&mut self.keeps) {
            return unneeded;
        }
        self.counters.retain(|key, it| {
            let units = if it.keeps(&it.algorithm, now) { it.idle } else { it.kept };
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

    /// Records that a reply for this key is missing, so that the store may count more units
    /// than are held. The next renewal corrects it.
    pub(crate) fn doubt(&mut self, key: Key, algorithm: &Algorithm) {
        let holding = self.entry(key, algorithm);
        (holding.is_doubtful, holding.is_told) = (true, false);
        self.doubts = true;
    }

    /// Records that a request with these units has ended. Returns the units that must be given
    /// back to the store: all, or 0 if they are kept.
    pub(crate) fn give(&mut self, key: Key, units: u64, now: Timestamp) -> u64 {
        let mut given = units;
        self.change(key, |holding| {
            if holding.units >= units && holding.keeps(&holding.algorithm, now) {
                holding.kept += units;
                given = 0;
            }
            holding.units = holding.units.saturating_sub(units);
        });
        self.keeps |= given < units;
        given
    }

    /// Releases all units. Returns the renewals that set them to 0 in the store.
    pub(crate) fn release(&mut self) -> Vec<Renewal> {
        let all = mem::take(&mut self.counters).into_iter();
        all.map(|(key, it)| Renewal { key, algorithm: it.algorithm, units: 0, asked: 0 }).collect()
    }

    /// The renewals that are due. A counter in doubt is renewed at once. If calls without a
    /// reply exist, its doubt ends only with a renewal after their replies.
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<Renewal> {
        // A clock that was set back must not delay renewals.
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
                let algorithm = it.algorithm.clone();
                let units = it.units + it.kept;
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
            heard: (u64::MAX, Timestamp::default()),
            asked: 0,
            is_told: false,
            is_doubtful: false,
        });
        // Its limit may have changed.
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

    /// Whether units may be kept, and used under the limit of this algorithm. Half of it must be
    /// free.
    fn keeps(&self, algorithm: &Algorithm, now: Timestamp) -> bool {
        let (counted, heard) = self.heard;
        let is_heard = now >= heard && now.since(heard) < HEARD_FOR;
        may_keep(algorithm) && counted <= algorithm.limit().div_ceil(2) && is_heard
    }
}

/// How many units the store counts if `room` more fit under the limit of this algorithm. If none fits,
/// it may count any number above the limit.
fn counted(algorithm: &Algorithm, room: u64) -> u64 {
    if room == 0 { u64::MAX } else { algorithm.limit().saturating_sub(room) }
}

/// Whether units of ended requests may be kept for the next requests.
pub(crate) fn may_keep(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Concurrency(_)) && algorithm.limit() >= LEAST_LIMIT
}

/// Whether the charge holds units until its request has ended.
pub(crate) fn is_in_flight(charge: &Charge<'_>) -> bool {
    matches!(charge.algorithm, Algorithm::Concurrency(_)) && charge.cost > 0
}

#[cfg(test)]
mod tests;
