//! The stores of counters. A store has one operation: it judges several charges together, and
//! stores all of their next states, or none.
//!
//! A store knows keys, algorithms and costs. It knows neither policies nor HTTP.

#[cfg(not(all(feature = "redis", feature = "overrides")))]
mod absent;
#[cfg(feature = "redis")]
mod breaker;
mod by_counter;
mod charge;
mod holding;
#[cfg(feature = "redis")]
mod in_time;
mod inspect;
mod losses;
mod mark;
mod memory;
mod outage;
mod override_limit;
#[cfg(feature = "overrides")]
pub mod overrides;
#[cfg(feature = "redis")]
pub mod redis;
mod server_state;
#[cfg(feature = "redis")]
pub mod shared;
mod trial;
mod units;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

#[cfg(not(feature = "overrides"))]
pub use self::absent::overrides;
#[cfg(not(feature = "redis"))]
pub use self::absent::redis;
pub(crate) use self::charge::fresh;
pub use self::charge::{Answer, Charge, Correction, Decided, Source, Verdicts};
pub use self::holding::HoldingTimes;
pub use self::inspect::{Inspected, Inspection, Standing, StoreUnavailable};
pub use self::losses::Losses;
pub use self::mark::{Mark, Marked};
pub use self::memory::{Forgiven, KeyCount, MemoryStore, PromiseCounts};
pub use self::outage::{Outage, OutageCause};
use self::redis::RedisStore;
pub use self::server_state::{
    BATCH_SIZES, Buckets, CALL_DURATIONS_US, CallStatistics, ServerState,
};
pub use self::trial::Trial;
pub use self::units::{DebtUnits, LeaseUnits, Units};

use smallvec::SmallVec;

#[cfg(feature = "redis")]
use crate::algorithm::Algorithm;
use crate::algorithm::Op;
#[cfg(feature = "redis")]
use crate::consistency::StoreMode;
use crate::digest::Counter;
use crate::time::{Clock, Timestamp};

/// The part of a store that the workers of a node share.
#[derive(Clone, Debug)]
pub enum SharedStore {
    /// The whole store.
    Memory(Arc<MemoryStore>),
    /// The state of this node for a store in Redis, and its counters while Redis is away.
    Redis(Arc<redis::NodeState>),
}

impl SharedStore {
    /// The store of one worker. It must be called in the worker's runtime.
    pub fn open(&self, clock: Clock) -> Store {
        match self {
            Self::Memory(memory) => Store::Memory(Arc::clone(memory)),
            Self::Redis(shared) => Store::Redis(Rc::new(RedisStore::open(shared, clock))),
        }
    }

    /// Access to what nodes share besides counters; none if no other node can. It must be
    /// called in the runtime that uses it.
    #[cfg(feature = "redis")]
    pub fn control(&self) -> Option<redis::ControlStore> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(shared) => Some(redis::ControlStore::connect(shared)),
        }
    }

    /// The counters in the memory of this node; with Redis those for its absence.
    pub fn memory(&self) -> &Arc<MemoryStore> {
        match self {
            Self::Memory(memory) => memory,
            Self::Redis(shared) => shared.memory(),
        }
    }

    /// The number of nodes that share the store and are alive; none if no other node can.
    pub fn nodes(&self) -> Option<u64> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(shared) => Some(shared.nodes()),
        }
    }

    /// Whether clients of a sample were admitted after the wait that they were told, by
    /// counter. See [`PromiseCounts`]. With Redis it is not checked.
    pub fn promises(&self) -> HashMap<Counter, PromiseCounts> {
        match self {
            Self::Memory(memory) => memory.promises(),
            Self::Redis(_) => HashMap::new(),
        }
    }

    /// Units that this node has leased, owes or has not reported, by counter. It looks at each
    /// counter of which units may not be reported, so call it rarely.
    pub fn units(&self) -> HashMap<Counter, Units> {
        match self {
            Self::Memory(_) => HashMap::new(),
            Self::Redis(shared) => shared.units(),
        }
    }

    /// The servers that this node does not use, and why.
    pub fn outages(&self) -> Vec<Outage> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(shared) => shared.outages(),
        }
    }

    /// Adopts other credentials, TLS settings and numbers of connections of the shared store, while
    /// it is in use. Connections stay in use until the servers have accepted the new settings.
    #[cfg(feature = "redis")]
    pub fn adopt(&self, settings: &redis::RedisSettings) {
        if let Self::Redis(shared) = self {
            shared.adopt(settings);
        }
    }

    /// Credentials that are to be adopted are missing, for this reason; or they are there.
    #[cfg(feature = "redis")]
    pub fn report_credentials(&self, missing: Option<Outage>) {
        if let Self::Redis(shared) = self {
            shared.report_credentials(missing);
        }
    }

    /// The servers that do not accept new credentials or certificates, and why. The connections
    /// with the old ones stay in use.
    pub fn renewals_refused(&self) -> Vec<Outage> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(shared) => shared.renewals_refused(),
        }
    }

    /// The servers with which this node does otherwise than with others, and the words for what
    /// differs: `slots` if a server has hash slots behind one address, `no_time_in_scripts` if
    /// scripts are given the time. An entry stays until the process ends.
    pub fn differences(&self) -> Vec<(String, &'static str)> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(shared) => shared.differences(),
        }
    }

    /// How many replicas this node does not read, so that the master is read instead.
    pub fn replicas_away(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Redis(shared) => shared.replicas_away(),
        }
    }

    /// The units and states that this node has lost.
    pub fn losses(&self) -> Losses {
        match self {
            Self::Memory(memory) => Losses { forgiven: memory.forgiven(), ..Losses::default() },
            Self::Redis(shared) => shared.losses(),
        }
    }
}

/// The store of one worker.
#[derive(Debug)]
pub enum Store {
    /// Counters in this process.
    Memory(Arc<MemoryStore>),
    /// Counters in Redis.
    Redis(Rc<RedisStore>),
}

impl Store {
    /// Returns when the store can decide, or when the caller must not wait any longer. The
    /// caller may decide without this wait.
    pub async fn ready(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(redis) => redis.ready().await,
        }
    }

    /// The servers of the store, as this worker sees them.
    pub fn servers(&self) -> Vec<ServerState> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Redis(redis) => redis.server_states(),
        }
    }

    /// The store, borrowed for decisions.
    pub fn as_ref(&self) -> StoreRef<'_> {
        match self {
            Self::Memory(memory) => StoreRef::Memory(memory),
            Self::Redis(redis) => StoreRef::Redis(redis),
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
            Self::Redis(redis) => redis.close(now).await,
        }
    }

    /// Regular housekeeping, with or without requests.
    pub fn housekeep(&self, now: Timestamp) {
        match self {
            Self::Memory(memory) => memory.housekeep(now),
            Self::Redis(redis) => redis.housekeep(now),
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
            Self::Redis(redis) => redis.inspect(counters, now).await,
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
            Self::Redis(redis) => redis.reset(counters, now).await,
        }
    }

    /// Whether the store can be used. None for a store of one node, which always can.
    pub fn standing(&self) -> Option<Standing> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(redis) => Some(redis.standing()),
        }
    }
}

/// A borrowed store, for decisions.
#[derive(Clone, Copy, Debug)]
pub enum StoreRef<'s> {
    /// Counters in this process.
    Memory(&'s MemoryStore),
    /// Counters in Redis.
    Redis(&'s Rc<RedisStore>),
    /// Copies of the counters of one request.
    Trial(&'s Trial<'s>),
}

impl<'s> StoreRef<'s> {
    /// Copies the counters of these charges, which have different keys. Nothing is counted.
    pub async fn trial(self, charges: &[Charge<'_>], now: Timestamp) -> Trial<'s> {
        match self {
            Self::Memory(memory) => {
                let found = charges.iter().map(|charge| (charge, memory.state(charge.key)));
                Trial::new(found, now, memory.holding())
            }
            Self::Redis(redis) => redis.trial(charges, now).await,
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
            Self::Redis(redis) => Some(redis.deadline()),
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
            Self::Memory(memory) => Decided::of_store(now, memory.apply(charges, now)),
            Self::Redis(redis) => {
                let deadline = deadline.unwrap_or_else(|| redis.deadline());
                redis.apply(charges, now, deadline).await
            }
            Self::Trial(trial) => trial.apply(charges),
        }
    }

    /// Counts each of these charges alone, whether it fits or not, and says which fit. See
    /// [`Op::Count`]. `charges` do not bind.
    ///
    /// With counters of the store alone, this is one atomic step for each charge. Where a node
    /// leases or reports units, and for units in flight, a charge is taken if it fits, and
    /// charged a moment later if it does not.
    pub async fn count_by(
        self,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Option<Instant>,
    ) -> Decided {
        match self {
            Self::Memory(memory) => Decided::of_store(now, memory.count(charges, now)),
            #[cfg(feature = "redis")]
            Self::Redis(redis)
                if charges.iter().all(|it| {
                    it.consistency.mode == StoreMode::Exact
                        && !matches!(it.algorithm, Algorithm::Concurrency(_))
                }) =>
            {
                redis.count(charges, now, deadline.unwrap_or_else(|| redis.deadline())).await
            }
            Self::Redis(_) | Self::Trial(_) => {
                let decided = self.apply_by(charges, now, deadline).await;
                let refused = |(_, answer): &(&Charge<'_>, &Answer)| !answer.verdict.admitted;
                let refused = charges.iter().zip(&decided.answers).filter(refused);
                let charged = refused.map(|(&charge, answer)| Correction {
                    charge,
                    source: answer.source,
                    op: Op::Settle { reserved: 0, actual: charge.cost, taken: decided.at },
                });
                self.correct(&charged.collect::<SmallVec<[_; 4]>>(), now);
                decided
            }
        }
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
            Self::Redis(redis) => redis.correct(corrections, now),
            Self::Trial(trial) => corrections.iter().for_each(|it| trial.correct(it)),
        }
    }

    /// Sets a mark and makes a correction, unless the mark was set before.
    ///
    /// # Errors
    /// If the store does not answer. The same call again is safe.
    pub async fn correct_once(
        self,
        correction: &Correction<'_>,
        mark: &Mark,
        now: Timestamp,
    ) -> Result<Marked, StoreUnavailable> {
        match self {
            Self::Memory(memory) => {
                Ok(memory.correct_once(&correction.charge, correction.op, mark, now))
            }
            Self::Redis(redis) => redis.correct_once(correction, mark, now).await,
            Self::Trial(_) => Ok(Marked::Now),
        }
    }

    /// How long this node holds units in flight.
    pub fn holding(self) -> &'s HoldingTimes {
        match self {
            Self::Memory(memory) => memory.holding(),
            Self::Redis(redis) => redis.holding(),
            Self::Trial(trial) => trial.holding(),
        }
    }
}
