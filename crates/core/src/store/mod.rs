//! The stores of counters. A store has one operation: it judges several charges together, and
//! stores all of their next states, or none.
//!
//! A store knows keys, algorithms and costs. It knows neither policies nor HTTP.

mod by_counter;
mod charge;
mod holding;
mod inspect;
pub mod keys;
mod losses;
mod mark;
mod memory;
mod outage;
mod override_limit;
pub mod overrides;
mod remote;
mod server_state;
#[cfg(any(feature = "keys-file", feature = "overrides-file"))]
mod shared_file;
mod told;
mod trial;
mod units;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use self::charge::Answers;

pub use self::by_counter::ByCounter;
pub use self::charge::{Answer, Charge, Correction, Decided, Source, Verdicts, fresh};
pub use self::holding::HoldingTimes;
pub use self::inspect::{Inspected, Inspection, Standing, StoreUnavailable, unused};
pub use self::losses::Losses;
pub use self::mark::{Mark, Marked};
pub use self::memory::{Forgiven, KeyCount, MemoryStore, PromiseCounts};
pub use self::outage::{Outage, OutageCause};
pub use self::remote::{OverrideFault, RemoteNode, RemoteOverrides, RemoteStore};
pub use self::server_state::{
    BATCH_SIZES, Buckets, CALL_DURATIONS_US, CallStatistics, ServerState,
};
pub use self::told::{Moved, Told};
pub use self::trial::{Alone, Trial};
pub use self::units::{DebtUnits, LeaseUnits, Units};

use futures_util::future::join;
use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Op};
use crate::consistency::StoreMode;
use crate::digest::Counter;
use crate::time::{Clock, Timestamp};

/// The part of a store that the workers of a node share.
#[derive(Clone, Debug)]
pub enum SharedStore {
    /// The whole store.
    Memory(Arc<MemoryStore>),
    /// The state of this node for a store that other nodes share.
    Remote(Arc<dyn RemoteNode>),
}

impl SharedStore {
    /// The store of one worker. It must be called in the worker's runtime.
    pub fn open(&self, clock: Clock) -> Store {
        match self {
            Self::Memory(memory) => Store::Memory(Arc::clone(memory)),
            Self::Remote(node) => Store::Remote(Arc::clone(node).open(clock)),
        }
    }

    /// The counters in the memory of this node; with a shared store those for its absence.
    pub fn memory(&self) -> &Arc<MemoryStore> {
        match self {
            Self::Memory(memory) => memory,
            Self::Remote(node) => node.memory(),
        }
    }

    /// The number of nodes that share the store and are alive; none if no other node can.
    pub fn nodes(&self) -> Option<u64> {
        match self {
            Self::Memory(_) => None,
            Self::Remote(node) => Some(node.nodes()),
        }
    }

    /// Whether clients of a sample were admitted after the wait that they were told, by
    /// counter. See [`PromiseCounts`]. With a shared store it is not checked.
    pub fn promises(&self) -> HashMap<Counter, PromiseCounts> {
        match self {
            Self::Memory(memory) => memory.promises(),
            Self::Remote(_) => HashMap::new(),
        }
    }

    /// Units that this node has leased, owes or has not reported, by counter. It looks at each
    /// counter of which units may not be reported, so call it rarely.
    pub fn units(&self) -> HashMap<Counter, Units> {
        match self {
            Self::Memory(_) => HashMap::new(),
            Self::Remote(node) => node.units(),
        }
    }

    /// The servers that this node does not use, and why.
    pub fn outages(&self) -> Vec<Outage> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Remote(node) => node.outages(),
        }
    }

    /// The servers that do not accept new credentials or certificates, and why. The connections
    /// with the old ones stay in use.
    pub fn renewals_refused(&self) -> Vec<Outage> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Remote(node) => node.renewals_refused(),
        }
    }

    /// The servers with which this node does otherwise than with others, and the words for what
    /// differs: `slots` if a server has hash slots behind one address, `no_time_in_scripts` if
    /// scripts are given the time. An entry stays until the process ends.
    pub fn differences(&self) -> Vec<(String, &'static str)> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Remote(node) => node.differences(),
        }
    }

    /// How many replicas this node does not read, so that the master is read instead.
    pub fn replicas_away(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Remote(node) => node.replicas_away(),
        }
    }

    /// The units and states that this node has lost.
    pub fn losses(&self) -> Losses {
        match self {
            Self::Memory(memory) => Losses { forgiven: memory.forgiven(), ..Losses::default() },
            Self::Remote(node) => node.losses(),
        }
    }
}

/// The store of one worker.
#[derive(Debug)]
pub enum Store {
    /// Counters in this process.
    Memory(Arc<MemoryStore>),
    /// Counters that other nodes share.
    Remote(Box<dyn RemoteStore>),
}

impl Store {
    /// Returns when the store can decide, or when the caller must not wait any longer. The
    /// caller may decide without this wait.
    pub async fn ready(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Remote(remote) => remote.ready().await,
        }
    }

    /// The servers of the store, as this worker sees them.
    pub fn servers(&self) -> Vec<ServerState> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Remote(remote) => remote.servers(),
        }
    }

    /// The store, borrowed for decisions.
    pub fn as_ref(&self) -> StoreRef<'_> {
        match self {
            Self::Memory(memory) => StoreRef::Memory(memory),
            Self::Remote(remote) => StoreRef::Remote(&**remote),
        }
    }

    /// The same as [`StoreRef::apply`].
    pub async fn apply(&self, charges: &[Charge<'_>], now: Timestamp) -> Decided {
        self.as_ref().apply(charges, now).await
    }

    /// The same as [`StoreRef::correct`].
    pub fn correct(&self, corrections: &[Correction<'_>], now: Timestamp) {
        self.as_ref().correct(corrections, now);
    }

    /// Ends this worker's part: sends its last reports to the store.
    pub async fn close(&self, now: Timestamp) {
        match self {
            Self::Memory(_) => {}
            Self::Remote(remote) => remote.close(now).await,
        }
    }

    /// Regular housekeeping, with or without requests.
    pub fn housekeep(&self, now: Timestamp) {
        match self {
            Self::Memory(memory) => memory.housekeep(now),
            Self::Remote(remote) => remote.housekeep(now),
        }
    }
}

impl Store {
    /// What a request of one unit would be told by each of these counters, which are all of
    /// one principal. Nothing is counted. While the store is not available, it is what this
    /// node would decide alone.
    pub async fn inspect(&self, counters: &[Inspected], now: Timestamp) -> Inspection {
        match self {
            Self::Memory(memory) => {
                let look = |it: &Inspected| memory.look(&it.charge(), now);
                let verdicts = counters.iter().map(look).collect();
                Inspection { at: now, source: Source::Store, verdicts }
            }
            Self::Remote(remote) => remote.inspect(counters, now).await,
        }
    }

    /// Forgets these counters, which are all of one principal. Other nodes notice this within
    /// two seconds.
    ///
    /// # Errors
    /// If the store is not available.
    pub async fn reset(
        &self,
        counters: &[Inspected],
        now: Timestamp,
    ) -> Result<(), StoreUnavailable> {
        match self {
            Self::Memory(memory) => {
                for Inspected { key, algorithm } in counters {
                    memory.take_out(*key, algorithm, now);
                }
                Ok(())
            }
            Self::Remote(remote) => remote.reset(counters, now).await,
        }
    }

    /// Whether the store can be used. None for a store of one node, which always can.
    pub fn standing(&self) -> Option<Standing> {
        match self {
            Self::Memory(_) => None,
            Self::Remote(remote) => Some(remote.standing()),
        }
    }
}

/// A borrowed store, for decisions.
#[derive(Clone, Copy, Debug)]
pub enum StoreRef<'s> {
    /// Counters in this process.
    Memory(&'s MemoryStore),
    /// Counters that other nodes share.
    Remote(&'s dyn RemoteStore),
    /// Copies of the counters of one request.
    Trial(&'s Trial<'s>),
}

impl<'s> StoreRef<'s> {
    /// Copies the counters of these charges, which have different keys. Nothing is counted.
    pub async fn trial(self, charges: &[Charge<'_>], now: Timestamp) -> Trial<'s> {
        match self {
            Self::Memory(memory) => {
                let found = charges.iter().map(|charge| (*charge, memory.state(charge.key)));
                Trial::new(found, now, memory.holding())
            }
            Self::Remote(remote) => remote.trial(charges, now).await,
            Self::Trial(trial) => Trial::new([], trial.at(), trial.holding()),
        }
    }

    /// Judges all charges in one atomic step. If all binding charges are admitted, all admitted
    /// charges are counted. Otherwise none is counted, and the verdicts of the admitted ones say
    /// what remains without them.
    ///
    /// If the future is dropped earlier, units in flight are given back as soon as the reply is
    /// known. Other counted units stay counted.
    pub async fn apply(self, charges: &[Charge<'_>], now: Timestamp) -> Decided {
        self.apply_by(charges, now, self.deadline()).await
    }

    /// The deadline for answers to calls that are made now. All calls of one request have the
    /// same deadline. None: the store makes no calls.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Memory(_) | Self::Trial(_) => None,
            Self::Remote(remote) => Some(remote.deadline()),
        }
    }

    /// The same as [`apply`](Self::apply), with this deadline. None: the store's own deadline.
    pub async fn apply_by(
        self,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Option<Instant>,
    ) -> Decided {
        match self {
            Self::Memory(memory) => Decided { at: now, answers: memory.decide(charges, now) },
            Self::Remote(remote) => {
                let deadline = deadline.unwrap_or_else(|| remote.deadline());
                remote.apply(charges, now, deadline).await
            }
            Self::Trial(trial) => trial.apply(charges),
        }
    }

    /// Counts each of these charges alone, whether it fits or not, and says which fit. See
    /// [`Op::Count`]. `charges` do not bind.
    ///
    /// With counters of the store alone, this is one atomic step for each charge. Where a node
    /// leases or reports units, and for units in flight, a charge is taken if it fits, and
    /// charged a moment later if it does not. A charge of 0 always asks the store, because only the
    /// store knows whether more is counted than fits.
    pub async fn count_by(
        self,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Option<Instant>,
    ) -> Decided {
        match self {
            Self::Memory(memory) => Decided::of_store(now, memory.count(charges, now)),
            Self::Remote(remote) if charges.iter().all(counts_in_store) => {
                remote.count(charges, now, deadline.unwrap_or_else(|| remote.deadline())).await
            }
            Self::Remote(remote) if charges.iter().any(counts_in_store) => {
                let deadline = deadline.unwrap_or_else(|| remote.deadline());
                let part = |is_there: bool| -> SmallVec<[Charge<'_>; 4]> {
                    charges.iter().filter(|it| counts_in_store(it) == is_there).copied().collect()
                };
                let there = part(true);
                let here = part(false);
                let counted = remote.count(&there, now, deadline);
                let (counted, taken) =
                    join(counted, self.take_or_charge(&here, now, Some(deadline))).await;
                let at = counted.at.max(taken.at);
                let mut answers = [counted, taken].map(Decided::dated);
                let of = |it: &Charge<'_>| answers[usize::from(!counts_in_store(it))].next();
                Decided { at, answers: charges.iter().filter_map(of).collect() }
            }
            Self::Remote(_) | Self::Trial(_) => self.take_or_charge(charges, now, deadline).await,
        }
    }

    /// Takes charges that fit, and charges the others a moment later.
    async fn take_or_charge(
        self,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Option<Instant>,
    ) -> Decided {
        let decided = self.apply_by(charges, now, deadline).await;
        let refused = |(_, answer): &(&Charge<'_>, &Answer)| !answer.verdict.admitted;
        let refused = charges.iter().zip(&decided.answers).filter(refused);
        let charged = refused.map(|(&charge, answer)| Correction {
            charge,
            source: answer.source,
            op: Op::Settle {
                reserved: 0,
                actual: charge.cost,
                taken: answer.at.unwrap_or(decided.at),
            },
        });
        self.correct(&charged.collect::<SmallVec<[_; 4]>>(), now);
        decided
    }

    /// Corrects earlier charges. A correction is never refused, and no request waits for it.
    /// Later calls of this worker arrive after it.
    pub fn correct(self, corrections: &[Correction<'_>], now: Timestamp) {
        match self {
            Self::Memory(memory) => {
                for Correction { charge, op, .. } in corrections {
                    memory.correct(charge, *op, now);
                }
            }
            Self::Remote(remote) => remote.correct(corrections, now),
            Self::Trial(trial) => corrections.iter().for_each(|it| trial.correct(it)),
        }
    }

    /// Makes one correction, and says how it has changed the counter, if the store has counted it in
    /// one step. `told` is then called once: at once, or when the store has answered.
    pub fn correct_told(self, correction: &Correction<'_>, now: Timestamp, told: Told) {
        match self {
            Self::Memory(memory) => {
                told(memory.correct_told(&correction.charge, correction.op, now));
            }
            Self::Remote(remote) => remote.correct_told(correction, now, told),
            Self::Trial(trial) => trial.correct(correction),
        }
    }

    /// Sets a mark and makes a correction, unless the mark was set before. `told` is called as by
    /// [`correct_told`](Self::correct_told), if the correction is made.
    ///
    /// # Errors
    /// If the store does not answer. The same call again is safe.
    pub async fn correct_once(
        self,
        correction: &Correction<'_>,
        mark: &Mark,
        now: Timestamp,
        told: Option<Told>,
    ) -> Result<Marked, StoreUnavailable> {
        match self {
            Self::Memory(memory) => {
                let (marked, moved) =
                    memory.correct_once(&correction.charge, correction.op, mark, now);
                if let (Some(moved), Some(told)) = (moved, told) {
                    told(moved);
                }
                Ok(marked)
            }
            Self::Remote(remote) => remote.correct_once(correction, mark, now, told).await,
            Self::Trial(_) => Ok(Marked::Now),
        }
    }

    /// How long this node holds units in flight.
    pub fn holding(self) -> &'s HoldingTimes {
        match self {
            Self::Memory(memory) => memory.holding(),
            Self::Remote(remote) => remote.holding(),
            Self::Trial(trial) => trial.holding(),
        }
    }
}

/// Whether the store counts the charge in one step. See [`StoreRef::count_by`].
fn counts_in_store(charge: &Charge<'_>) -> bool {
    let is_exact = charge.consistency.mode == StoreMode::Exact || charge.cost == 0;
    is_exact && !matches!(charge.algorithm, Algorithm::Concurrency(_))
}
