//! Judging without the store.
//!
//! While the store is away every charge is judged as its terms say. Where nodes
//! count for themselves, each admits its share of the limit: the limit divided
//! by the nodes last seen alive, at least one. When the store is back it is
//! told, as a debt, what was admitted meanwhile and still counts.
//!
//! What was under way to the store when it went may have been counted there. It
//! is judged again here, and not told again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Op, Retry, Verdict};
use crate::digest::Key;
use crate::store::{Answer, Charge, Correction, MemoryStore, Source};
use crate::terms::OnFailure;
use crate::time::{Span, Timestamp};

/// After how long it is worth another try.
const RETRY: Span = Span::SECOND;
/// Keys of which the store is to be told. Of those beyond it is not told: a
/// flood of keys must not outlive the outage.
const MAX_OWING: usize = 100_000;

/// Judges while the store is away. Shared by all workers.
#[derive(Debug)]
pub(super) struct Fallback {
    memory: Arc<MemoryStore>,
    owing: Mutex<HashMap<Key, Owing>>,
}

/// What the store is to be told of one counter.
#[derive(Debug)]
struct Owing {
    algorithm: Algorithm,
    /// Units that it may know of already.
    known: u64,
}

/// What the store is to be told.
#[derive(Debug)]
pub(super) struct Debt {
    pub(super) key: Key,
    pub(super) algorithm: Algorithm,
    pub(super) units: u64,
}

impl Fallback {
    pub(super) fn new(memory: Arc<MemoryStore>) -> Self {
        Self { memory, owing: Mutex::default() }
    }

    /// Judges charges of which the store knows nothing, or may know (`sent`),
    /// on one of `nodes`. Nothing is counted if `refused` says that the request
    /// is refused anyway.
    pub(super) fn judge(
        &self,
        charges: &[Charge<'_>],
        sent: bool,
        refused: bool,
        nodes: u64,
        now: Timestamp,
    ) -> SmallVec<[Answer; 4]> {
        let denied = |charge: &Charge<'_>| charge.terms.on_failure == OnFailure::Deny;
        let refused = refused || charges.iter().any(|it| it.binding && denied(it));
        let is_local = |charge: &&Charge<'_>| charge.terms.on_failure == OnFailure::Local;
        let shares: SmallVec<[Algorithm; 4]> =
            charges.iter().map(|charge| share(charge.algorithm, nodes)).collect();
        let local: SmallVec<[Charge<'_>; 4]> = charges
            .iter()
            .zip(&shares)
            .filter(|(charge, _)| is_local(charge))
            .map(|(charge, algorithm)| Charge { algorithm, ..*charge })
            .collect();
        let verdicts = match (local.is_empty(), refused) {
            (true, _) => SmallVec::new(),
            (false, false) => self.memory.apply(&local, now),
            (false, true) => local.iter().map(|charge| self.memory.look(charge, now)).collect(),
        };
        let counted =
            !refused && local.iter().zip(&verdicts).all(|(c, v)| v.admitted || !c.binding);
        if counted {
            let admitted =
                charges.iter().filter(is_local).zip(&verdicts).filter(|(_, v)| v.admitted);
            self.note(admitted.map(|(charge, _)| charge), sent);
        }
        let mut verdicts = verdicts.into_iter();
        let answer = |charge: &Charge<'_>| match charge.terms.on_failure {
            OnFailure::Local => {
                let verdict = verdicts.next().expect("one verdict for each local charge");
                Answer { verdict, source: Source::Local }
            }
            OnFailure::Allow => Answer { verdict: fresh(charge, now), source: Source::Nobody },
            OnFailure::Deny => {
                let retry = Retry::After(RETRY);
                let verdict = Verdict { admitted: false, retry, ..fresh(charge, now) };
                Answer { verdict, source: Source::Nobody }
            }
        };
        charges.iter().map(answer).collect()
    }

    /// Corrects what was counted here.
    pub(super) fn correct(&self, correction: &Correction<'_>, nodes: u64, now: Timestamp) {
        let algorithm = share(correction.charge.algorithm, nodes);
        let charge = Charge { algorithm: &algorithm, ..correction.charge };
        self.memory.correct(&charge, correction.op, now);
    }

    fn note<'c, 'a: 'c>(&self, charges: impl Iterator<Item = &'c Charge<'a>>, sent: bool) {
        let mut owing = self.owing.lock();
        for charge in charges {
            // What is in flight here is given back here.
            if charge.cost == 0 || matches!(charge.algorithm, Algorithm::Concurrency(_)) {
                continue;
            }
            if owing.len() >= MAX_OWING && !owing.contains_key(&charge.key) {
                continue;
            }
            let known = if sent { charge.cost } else { 0 };
            owing
                .entry(charge.key)
                .and_modify(|owing| {
                    owing.known = owing.known.saturating_add(known);
                    if owing.algorithm != *charge.algorithm {
                        owing.algorithm = charge.algorithm.clone();
                    }
                })
                .or_insert_with(|| Owing { algorithm: charge.algorithm.clone(), known });
        }
    }

    /// Up to `most` counters of which the store is to be told now that it is
    /// back. They are forgotten here: nothing is told twice.
    pub(super) fn owed(&self, most: usize, now: Timestamp) -> Vec<Debt> {
        let mut owing = self.owing.lock();
        let keys: SmallVec<[Key; 64]> = owing.keys().take(most).copied().collect();
        let taken: Vec<_> = keys.iter().filter_map(|key| owing.remove_entry(key)).collect();
        drop(owing);
        let debts = taken.into_iter().filter_map(|(key, Owing { algorithm, known })| {
            let used = self.memory.take_out(key, &algorithm, now);
            let units = used.saturating_sub(known);
            (units > 0).then_some(Debt { key, algorithm, units })
        });
        debts.collect()
    }
}

/// The part of a limit that one of `nodes` may admit by itself.
fn share(algorithm: &Algorithm, nodes: u64) -> Algorithm {
    let limit = (algorithm.limit() / nodes.max(1)).max(1);
    algorithm.with_limit(limit).unwrap_or_else(|_| algorithm.clone())
}

/// What a counter says that was never used.
fn fresh(charge: &Charge<'_>, now: Timestamp) -> Verdict {
    Verdict { admitted: true, ..charge.algorithm.apply(None, Op::Peek, now).1 }
}

#[cfg(test)]
mod tests;
