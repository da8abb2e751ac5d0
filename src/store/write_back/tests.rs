//! Several ledgers over one central state: no unit is counted twice, none is
//! lost without being counted as lost, and a burst stays within the bound.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::algorithm::tests::cases;
use crate::algorithm::{
    Algorithm, FixedWindow, LeakyBucket, Op, Quota, Retry, State, TokenBucket, Verdict,
};
use crate::digest::{Counter, Key, Principal};
use crate::store::Charge;
use crate::terms::Terms;
use crate::time::{Span, Timestamp};

const START: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);
const INTERVAL: Span = Span::SECOND;
/// As many deltas as there are.
const ALL: usize = usize::MAX;

fn charge(client: u64, algorithm: &Algorithm, cost: u64) -> Charge<'_> {
    let key =
        Key { principal: Principal::from_bits(client.into()), counter: Counter::from_bits(1) };
    Charge { key, algorithm, cost, binding: true, terms: Terms::default() }
}

fn fixed(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::DAY).unwrap()))
}

fn after(ms: u64) -> Timestamp {
    START.plus(Span::from_millis(ms))
}

/// The store.
#[derive(Default)]
struct Central {
    states: HashMap<Key, State>,
    calls: u64,
    units: u64,
}

impl Central {
    /// Counts a delta and returns the state before it.
    fn count(&mut self, delta: &Delta, now: Timestamp) -> Option<State> {
        self.calls += 1;
        self.units += delta.units;
        let before = self.states.get(&delta.key).cloned();
        let (next, _) = delta.algorithm.apply(before.as_ref(), delta.op(), now);
        self.states.extend(next.map(|next| (delta.key, next)));
        before
    }

    /// Corrects what was counted.
    fn correct(&mut self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        let before = self.states.get(&charge.key).cloned();
        let (next, _) = charge.algorithm.apply(before.as_ref(), op, now);
        self.states.extend(next.map(|next| (charge.key, next)));
    }

    /// Tells the store all that is due at this node.
    fn hear(&mut self, node: &mut Ledger, now: Timestamp) {
        for delta in node.due(now, ALL) {
            let before = self.count(&delta, now);
            node.answered(&delta, before.as_ref(), now);
        }
    }
}

/// A request of one charge. What is due is told at once.
fn request(
    store: &mut Central,
    node: &mut Ledger,
    charge: &Charge<'_>,
    ledgers: u64,
    now: Timestamp,
) -> Verdict {
    let mut verdict = node.judge(charge, now);
    if verdict.admitted {
        verdict = node.count(charge, ledgers, now);
    }
    store.hear(node, now);
    verdict
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 10, ..cases() })]

    #[test]
    fn every_unit_is_counted_once_or_known_to_be_lost(
        max_keys in prop_oneof![0..4_usize, Just(1000)],
        steps in prop::collection::vec(
            (0..1500_u64, 0..6_u64, 1..9_u64, 0..8_u32, 1..4_usize),
            1..200,
        ),
    ) {
        let (mut store, mut node) = (Central::default(), Ledger::new(max_keys, INTERVAL));
        let algorithm = fixed(100);
        let (mut now, mut counted, mut waiting) = (START, 0, Vec::new());
        for (gap_ms, client, cost, fate, most) in steps {
            now = now.plus(Span::from_millis(gap_ms));
            let charge = charge(client, &algorithm, cost);
            if node.judge(&charge, now).admitted {
                node.count(&charge, 4, now);
                counted += cost;
            }
            waiting.extend(node.due(now, most));
            // Answers come in any order.
            let index = usize::try_from(client).unwrap() % waiting.len().max(1);
            match fate {
                _ if waiting.is_empty() => {}
                0 => node.not_sent(waiting.swap_remove(index), now),
                1 => node.lost(&waiting.swap_remove(index), now),
                2 => {}
                _ => {
                    let delta = waiting.swap_remove(index);
                    let before = store.count(&delta, now);
                    node.answered(&delta, before.as_ref(), now);
                }
            }
            prop_assert!(node.next_due().is_none_or(|due| due >= START));
        }
        for delta in waiting {
            node.not_sent(delta, now);
        }
        for delta in node.close(now) {
            store.count(&delta, now);
        }
        prop_assert_eq!(store.units + node.lost_units() + node.forgotten_units(), counted);
        if max_keys > 100 {
            prop_assert_eq!(node.forgotten_units(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 10, ..cases() })]

    #[test]
    fn what_is_corrected_comes_to_the_sum_of_what_it_has_cost(
        steps in prop::collection::vec(
            (0..1500_u64, 1..9_u64, prop::option::of(0..12_u64), 0..4_u32, prop::bool::ANY),
            1..100,
        ),
    ) {
        let (mut store, mut node) = (Central::default(), Ledger::new(10, INTERVAL));
        let algorithm = fixed(1_000_000);
        let (mut now, mut sum, mut under_way, mut taken) = (START, 0, Vec::new(), Vec::new());
        for (gap_ms, reserved, actual, fate, is_quick) in steps {
            now = now.plus(Span::from_millis(gap_ms));
            node.count(&charge(1, &algorithm, reserved), 4, now);
            sum += reserved;
            taken.push((reserved, now));
            // The store has counted what is sent before it hears of what comes later.
            for delta in node.due(now, ALL) {
                match fate {
                    0 => node.not_sent(delta, now),
                    _ => under_way.push((store.count(&delta, now), delta)),
                }
            }
            if let Some(actual) = actual {
                let (reserved, taken) = taken.swap_remove(usize::try_from(actual).unwrap() % taken.len());
                let op = Op::Settle { reserved, actual, taken };
                if let Some(left) = node.correct(&charge(1, &algorithm, reserved), op, 4, now) {
                    store.correct(&charge(1, &algorithm, reserved), left, now);
                }
                sum = sum + actual - reserved;
            }
            if is_quick {
                for (before, delta) in under_way.drain(..) {
                    node.answered(&delta, before.as_ref(), now);
                    let told = node.peek(&charge(1, &algorithm, 1), now);
                    prop_assert_eq!(told.remaining, 1_000_000 - sum);
                }
            }
        }
        for (before, delta) in under_way {
            node.answered(&delta, before.as_ref(), now);
        }
        for delta in node.close(now) {
            store.count(&delta, now);
        }
        let state = store.states.values().next();
        prop_assert_eq!(algorithm.apply(state, Op::Peek, now).1.remaining, 1_000_000 - sum);
    }
}

#[test]
fn a_client_far_from_its_limit_costs_a_call_an_interval() {
    let (mut store, mut node) = (Central::default(), Ledger::new(10, INTERVAL));
    let algorithm = fixed(100_000);
    for request_ms in 0..10_000 {
        request(&mut store, &mut node, &charge(1, &algorithm, 1), 4, after(request_ms));
    }
    assert_eq!(store.calls, 10);
    assert_eq!(node.next_due(), Some(after(10_010)));
}

#[test]
fn a_burst_at_all_nodes_at_once_is_bounded() {
    for ledgers in [1_usize, 4, 16] {
        let (mut store, algorithm) = (Central::default(), fixed(1000));
        let mut nodes: Vec<_> = (0..ledgers).map(|_| Ledger::new(10, INTERVAL)).collect();
        let mut admitted = 0;
        for turn in 0..20_000 {
            let node = &mut nodes[turn % ledgers];
            let ledgers = u64::try_from(ledgers).unwrap();
            let verdict = request(&mut store, node, &charge(1, &algorithm, 1), ledgers, START);
            admitted += u64::from(verdict.admitted);
        }
        assert!(admitted >= 1000);
        assert!(admitted <= 1500, "{admitted} at {ledgers} nodes");
    }
}

#[test]
fn what_was_admitted_too_much_is_paid_later() {
    let quota = Quota::new(10, Span::SECOND).unwrap();
    let algorithm = Algorithm::TokenBucket(TokenBucket::new(quota, 10).unwrap());
    let (mut store, one) = (Central::default(), charge(1, &algorithm, 10));
    let mut nodes = [Ledger::new(10, INTERVAL), Ledger::new(10, INTERVAL)];
    // Neither knows of the other yet.
    for node in &mut nodes {
        node.count(&one, 2, START);
    }
    for node in &mut nodes {
        store.hear(node, START);
    }
    // The second heard of both, and owes as much as the bucket holds.
    assert_eq!(nodes[1].judge(&one, START).retry, Retry::After(Span::from_secs(2)));
}

#[test]
fn what_is_under_way_is_kept_apart_from_what_comes_meanwhile() {
    let (mut store, mut node) = (Central::default(), Ledger::new(10, INTERVAL));
    let algorithm = fixed(100);
    node.count(&charge(1, &algorithm, 3), 1, START);
    let first = node.due(START, ALL).pop().expect("a new key is told at once");
    assert_eq!(first.units, 3);
    node.count(&charge(1, &algorithm, 90), 1, START);
    assert_eq!(node.due(after(5000), ALL), [], "one delta of a key is under way at a time");
    let before = store.count(&first, START);
    node.answered(&first, before.as_ref(), START);
    let second = node.due(START, ALL).pop().expect("90 of 97 matter");
    assert_eq!(second.units, 90);
    // An answer to the first that comes twice is none to the second.
    node.answered(&Delta { sent: after(1), ..first }, None, START);
    assert_eq!(node.peek(&charge(1, &algorithm, 1), START).remaining, 7);
}

#[test]
fn while_the_store_is_away_deltas_are_merged_and_tried_now_and_then() {
    let (mut store, mut node) = (Central::default(), Ledger::new(10, INTERVAL));
    let (algorithm, mut tries) = (fixed(1000), 0);
    for request_ms in (0..5000).step_by(10) {
        node.count(&charge(1, &algorithm, 1), 4, after(request_ms));
        for delta in node.due(after(request_ms), ALL) {
            tries += 1;
            node.not_sent(delta, after(request_ms));
        }
    }
    assert_eq!(tries, 50, "once in a tenth of the interval");
    store.hear(&mut node, after(6000));
    assert_eq!((store.calls, store.units), (1, 500));
}

#[test]
fn a_delta_that_may_have_arrived_is_not_sent_again() {
    let mut node = Ledger::new(10, INTERVAL);
    let algorithm = fixed(100);
    node.count(&charge(1, &algorithm, 3), 1, START);
    let delta = node.due(START, ALL).pop().expect("a new key is told at once");
    node.lost(&delta, START);
    assert_eq!(node.lost_units(), 3);
    assert_eq!(node.close(after(5000)), []);
    assert_eq!(node.peek(&charge(1, &algorithm, 1), START).remaining, 97, "here it counts");
}

#[test]
fn a_refused_key_is_looked_up_again_once_an_interval() {
    let (mut store, mut node) = (Central::default(), Ledger::new(10, INTERVAL));
    let algorithm = fixed(10);
    let charge = |cost| charge(1, &algorithm, cost);
    request(&mut store, &mut node, &charge(10), 1, START);
    let calls = store.calls;
    for request_ms in 0..3000 {
        assert!(!request(&mut store, &mut node, &charge(1), 1, after(request_ms)).admitted);
    }
    assert_eq!(store.calls - calls, 2);
    store.states.clear();
    request(&mut store, &mut node, &charge(1), 1, after(3000));
    assert!(request(&mut store, &mut node, &charge(1), 1, after(3001)).admitted);
}

#[test]
fn what_counts_slots_or_what_is_in_flight_is_not_summed_up() {
    let quota = Quota::new(10, Span::SECOND).unwrap();
    let queue = Algorithm::LeakyBucket(LeakyBucket::new(quota, Span::SECOND, None).unwrap());
    assert!(Ledger::counts(&fixed(1)));
    assert!(!Ledger::counts(&queue));
}
