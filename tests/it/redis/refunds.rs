//! Refunds of units that a request has taken on one server while another server refuses it.

use std::rc::Rc;

use tokio::task::spawn_local;
use tollgate_core::algorithm::{Algorithm, LeakyBucket, Quota, SlidingWindow, TokenBucket};
use tollgate_core::store::Store;
use tollgate_core::time::{Clock, Span};

use super::conformance::{charge_of, open, run};
use crate::support::StoreKind;

const FITS: &str = "it is within the bounds";
/// With both kinds of stores the counters of a request are on different servers.
const APART: [StoreKind; 2] = [StoreKind::Cluster, StoreKind::Sharded];
const CONNECTIONS: u64 = 32;
const REQUESTS: u64 = 60;
const BURST: u64 = 1000;
const ALL: u64 = 1 << 40;

fn sliding(limit: u64) -> Algorithm {
    Algorithm::SlidingWindow(SlidingWindow::new(Quota::new(limit, Span::DAY).expect(FITS)))
}

/// Limits of a thousand a second for all clients together.
fn for_all() -> [Algorithm; 2] {
    let quota = Quota::new(BURST, Span::SECOND).expect(FITS);
    [
        Algorithm::TokenBucket(TokenBucket::new(quota, BURST).expect(FITS)),
        Algorithm::LeakyBucket(LeakyBucket::new(quota, Span::SECOND, None).expect(FITS)),
    ]
}

async fn remaining(store: &Store, all: &Algorithm) -> u64 {
    let decided = store.apply(&[charge_of(ALL, 1, all, 0)], Clock::System.now()).await;
    decided.answers[0].verdict.remaining
}

/// One connection whose every request is refused by a limit of its client. Each request has
/// another client, so that no node knows the refusal beforehand.
async fn refused(store: Rc<Store>, connection: u64, all: Algorithm) {
    let own = sliding(1);
    for request in 0..REQUESTS {
        let client = connection * REQUESTS + request;
        let charges = [charge_of(client, 0, &own, 2), charge_of(ALL, 1, &all, 1)];
        let decided = store.apply(&charges, Clock::System.now()).await;
        assert!(!decided.answers[0].verdict.admitted, "it costs more than its limit");
    }
}

/// The limit for all clients is nearly used up, and stays so, because refilled units are
/// taken. Then clients send requests that their own limits refuse.
#[test]
fn a_request_that_one_store_refuses_consumes_nothing_at_another() {
    run(async {
        for (kind, all) in APART.into_iter().flat_map(|kind| for_all().map(|all| (kind, all))) {
            let settings = kind.settings().expect("it is Redis");
            let store = Rc::new(open(&settings).await);
            let clock = Clock::System;
            store.apply(&[charge_of(ALL, 1, &all, BURST / 2)], clock.now()).await;
            let before = remaining(&store, &all).await;
            let start = clock.now();
            let ask = |connection| spawn_local(refused(Rc::clone(&store), connection, all.clone()));
            let tasks: Vec<_> = (0..CONNECTIONS).map(ask).collect();
            for task in tasks {
                task.await.expect("no task fails");
            }
            // Refunds are in progress until here.
            store.close(clock.now()).await;
            let fresh = open(&settings).await;
            // Before the question, whose answer may be late: what is refilled meanwhile adds to it.
            let end = clock.now();
            let left = remaining(&fresh, &all).await;
            let refilled = end.since(start).as_micros() * BURST / Span::SECOND.as_micros();
            let ideal = (before + refilled.saturating_sub(1)).min(BURST);
            assert!(left >= ideal, "{kind:?}, {}: {left} left of {ideal}", all.name());
        }
    });
}
