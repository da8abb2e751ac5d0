//! Nodes whose clocks differ: the store determines the current window.

use std::sync::Arc;

use tollgate_core::algorithm::{Algorithm, FixedWindow, Quota};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::store::{Charge, MemoryStore, SharedStore, Source, Store};
use tollgate_core::time::{Clock, Span};
use tollgate_redis::NodeState;

use super::conformance::{key, run};
use crate::support::StoreKind;

const FITS: &str = "it is within the bounds";

/// A node with this clock, which shares its counters with others.
async fn open(settings: &tollgate_redis::RedisSettings, clock: &Clock) -> Store {
    let secret = Arc::new(SharedSecret::new(Secret::random()));
    let shared = NodeState::new(settings.clone(), Arc::new(MemoryStore::new(1 << 10)), secret);
    let store = SharedStore::Remote(Arc::new(shared)).open(clock.clone());
    store.ready().await;
    store
}

#[test]
fn a_node_that_is_a_day_ahead_counts_in_the_same_day_as_the_others() {
    run(async {
        let settings = StoreKind::Standalone.settings().expect("it is Redis");
        let now = Clock::System.now();
        let clocks = [
            Clock::System,
            Clock::manual(now.plus(Span::DAY)),
            Clock::manual(now.minus(Span::DAY)),
        ];
        let nodes = [
            open(&settings, &clocks[0]).await,
            open(&settings, &clocks[1]).await,
            open(&settings, &clocks[2]).await,
        ];
        let quota = Quota::new(7, Span::DAY).expect(FITS);
        let zone = FixedWindow::calendar(quota, "Pacific/Auckland").expect(FITS);
        let windows = Algorithm::FixedWindow(zone);
        let consistency = Consistency::default();
        let charge =
            Charge { key: key(1, 0), algorithm: &windows, cost: 1, binding: true, consistency };
        for remaining in (0..7).rev() {
            // The first request of each node is sent before the node knows the store's
            // time.
            let node = remaining % 3;
            let decided = nodes[node].apply(&[charge], clocks[node].now()).await;
            let answer = decided.answers[0];
            assert_eq!(answer.source, Source::Store);
            assert!(answer.verdict.admitted, "node {node}");
            assert_eq!(answer.verdict.remaining, remaining as u64, "node {node}");
        }
        for (node, clock) in nodes.iter().zip(&clocks) {
            assert!(!node.apply(&[charge], clock.now()).await.answers[0].verdict.admitted);
        }
    });
}
