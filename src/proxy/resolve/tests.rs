//! Lookups of names: their results, failures and bounds.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;
use crate::message::Failure;
use crate::proxy::endpoint::IdleRoom;
use crate::proxy::fault::Fault;
use crate::proxy::upstream::{Tried, Upstream};
use crate::proxy::{EndpointSettings, Target, UpstreamSettings};
use crate::telemetry::Metrics;

fn upstream(endpoints: &[&str]) -> UpstreamShared {
    let endpoint = |authority: &&str| EndpointSettings {
        target: Target::Http(authority.parse().unwrap()),
        weight: 1,
    };
    let settings = UpstreamSettings::new("app", endpoints.iter().map(endpoint).collect());
    UpstreamShared::new(settings, SocketAddr::from(([127, 0, 0, 1], 1)))
}

fn addresses(upstream: &UpstreamShared) -> Vec<String> {
    upstream.health().into_iter().map(|health| health.address).collect()
}

#[tokio::test]
async fn only_names_are_looked_up_and_all_their_addresses_are_used() {
    let upstream = upstream(&["10.0.0.1:80", "app.test:8080", "[::1]:80"]);
    let asked = RefCell::new(Vec::new());
    let lookup = async |name: String| {
        asked.borrow_mut().push(name);
        let found = ["10.0.0.9:8080", "10.0.0.8:8080", "10.0.0.9:8080"];
        Ok(found.map(|address| address.parse().unwrap()).to_vec())
    };
    round(&upstream, &lookup).await;
    assert_eq!(*asked.borrow(), ["app.test:8080"]);
    let expected = ["10.0.0.1:80", "10.0.0.8:8080", "10.0.0.9:8080", "[::1]:80"];
    assert_eq!(addresses(&upstream), expected);
}

#[tokio::test]
async fn a_lookup_that_fails_or_finds_nothing_changes_nothing() {
    let upstream = upstream(&["app.test:80"]);
    round(&upstream, &async |_| Ok(vec!["10.0.0.1:80".parse().unwrap()])).await;
    round(&upstream, &async |_| Err(io::ErrorKind::NotFound.into())).await;
    round(&upstream, &async |_| Ok(vec![])).await;
    assert_eq!(addresses(&upstream), ["10.0.0.1:80"]);
}

#[tokio::test]
async fn a_name_gives_a_bounded_number_of_endpoints() {
    let upstream = upstream(&["app.test:80"]);
    let many = (0..1000).map(|n| SocketAddr::from(([10, 0, 1, 1], n))).collect::<Vec<_>>();
    round(&upstream, &async |_| Ok(many.clone())).await;
    assert_eq!(addresses(&upstream).len(), MAX_ADDRESSES);
}

const OLD: &str = "127.0.0.1:1";
const NEW: &str = "127.0.0.1:2";

/// Regression: an upstream whose name had a new address was 502 until the next lookup, up to ten
/// seconds later.
#[tokio::test]
async fn a_name_is_looked_up_when_no_connection_can_be_opened() {
    let shared = Arc::new(upstream(&["app.test:80"]));
    round(&shared, &async |_| Ok(vec![OLD.parse().unwrap()])).await;
    let lookup = async |_| Ok(vec![NEW.parse().unwrap()]);
    let worker = Rc::new(Metrics::new(100).worker());
    let on_worker = Upstream::new(Arc::clone(&shared), &worker, &IdleRoom::new(0));
    let in_flight = on_worker.assign(None, None, &Tried::new()).unwrap();
    on_worker.failed(in_flight.endpoint(), Fault::Unreachable, Duration::ZERO);
    let looked_up = async {
        let mut pause = tokio::time::interval(Duration::from_millis(10));
        while addresses(&shared) != [NEW] {
            pause.tick().await;
        }
    };
    tokio::select! {
        () = run_with(Arc::downgrade(&shared), &lookup) => unreachable!("the upstream exists"),
        in_time = timeout(INTERVAL / 2, looked_up) => in_time.expect("long before the interval"),
    }
    let next = on_worker.assign(None, None, &Tried::new()).unwrap();
    assert_eq!(&*next.endpoint().shared().shown, NEW);
}

#[tokio::test]
async fn only_faults_of_connecting_make_an_address_doubtful() {
    let shared = Arc::new(upstream(&["app.test:80"]));
    let worker = Rc::new(Metrics::new(100).worker());
    let on_worker = Upstream::new(Arc::clone(&shared), &worker, &IdleRoom::new(0));
    let doubts = shared.address_doubts();
    let is_doubted = || {
        let mut notified = Box::pin(doubts.notified());
        notified.as_mut().enable()
    };
    let none = on_worker.assign(None, None, &Tried::new()).unwrap_err();
    assert_eq!((none, is_doubted()), (Failure::UpstreamUnresolved, true));
    round(&shared, &async |_| Ok(vec![OLD.parse().unwrap()])).await;
    let in_flight = on_worker.assign(None, None, &Tried::new()).unwrap();
    for (fault, expected) in [
        (Fault::Unreachable, true),
        (Fault::ConnectTimeout, true),
        (Fault::Untrusted, true),
        (Fault::Timeout, false),
        (Fault::Closed, false),
        (Fault::Exhausted, false),
    ] {
        on_worker.failed(in_flight.endpoint(), fault, Duration::ZERO);
        assert_eq!(is_doubted(), expected, "{fault:?}");
    }
}

/// A dead upstream with many requests does not flood the resolver.
#[test]
fn lookups_in_vain_become_rare() {
    let start = monotonic();
    let mut pace = Pace::new(start);
    let mut gaps = Vec::new();
    for _ in 0..6 {
        let before = pace.last;
        let next = pace.after_doubt();
        assert!(next <= pace.at_interval());
        gaps.push(next.duration_since(before).as_secs());
        pace.looked_up(next, true);
    }
    assert_eq!(gaps, [1, 2, 4, 8, 10, 10]);
    // After a change, or a time without a doubt, the next lookup comes soon again.
    pace.looked_up(start, false);
    assert_eq!(pace.after_doubt(), start + SHORTEST_INTERVAL);
}

/// Many failures are one doubt, and there is one lookup at a time.
#[tokio::test]
async fn many_failures_make_one_lookup() {
    let shared = Arc::new(upstream(&["app.test:80"]));
    let asked = Cell::new(0);
    let lookup = async |_| {
        asked.set(asked.get() + 1);
        Ok(vec![OLD.parse().unwrap()])
    };
    (0..100).for_each(|_| shared.doubt_addresses());
    let looking = run_with(Arc::downgrade(&shared), &lookup);
    assert!(timeout(SHORTEST_INTERVAL * 3 / 2, looking).await.is_err(), "it runs on");
    assert_eq!(asked.get(), 1);
}
