//! Several nodes with one central state: no unit is counted twice, each lost unit is
//! reported, and the admitted units stay within the bound.

mod bound;
mod corrections;
mod units;

use std::collections::HashMap;

use tollgate_core::algorithm::testing::summable;
use tollgate_core::algorithm::{
    Algorithm, FixedWindow, LeakyBucket, Op, Quota, Retry, SlidingWindow, State, TokenBucket,
    Verdict,
};
use tollgate_core::digest::Key;
use tollgate_core::store::Charge;
use tollgate_core::testing::{START, after};
use tollgate_core::time::{Span, Timestamp};

use crate::shared::testing::charge;

use super::*;

const INTERVAL: Span = Span::SECOND;
/// No limit on the number of deltas.
const ALL: usize = usize::MAX;

fn fixed(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::DAY).unwrap()))
}

/// The store.
#[derive(Default)]
struct Central {
    states: HashMap<Key, State>,
    calls: u64,
    units: u64,
}

impl Central {
    /// Counts a delta, and returns the state before it.
    fn count(&mut self, delta: &Delta, now: Timestamp) -> Option<State> {
        self.calls += 1;
        let before = self.states.get(&delta.key).cloned();
        let (next, counted) = delta.count(before.as_ref(), now);
        self.units += counted;
        self.states.extend(next.map(|next| (delta.key, next)));
        before
    }

    /// Judges a charge, and returns the state before it.
    fn judge(&mut self, charge: &Charge<'_>, now: Timestamp) -> (Verdict, Option<State>) {
        self.calls += 1;
        let before = self.states.get(&charge.key).cloned();
        let (next, verdict) = charge.algorithm.apply(before.as_ref(), Op::Take(charge.cost), now);
        self.states.extend(next.map(|next| (charge.key, next)));
        self.units += if verdict.admitted { charge.cost } else { 0 };
        (verdict, before)
    }

    /// Performs a correction.
    fn correct(&mut self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        let before = self.states.get(&charge.key).cloned();
        let (next, _) = charge.algorithm.apply(before.as_ref(), op, now);
        self.states.extend(next.map(|next| (charge.key, next)));
    }

    /// Receives all deltas that are due at this node.
    fn hear(&mut self, node: &mut Ledger, now: Timestamp) {
        for delta in node.due(now, ALL) {
            let before = self.count(&delta, now);
            node.answered(delta, before.as_ref(), now);
        }
    }
}

/// A request of one charge at one of `nodes` nodes, and whether the store was asked.
fn decide(
    store: &mut Central,
    node: &mut Ledger,
    charge: &Charge<'_>,
    nodes: u64,
    now: Timestamp,
) -> (Verdict, bool) {
    match node.take(charge, nodes, now, Span::ZERO) {
        TakeOutcome::Counted(verdict) | TakeOutcome::Refused(verdict) => (verdict, false),
        TakeOutcome::Ask => {
            let (verdict, before) = store.judge(charge, now);
            node.learn(charge, before.as_ref(), verdict.admitted, now);
            node.end_ask(charge);
            (verdict, true)
        }
    }
}

/// The same, and the node sends the reports that are due.
fn request(
    store: &mut Central,
    node: &mut Ledger,
    charge: &Charge<'_>,
    nodes: u64,
    now: Timestamp,
) -> (Verdict, bool) {
    let decided = decide(store, node, charge, nodes, now);
    store.hear(node, now);
    decided
}

/// A node that knows the state of this charge's key, and has counted no units of it.
fn knowing(store: &mut Central, charge: &Charge<'_>) -> Ledger {
    let mut node = Ledger::new(10, INTERVAL);
    let nothing = Charge { cost: 0, ..*charge };
    assert!(
        request(store, &mut node, &nothing, 1, START).1,
        "the store is asked about an unknown key"
    );
    node
}

/// A node that has counted this charge, and its report of it a second later.
fn reported(store: &mut Central, charge: &Charge<'_>) -> (Ledger, Delta) {
    let mut node = knowing(store, charge);
    counted(node.take(charge, 1, START, Span::ZERO));
    let report = node.due(after(1000), ALL).pop().expect("an interval is over");
    (node, report)
}

fn counted(taken: TakeOutcome) -> Verdict {
    match taken {
        TakeOutcome::Counted(verdict) => verdict,
        other => panic!("the charge is {other:?}, not counted"),
    }
}

#[test]
fn a_client_far_from_its_limit_costs_one_call_for_each_interval() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, INTERVAL);
    let algorithm = fixed(1_000_000);
    for request_ms in 0..10_000 {
        request(&mut store, &mut node, &charge(1, &algorithm, 1), 4, after(request_ms));
    }
    assert_eq!(store.calls, 10);
    assert_eq!(node.next_due(), Some(after(10_010)));
}

#[test]
fn the_store_is_asked_once_about_an_unknown_key() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let charge = charge(1, &algorithm, 10);
    for node in 0..10 {
        let mut node_before = knowing(&mut store, &charge);
        let left = store.judge(&charge, START).0.remaining;
        assert_eq!(left, 90 - 10 * node);
        request(&mut store, &mut node_before, &Charge { cost: 0, ..charge }, 1, START);
    }
    let mut last = Ledger::new(10, INTERVAL);
    let (verdict, was_asked) = request(&mut store, &mut last, &charge, 10, START);
    assert!(was_asked && !verdict.admitted, "other nodes have used the limit");
    let (verdict, was_asked) = request(&mut store, &mut last, &charge, 10, START);
    assert!(!was_asked && !verdict.admitted, "the node knows that now");
}

#[test]
fn a_node_admits_half_of_its_part_before_the_store_acknowledges_it() {
    let mut store = Central::default();
    let algorithm = fixed(80);
    let one = charge(1, &algorithm, 1);
    for (nodes, part) in [(1, 80), (2, 20), (4, 10), (8, 5), (40, 1), (41, 0), (u64::MAX, 0)] {
        let mut node = knowing(&mut store, &one);
        let mut counted = 0;
        while matches!(node.take(&one, nodes, START, Span::ZERO), TakeOutcome::Counted(_)) {
            counted += 1;
        }
        assert_eq!(counted, part, "{nodes} nodes");
        match node.take(&one, nodes, START, Span::ZERO) {
            TakeOutcome::Refused(_) => assert_eq!(nodes, 1, "a node that is alone need not ask"),
            taken => assert_eq!(taken, TakeOutcome::Ask),
        }
    }
}

#[test]
fn units_under_way_are_separate_from_units_that_are_counted_meanwhile() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let mut node = knowing(&mut store, &charge(1, &algorithm, 1));
    counted(node.take(&charge(1, &algorithm, 60), 1, START, Span::ZERO));
    let first = node.due(START, ALL).pop().expect("half a limit is reported at once");
    assert_eq!(first.units, 60);
    counted(node.take(&charge(1, &algorithm, 20), 1, START, Span::ZERO));
    assert_eq!(node.due(after(5000), ALL), [], "one delta of a key is under way at a time");
    let before = store.count(&first, START);
    node.answered(first, before.as_ref(), START);
    let second = node.due(after(1000), ALL).pop().expect("an interval is over");
    assert_eq!((second.units, store.units), (20, 60));
    assert_eq!(counted(node.take(&charge(1, &algorithm, 0), 1, START, Span::ZERO)).remaining, 20);
}

#[test]
fn while_the_store_is_away_deltas_are_merged_and_retried_at_intervals() {
    let mut store = Central::default();
    let algorithm = fixed(1000);
    let one = charge(1, &algorithm, 1);
    let mut node = knowing(&mut store, &one);
    let mut tries = 0;
    let calls = store.calls;
    for request_ms in (0..5000).step_by(10) {
        if matches!(node.take(&one, 1, after(request_ms), Span::ZERO), TakeOutcome::Ask) {
            node.correct(&one, Op::Settle { reserved: 0, actual: 1, taken: START }, 1, START);
        }
        for delta in node.due(after(request_ms), ALL) {
            tries += 1;
            node.not_sent(delta, after(request_ms));
        }
    }
    assert!((40..=50).contains(&tries), "one try for each tenth of the interval: {tries}");
    store.hear(&mut node, after(6000));
    store.hear(&mut node, after(7000));
    assert_eq!((store.calls - calls, store.units), (2, 500), "the settlement comes second");
}

#[test]
fn a_node_asks_until_the_store_has_acknowledged_its_report() {
    let mut store = Central::default();
    let algorithm = fixed(1000);
    let one = charge(1, &algorithm, 1);
    let (mut node, delta) = reported(&mut store, &one);
    node.not_sent(delta, after(1000));
    assert_eq!(node.take(&one, 1, after(1000), Span::ZERO), TakeOutcome::Ask);
    assert_eq!(node.due(after(1099), ALL), []);
    store.hear(&mut node, after(1100));
    counted(node.take(&one, 1, after(1100), Span::ZERO));
    assert_eq!(store.units, 1);
}

#[test]
fn a_refused_key_is_read_again_once_in_each_interval() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, INTERVAL);
    let algorithm = fixed(10);
    let charge = |cost| charge(1, &algorithm, cost);
    request(&mut store, &mut node, &charge(10), 1, START);
    let calls = store.calls;
    for request_ms in 0..3000 {
        let (verdict, _) = request(&mut store, &mut node, &charge(1), 1, after(request_ms));
        assert!(!verdict.admitted);
    }
    assert_eq!(store.calls - calls, 2);
    store.states.clear();
    request(&mut store, &mut node, &charge(1), 1, after(3000));
    assert!(request(&mut store, &mut node, &charge(1), 1, after(3001)).0.admitted);
}

#[test]
fn the_state_of_a_store_whose_clock_was_set_back_is_used() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let one = charge(1, &algorithm, 1);
    let mut node = knowing(&mut store, &one);
    // A reply that was overtaken is ignored.
    node.learn(&one, None, true, after(500));
    node.learn(&one, None, false, after(499));
    assert_eq!(counted(node.take(&one, 1, after(500), Span::ZERO)).remaining, 98);
    let mut node = knowing(&mut store, &one);
    node.learn(&one, None, true, after(500));
    node.learn(&one, None, false, START.minus(Span::from_secs(600)));
    assert_eq!(counted(node.take(&one, 1, after(500), Span::ZERO)).remaining, 99);
}

#[test]
fn queues_are_not_counted_later() {
    let quota = Quota::new(10, Span::SECOND).unwrap();
    let queue = Algorithm::LeakyBucket(LeakyBucket::new(quota, Span::SECOND, None).unwrap());
    assert!(Ledger::counts(&fixed(1)));
    assert!(!Ledger::counts(&queue));
}

/// Units that are reported in the next window count there for longer than those of one window.
#[test]
fn a_steady_client_below_its_limit_is_not_refused() {
    let quota = Quota::new(100, Span::from_secs(10)).unwrap();
    for algorithm in [
        Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        Algorithm::FixedWindow(FixedWindow::new(quota)),
    ] {
        let mut store = Central::default();
        let mut node = Ledger::new(10, INTERVAL);
        let one = charge(1, &algorithm, 1);
        let mut refused = 0;
        // One request in 105 ms is 95 % of the limit. The worker looks every 100 ms.
        for step in 0..8000 {
            let now = after(step * 5);
            if step % 20 == 0 {
                store.hear(&mut node, now);
            }
            if step % 21 == 0 {
                refused += u64::from(!decide(&mut store, &mut node, &one, 1, now).0.admitted);
            }
        }
        assert_eq!(refused, 0, "{}", algorithm.name());
    }
}
