//! Where the states of counters live, and the one operation on them: judge
//! several charges together and keep all of their next states, or none.
//!
//! A store sees keys, algorithms and costs. It knows neither policies nor HTTP.

#[cfg(not(all(feature = "redis", feature = "overrides")))]
mod absent;
#[cfg(feature = "redis")]
mod breaker;
mod charge;
mod holding;
#[cfg(feature = "redis")]
mod in_time;
mod losses;
mod memory;
mod override_limit;
#[cfg(feature = "overrides")]
pub mod overrides;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod shared;

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
pub use self::losses::Losses;
pub use self::memory::{Forgiven, MemoryStore};
use self::redis::RedisStore;

use crate::time::{Clock, Timestamp};

/// What the workers of a node share of a store.
#[derive(Clone, Debug)]
pub enum SharedStore {
    /// All of it.
    Memory(Arc<MemoryStore>),
    /// What is counted while Redis is away.
    Redis(Arc<redis::NodeState>),
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
    /// longer. The caller may wait for this, but need not.
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

    /// Corrects what was counted before. It is never refused, and no request waits
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
