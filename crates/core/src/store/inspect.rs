//! What operators ask a store: what it has counted for one key, and to forget that.

use super::charge::fresh;
use super::charge::{Charge, Source};
use super::outage::Outage;
use crate::algorithm::{Algorithm, Verdict};
use crate::consistency::Consistency;
use crate::digest::Key;
use crate::time::Timestamp;

/// One counter, and how it counts.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The counter.
    pub key: Key,
    /// How it counts.
    pub algorithm: Algorithm,
}

/// What was found in the counters of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The time of the store at which it was so.
    pub at: Timestamp,
    /// Whether the store itself says so, or this node alone, because the store is not
    /// available.
    pub source: Source,
    /// What a request of one unit would be told now, for each counter in their order.
    pub verdicts: Vec<Verdict>,
}

/// The store is not available, so nothing has changed, or only some of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store does not do it: {0}")]
pub struct StoreUnavailable(pub String);

/// Whether a store that nodes share can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The servers that this node does not use.
    pub outages: Vec<Outage>,
    /// Why new credentials or certificates are not in use, for each server.
    pub renewals_refused: Vec<Outage>,
    /// The number of nodes that are known, this one among them.
    pub nodes: u64,
}

impl Inspected {
    /// The charge of one unit.
    pub fn charge(&self) -> Charge<'_> {
        Charge {
            key: self.key,
            algorithm: &self.algorithm,
            cost: 1,
            binding: true,
            consistency: Consistency::default(),
        }
    }
}

/// What counters say that were never used.
pub fn unused(counters: &[Inspected], now: Timestamp) -> Vec<Verdict> {
    counters.iter().map(|it| fresh(&it.charge(), now)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::algorithm::{FixedWindow, Quota};
    use crate::digest::{Counter, Principal};
    use crate::store::{MemoryStore, Store};
    use crate::time::Span;

    #[tokio::test]
    async fn looking_counts_nothing_and_a_reset_forgets_one_counter() {
        let store = Store::Memory(Arc::new(MemoryStore::new(100)));
        let now = Timestamp::from_micros(1_000_000_000);
        let quota = Quota::new(3, Span::from_secs(3600)).unwrap();
        let counter = |bits| Inspected {
            key: Key { principal: Principal::from_bits(7), counter: Counter::from_bits(bits) },
            algorithm: Algorithm::FixedWindow(FixedWindow::new(quota)),
        };
        let both = [counter(1), counter(2)];
        let remaining = async || {
            let found = store.inspect(&both, now).await;
            assert_eq!((found.source, found.at), (Source::Store, now));
            found.verdicts.iter().map(|it| it.remaining).collect::<Vec<_>>()
        };
        for expected in [[2, 2], [1, 1], [0, 0]] {
            store.apply(&both.each_ref().map(|it| it.charge()), now).await;
            assert_eq!(remaining().await, expected);
            assert_eq!(remaining().await, expected);
        }
        store.reset(&both[..1], now).await.unwrap();
        assert_eq!(remaining().await, [3, 0]);
        assert_eq!(store.standing(), None);
    }
}
