//! The states that one server keeps, and what its script does to them: what the
//! algorithms themselves do, which the conformance tests hold the script to.

use std::collections::BTreeMap;

use tollgate_core::algorithm::{Algorithm, Op, State};
use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

use super::journal::Part;
use crate::codec::Ask;

/// What a node holds in flight counts for so many seconds.
const LEASE_S: u64 = 15;

/// What the server said to one body.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) refused: bool,
    pub(super) at: Timestamp,
    /// The states as they were before.
    pub(super) before: Vec<Option<State>>,
    /// The units that were taken, for each part.
    pub(super) taken: Vec<u64>,
}

/// The states of one server.
#[derive(Clone, Default)]
pub(super) struct Counters {
    states: BTreeMap<Key, State>,
    /// Units in flight by worker, and the second at which they are forgotten.
    in_flight: BTreeMap<Key, BTreeMap<u32, (u64, u64)>>,
}

impl Counters {
    /// Decides one body, and keeps what it changes unless it is refused.
    pub(super) fn decide(&mut self, worker: u32, asked: &[Part], now: Timestamp) -> Outcome {
        let before: Vec<_> = asked.iter().map(|it| self.state(it.key, now)).collect();
        let mut taken = vec![0; asked.len()];
        let mut nexts = Vec::new();
        let mut refused = false;
        for ((part, state), taken) in asked.iter().zip(&before).zip(&mut taken) {
            let apply = |op| part.algorithm.apply(state.as_ref(), op, now);
            let op = match part.ask {
                Ask::Take(cost) => Op::Take(cost),
                Ask::Count(cost) => Op::Count(cost),
                Ask::Lease { cost, ahead } => {
                    let room = apply(Op::Take(0)).1.remaining;
                    let extra = room.checked_sub(cost).map_or(0, |free| ahead.granted(free));
                    Op::Take(cost + extra)
                }
                Ask::Give { cost, taken } => Op::Give { cost, taken },
                Ask::Cancel { cost, taken } => Op::Cancel { cost, taken },
                Ask::Charge(actual) => Op::Settle { reserved: 0, actual, taken: now },
                Ask::Peek | Ask::Renew { .. } | Ask::Reset | Ask::ResetAll => Op::Peek,
            };
            let (next, verdict) = apply(op);
            if let Op::Take(cost) = op {
                *taken = if verdict.admitted { cost } else { 0 };
                refused |= part.binding && !verdict.admitted;
            }
            nexts.push((next, verdict.admitted));
        }
        if refused {
            taken.fill(0);
        } else {
            for (part, (next, admitted)) in asked.iter().zip(nexts) {
                self.keep(worker, part, next, admitted, now);
            }
        }
        Outcome { refused, at: now, before, taken }
    }

    fn keep(
        &mut self,
        worker: u32,
        part: &Part,
        next: Option<State>,
        admitted: bool,
        now: Timestamp,
    ) {
        match (&part.algorithm, part.ask) {
            (_, Ask::Reset) => self.forget(part.key),
            (_, Ask::ResetAll) => {
                let principal = part.key.principal;
                self.states.retain(|key, _| key.principal != principal);
                self.in_flight.retain(|key, _| key.principal != principal);
            }
            (Algorithm::Concurrency(_), ask) => {
                self.hold(worker, part.key, ask, admitted, now);
            }
            _ => match next {
                None => {}
                Some(next) if part.algorithm.expires_at(&next) > now => {
                    self.states.insert(part.key, next);
                }
                Some(_) => {
                    self.states.remove(&part.key);
                }
            },
        }
    }

    fn hold(&mut self, worker: u32, key: Key, ask: Ask, admitted: bool, now: Timestamp) {
        let ends_s = now.as_secs() + LEASE_S;
        let held = self.in_flight.entry(key).or_default();
        held.retain(|_, (_, ends_s)| *ends_s > now.as_secs());
        let own = held.get(&worker).map_or(0, |&(units, _)| units);
        match ask {
            Ask::Take(cost) if admitted => {
                held.insert(worker, (own + cost, ends_s));
            }
            Ask::Renew { units, asked } => {
                held.insert(worker, (own.clamp(units, units + asked), ends_s));
            }
            Ask::Give { cost, .. } | Ask::Cancel { cost, .. } => {
                if let Some((units, _)) = held.get_mut(&worker) {
                    *units = units.saturating_sub(cost);
                }
            }
            _ => {}
        }
        held.retain(|_, (units, _)| *units > 0);
    }

    fn forget(&mut self, key: Key) {
        self.states.remove(&key);
        self.in_flight.remove(&key);
    }

    pub(super) fn state(&self, key: Key, now: Timestamp) -> Option<State> {
        let Some(held) = self.in_flight.get(&key) else { return self.states.get(&key).cloned() };
        let alive = held.values().filter(|(_, ends_s)| *ends_s > now.as_secs());
        Some(State::InFlight { units: alive.map(|(units, _)| units).sum() })
    }

    /// Hands over the counters of keys that move to another server.
    pub(super) fn split_off(&mut self, moves: impl Fn(&Key) -> bool) -> Self {
        let states = self.states.extract_if(.., |key, _| moves(key)).collect();
        let in_flight = self.in_flight.extract_if(.., |key, _| moves(key)).collect();
        Self { states, in_flight }
    }

    pub(super) fn adopt(&mut self, other: Self) {
        self.states.extend(other.states);
        self.in_flight.extend(other.in_flight);
    }
}
