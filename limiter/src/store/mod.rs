//! Where the states of counters live, and the one operation on them: judge
//! several charges together and keep all of their next states, or none.
//!
//! A store sees keys, algorithms and costs. It knows neither policies nor HTTP.

#[cfg(not(all(feature = "redis", feature = "overrides")))]
mod absent;
#[cfg(feature = "redis")]
mod breaker;
mod holding;
#[cfg(feature = "redis")]
mod in_time;
#[cfg(feature = "redis")]
pub mod leased;
mod losses;
mod memory;
mod override_limit;
#[cfg(feature = "overrides")]
pub mod overrides;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod write_back;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

#[cfg(not(feature = "overrides"))]
pub use self::absent::overrides;
#[cfg(not(feature = "redis"))]
pub use self::absent::redis;
pub use self::holding::HoldingTimes;
pub use self::losses::Losses;
pub use self::memory::{Forgiven, MemoryStore};
use self::redis::RedisStore;
#[cfg(feature = "overrides")]
use self::redis::StoreError;

use crate::algorithm::{Algorithm, Op, Verdict};
use crate::consistency::Consistency;
use crate::digest::Key;
use crate::time::{Clock, Timestamp};

/// What one policy asks for one request.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter. No two charges of one request have the same.
    pub key: Key,
    /// How it counts.
    pub algorithm: &'a Algorithm,
    /// How many units.
    pub cost: u64,
    /// Whether the request needs it to be admitted. A charge that does not
    /// bind is counted if it fits, and stops nobody.
    pub binding: bool,
    /// How the counter is kept on several nodes.
    pub consistency: Consistency,
}

/// Who judged a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The store.
    #[default]
    Store,
    /// This node alone, because the store is away.
    Local,
    /// Nobody: the store is away, and the charge's settings say what becomes of it.
    Nobody,
    /// Nobody: another charge refuses the request, so there was no need to ask.
    Unasked,
}

/// What is said to one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The numbers. Where nobody judged they are those of a counter never used.
    pub verdict: Verdict,
    /// Whose they are.
    pub source: Source,
}

impl Answer {
    /// An answer of the store itself.
    pub const fn of_store(verdict: Verdict) -> Self {
        Self { verdict, source: Source::Store }
    }
}

/// What a counter says that was never used, or that no store could be asked about.
pub(crate) fn fresh(charge: &Charge<'_>, now: Timestamp) -> Verdict {
    Verdict { admitted: true, ..charge.algorithm.apply(None, Op::Peek, now).1 }
}

/// What is said to all charges of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When it was decided, by the clock of the store.
    pub at: Timestamp,
    /// One answer for each charge, in their order.
    pub answers: SmallVec<[Answer; 4]>,
}

/// A change of what was counted before.
#[derive(Clone, Copy, Debug)]
pub struct Correction<'a> {
    /// What was counted.
    pub charge: Charge<'a>,
    /// By whom: only they know of it.
    pub source: Source,
    /// What becomes of it: [`Op::Give`] or [`Op::Settle`].
    pub op: Op,
}

/// One verdict for each charge, in their order.
pub type Verdicts = SmallVec<[Verdict; 4]>;

/// What the workers of a node share of a store.
#[derive(Clone, Debug)]
pub enum SharedStore {
    /// All of it.
    Memory(Arc<MemoryStore>),
    /// What is counted while Redis is away.
    Redis(Arc<redis::Shared>),
}

impl SharedStore {
    /// The store of the worker in whose runtime this is called.
    pub fn open(&self, clock: Clock) -> Store {
        match self {
            Self::Memory(memory) => Store::Memory(Arc::clone(memory)),
            Self::Redis(shared) => Store::Redis(Rc::new(RedisStore::open(shared, clock))),
        }
    }

    /// What this node has lost count of.
    pub fn losses(&self) -> Losses {
        match self {
            Self::Memory(memory) => Losses { forgiven: memory.forgiven(), ..Losses::default() },
            Self::Redis(shared) => shared.losses(),
        }
    }
}

/// Where states live: one worker's way there.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(Arc<MemoryStore>),
    /// In Redis.
    Redis(Rc<RedisStore>),
}

impl Store {
    /// Returns when the store can judge, or when that must not be waited for any
    /// longer: whoever opens it may wait for this, but need not.
    pub async fn ready(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(redis) => redis.ready().await,
        }
    }

    /// What judges charges.
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

    /// Ends this worker's part: what others should know of it is told.
    pub async fn close(&self, now: Timestamp) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(redis) => redis.close(now).await,
        }
    }

    /// What must be done now and then, whether requests come or not.
    pub fn housekeep(&self, now: Timestamp) {
        match self {
            Self::Memory(memory) => memory.housekeep(now),
            Self::Redis(redis) => redis.housekeep(now),
        }
    }
}

/// What judges charges: a store, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum StoreRef<'s> {
    /// In this process.
    Memory(&'s MemoryStore),
    /// In Redis.
    Redis(&'s Rc<RedisStore>),
}

impl<'s> StoreRef<'s> {
    /// Judges all charges in one atomic step. If every binding one is
    /// admitted, all that are admitted are counted. Otherwise nothing is, and
    /// the verdicts of those that were admitted tell what remains without them.
    ///
    /// Where the future is dropped before that, what was in flight is given back
    /// as soon as it is known; what was counted otherwise stays counted.
    pub async fn apply(self, charges: &[Charge<'_>], now: Timestamp) -> Decided {
        self.apply_by(charges, now, self.deadline()).await
    }

    /// By when an answer to what is asked now must have come: what belongs to one
    /// request has one deadline. None: nothing is waited for.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(redis) => Some(redis.deadline()),
        }
    }

    /// The same as [`apply`](Self::apply), without waiting for longer than until
    /// the deadline, which is the store's own.
    pub async fn apply_by(
        self,
        charges: &[Charge<'_>],
        now: Timestamp,
        deadline: Option<Instant>,
    ) -> Decided {
        match self {
            Self::Memory(memory) => Decided {
                at: now,
                answers: memory.apply(charges, now).into_iter().map(Answer::of_store).collect(),
            },
            Self::Redis(redis) => {
                let deadline = deadline.unwrap_or_else(|| redis.deadline());
                redis.apply(charges, now, deadline).await
            }
        }
    }

    /// Corrects what was counted before. It is never refused, and nobody waits
    /// for it; what this worker asks later comes after it.
    pub fn correct(self, corrections: &[Correction<'_>], now: Timestamp) {
        match self {
            Self::Memory(memory) => {
                for Correction { charge, op, .. } in corrections {
                    memory.correct(charge, *op, now);
                }
            }
            Self::Redis(redis) => redis.correct(corrections, now),
        }
    }

    /// How long units in flight are held on this node.
    pub fn holding(self) -> &'s HoldingTimes {
        match self {
            Self::Memory(memory) => memory.holding(),
            Self::Redis(redis) => redis.holding(),
        }
    }
}
