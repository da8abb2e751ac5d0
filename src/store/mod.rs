//! Where the states of counters live, and the one operation on them: judge
//! several charges together and keep all of their next states, or none.
//!
//! A store sees keys, algorithms and costs. It knows neither policies nor HTTP.

mod memory;
pub mod redis;

use smallvec::SmallVec;

pub use memory::MemoryStore;

use crate::algorithm::{Algorithm, Verdict};
use crate::digest::Key;
use crate::time::Timestamp;

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
}

/// What a request has really cost under one policy.
#[derive(Clone, Copy, Debug)]
pub struct Settlement<'a> {
    /// What was counted when the request was admitted.
    pub charge: Charge<'a>,
    /// The units that it should have been.
    pub actual: u64,
}

/// One verdict for each charge, in their order.
pub type Verdicts = SmallVec<[Verdict; 4]>;

/// Where states live.
#[derive(Debug)]
pub enum Store {
    /// In this process.
    Memory(MemoryStore),
}

impl Store {
    /// Judges all charges in one atomic step. If every binding one is
    /// admitted, all that are admitted are counted. Otherwise nothing is, and
    /// the verdicts of those that were admitted tell what remains without them.
    #[expect(clippy::unused_async, reason = "stores on other machines are waited for")]
    pub async fn apply(&self, charges: &[Charge<'_>], now: Timestamp) -> Verdicts {
        match self {
            Self::Memory(memory) => memory.apply(charges, now),
        }
    }

    /// Gives back charges that were counted at `taken`, as far as they still count.
    #[expect(clippy::unused_async, reason = "stores on other machines are waited for")]
    pub async fn give_back(&self, charges: &[Charge<'_>], taken: Timestamp, now: Timestamp) {
        match self {
            Self::Memory(memory) => memory.give_back(charges, taken, now),
        }
    }

    /// Corrects charges that were counted at `taken` to what they have really
    /// cost: see [`Op::Settle`](crate::algorithm::Op::Settle).
    #[expect(clippy::unused_async, reason = "stores on other machines are waited for")]
    pub async fn settle(&self, settlements: &[Settlement<'_>], taken: Timestamp, now: Timestamp) {
        match self {
            Self::Memory(memory) => memory.settle(settlements, taken, now),
        }
    }
}
