//! The number of units that all nodes together admit.

use proptest::prelude::*;
use tollgate_core::algorithm::testing::cases;

use super::*;

/// A hundred nodes with a limit of ten requests in two seconds for one client. In an earlier
/// version each node treated an unknown key as unused, and a debt above twice the limit was
/// dropped.
#[test]
fn in_the_long_run_a_hundred_nodes_admit_the_quota() {
    let quota = Quota::new(10, Span::from_secs(2)).unwrap();
    for algorithm in [
        Algorithm::FixedWindow(FixedWindow::new(quota)),
        Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        Algorithm::TokenBucket(TokenBucket::new(quota, 10).unwrap()),
    ] {
        let mut store = Central::default();
        let mut nodes: Vec<_> = (0..100).map(|_| Ledger::new(10, INTERVAL)).collect();
        let mut admitted = 0;
        for ms in 0..24_000_u64 {
            let node = &mut nodes[usize::try_from(ms * 7919 % 100).unwrap()];
            let (verdict, _) = request(&mut store, node, &charge(1, &algorithm, 1), 100, after(ms));
            admitted += u64::from(verdict.admitted);
        }
        // The quota of 24 s, and one window that had begun before, or a full bucket.
        assert!((110..=130).contains(&admitted), "{admitted} by {}", algorithm.name());
    }
}

/// At their end, windows forget units above the limit. So units that are admitted above the
/// limit must stay owed and not be counted in them.
#[test]
fn a_burst_in_each_window_is_counted_in_the_next() {
    let algorithm =
        Algorithm::FixedWindow(FixedWindow::new(Quota::new(1000, Span::from_secs(10)).unwrap()));
    let one = charge(1, &algorithm, 1);
    let mut store = Central::default();
    let mut nodes: Vec<_> = (0..4).map(|_| knowing(&mut store, &one)).collect();
    let start_ms = 10_000 - START.as_micros() / 1000 % 10_000;
    let mut admitted = 0;
    for window in 0..50 {
        let now = after(start_ms + window * 10_000);
        // All nodes admit as much as they may before the store receives any report.
        let mut sent = Vec::new();
        for node in &mut nodes {
            while matches!(node.take(&one, 4, now, Span::ZERO), TakeOutcome::Counted(_)) {
                admitted += 1;
            }
            sent.push(node.due(now, ALL));
        }
        // Then the store admits the rest.
        while store.judge(&one, now).0.admitted {
            admitted += 1;
        }
        for (node, deltas) in nodes.iter_mut().zip(sent) {
            for delta in deltas {
                let before = store.count(&delta, now);
                node.answered(delta, before.as_ref(), now);
            }
        }
        for wait_ms in (0..9000).step_by(1000) {
            nodes
                .iter_mut()
                .for_each(|node| store.hear(node, now.plus(Span::from_millis(wait_ms))));
        }
        assert!(admitted <= 1000 * (window + 1) + 500, "{admitted} in {} windows", window + 1);
    }
    assert!(admitted > 50 * 1000, "{admitted}: there were bursts");
}

#[test]
fn a_burst_at_all_nodes_at_once_is_bounded() {
    for nodes in [1_usize, 4, 16] {
        let mut store = Central::default();
        let algorithm = fixed(1000);
        let count = u64::try_from(nodes).unwrap();
        let one = charge(1, &algorithm, 1);
        let mut nodes: Vec<_> = (0..nodes).map(|_| knowing(&mut store, &one)).collect();
        let mut admitted = 0;
        for turn in 0..20_000 {
            let index = turn % nodes.len();
            let (verdict, _) = request(&mut store, &mut nodes[index], &one, count, START);
            admitted += u64::from(verdict.admitted);
        }
        assert!((1000..=1500).contains(&admitted), "{admitted} at {count} nodes");
    }
}

#[test]
fn units_admitted_above_the_limit_are_counted_later() {
    let quota = Quota::new(10, Span::SECOND).unwrap();
    let algorithm = Algorithm::TokenBucket(TokenBucket::new(quota, 40).unwrap());
    let mut store = Central::default();
    let one = charge(1, &algorithm, 10);
    let mut nodes = [(); 2].map(|()| knowing(&mut store, &one));
    for node in &mut nodes {
        counted(node.take(&one, 2, START, Span::ZERO));
    }
    // Other nodes have taken all but five units meanwhile.
    assert!(store.judge(&charge(1, &algorithm, 35), START).0.admitted);
    nodes.iter_mut().for_each(|node| store.hear(node, START));
    // The first owes five of its ten units, the second all of them.
    for (node, owed) in nodes.iter_mut().zip([5, 10]) {
        let TakeOutcome::Refused(verdict) =
            node.take(&charge(1, &algorithm, 1), 2, START, Span::ZERO)
        else {
            panic!("a charge is not refused, although no unit is free");
        };
        assert_eq!(verdict.retry, Retry::After(Span::from_millis((owed + 1) * 100)));
    }
    assert_eq!(store.units, 40);
}

/// The outcome of a report.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    NotSent,
    Lost,
    LostAndCounted,
    Late,
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Answered),
        1 => Just(Fate::NotSent),
        1 => Just(Fate::Lost),
        1 => Just(Fate::LostAndCounted),
        1 => Just(Fate::Late),
    ]
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let quotas = (1..=400_u64, 1..=20_u64)
        .prop_map(|(limit, secs)| Quota::new(limit, Span::from_secs(secs)).unwrap());
    summable(quotas, 1..=400, 1..=10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 10, ..cases() })]

    /// The bound: nodes have admitted at most half a capacity that the store has not counted,
    /// and the units that it counts fit. It also holds with losses, until lost units would
    /// have expired.
    #[test]
    fn at_most_half_a_limit_is_admitted_that_the_store_has_not_counted(
        algorithm in algorithms(),
        count in 1..6_usize,
        steps in prop::collection::vec(
            (
                prop_oneof![6 => 0..3_u64, 2 => 0..1500_u64, 1 => 0..9000_u64],
                0..6_usize, 1..5_u64, 1..40_u32, fates(),
            ),
            1..80,
        ),
    ) {
        let nodes = u64::try_from(count).unwrap();
        let mut store = Central::default();
        let mut now = START;
        let mut ledgers: Vec<_> = (0..count).map(|_| Ledger::new(10, INTERVAL)).collect();
        let mut admitted = 0;
        let mut never = 0;
        let mut late = Vec::new();
        for (gap_ms, index, cost, requests, fate) in steps {
            // These replies are late, but the units in doubt have not expired.
            for (index, delta, before, at) in late.drain(..) {
                let ledger: &mut Ledger = &mut ledgers[index];
                ledger.answered(delta, Option::as_ref(&before), at);
            }
            now = now.plus(Span::from_millis(gap_ms));
            let charge = charge(1, &algorithm, cost);
            let ledger = &mut ledgers[index % count];
            for _ in 0..requests {
                let (verdict, _) = decide(&mut store, ledger, &charge, nodes, now);
                admitted += if verdict.admitted { cost } else { 0 };
                let kept = store.units + never;
                let most = algorithm.capacity();
                let parts = if count == 1 { 1 } else { 2 };
                prop_assert!(parts * (admitted - kept) <= most, "{admitted}, {kept} counted");
            }
            for mut delta in ledger.due(now, ALL) {
                match fate {
                    Fate::Answered => {
                        let before = store.count(&delta, now);
                        ledger.answered(delta, before.as_ref(), now);
                    }
                    Fate::NotSent => ledger.not_sent(delta, now),
                    // The store never counts these units, and no node owes them any more.
                    Fate::Lost => {
                        never += delta.units;
                        ledger.lost(&mut delta, now);
                    }
                    Fate::LostAndCounted => {
                        let before = store.units;
                        store.count(&delta, now);
                        never += delta.units - (store.units - before);
                        ledger.lost(&mut delta, now);
                    }
                    Fate::Late => {
                        let before = store.count(&delta, now);
                        ledger.lost(&mut delta, now);
                        late.push((index % count, delta, before, now));
                    }
                }
            }
        }
    }
}

/// Regression: the first reply opened the account, and the node admitted all free units itself
/// while the store admitted its questions that were still under way.
#[test]
fn units_for_which_the_store_was_asked_are_not_free() {
    let quota = Quota::new(10, Span::DAY).unwrap();
    for algorithm in [
        Algorithm::FixedWindow(FixedWindow::new(quota)),
        Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        Algorithm::TokenBucket(TokenBucket::new(quota, 10).unwrap()),
    ] {
        let mut store = Central::default();
        let mut node = Ledger::new(10, INTERVAL);
        let one = charge(1, &algorithm, 1);
        for _ in 0..6 {
            assert_eq!(
                node.take(&one, 1, START, Span::ZERO),
                TakeOutcome::Ask,
                "the key is not known"
            );
        }
        let mut admitted = 0;
        let reply = |store: &mut Central, node: &mut Ledger| {
            let (verdict, before) = store.judge(&one, START);
            node.learn(&one, before.as_ref(), verdict.admitted, START);
            node.end_ask(&one);
            verdict.admitted
        };
        admitted += u64::from(reply(&mut store, &mut node));
        for left in (0..4).rev() {
            assert_eq!(counted(node.take(&one, 1, START, Span::ZERO)).remaining, left);
            admitted += 1;
        }
        assert_eq!(
            node.take(&one, 1, START, Span::ZERO),
            TakeOutcome::Ask,
            "5 questions are under way"
        );
        for _ in 0..5 {
            admitted += u64::from(reply(&mut store, &mut node));
        }
        // A node reports what it has counted before it asks again.
        store.hear(&mut node, START);
        assert!(!reply(&mut store, &mut node), "{}", algorithm.name());
        assert_eq!(admitted, 10, "{}", algorithm.name());
    }
}

/// Regression: a question overtook units that were counted while a report was under way, and the
/// store admitted what they had used up.
#[test]
fn a_question_follows_the_unsent_units_even_if_a_report_is_under_way() {
    let mut store = Central::default();
    let algorithm = fixed(10);
    let one = charge(1, &algorithm, 1);
    let mut node = knowing(&mut store, &one);
    let take = |node: &mut Ledger, cost| {
        node.take(&charge(1, &algorithm, cost), 1, after(1000), Span::ZERO)
    };
    counted(take(&mut node, 6));
    let first = node.due(after(1000), ALL).pop().expect("it matters");
    counted(take(&mut node, 4));
    assert!(node.due(after(1000), ALL).is_empty(), "one report is under way");
    // Another reply may include the report, so the store must decide.
    node.learn(&one, store.count(&first, after(1000)).as_ref(), false, after(1000));
    assert_eq!(take(&mut node, 1), TakeOutcome::Ask);
    let second = node.due(after(1000), ALL).pop().expect("the store must know it");
    assert_eq!((first.units, second.units), (6, 4));
    let before = store.count(&second, after(1000));
    assert!(!store.judge(&one, after(1000)).0.admitted);
    node.answered(second, before.as_ref(), after(1000));
    node.answered(first, None, after(1000));
    node.end_ask(&one);
    assert_eq!(node.unsent().map(|(_, units)| units).sum::<u64>(), 0);
}

/// Regression: the units that a node owed and that did not fit were missing in its waits.
#[test]
fn a_wait_includes_the_units_that_this_node_owes() {
    let quota = Quota::new(10, Span::from_secs(10)).unwrap();
    let algorithm = Algorithm::TokenBucket(TokenBucket::new(quota, 10).unwrap());
    let mut store = Central::default();
    let all = charge(1, &algorithm, 10);
    let mut node = knowing(&mut store, &all);
    counted(node.take(&all, 1, after(1000), Span::ZERO));
    // Another node has used up the limit, so the report does not fit.
    assert!(store.judge(&all, after(1000)).0.admitted);
    let report = node.due(after(1000), ALL).pop().expect("it matters");
    let before = store.count(&report, after(1000));
    node.answered(report, before.as_ref(), after(1000));
    let one = charge(1, &algorithm, 1);
    let told = node.told(&one, after(1000)).expect("the store was just heard");
    // The bucket is empty after 10 s. Then the owed units count, and it has a new one a second
    // later; the report may be late by its interval and a look.
    let wait_us = 11_000_000 + INTERVAL.as_micros() + 100_000;
    assert_eq!(told.retry, Retry::After(Span::from_micros(wait_us)));
    assert_eq!(node.told(&one, after(1011)), None, "other nodes may have counted since");
}

/// Whether the store has counted a question without a reply is not known until it is heard again.
#[test]
fn a_node_with_a_question_in_doubt_admits_nothing_itself() {
    let mut store = Central::default();
    let algorithm = fixed(10);
    let one = charge(1, &algorithm, 1);
    let mut node = knowing(&mut store, &one);
    counted(node.take(&one, 1, START, Span::ZERO));
    node.ask(&one);
    node.doubt_ask(&one);
    node.end_ask(&one);
    let (_, was_asked) = decide(&mut store, &mut node, &one, 1, START);
    assert!(was_asked);
    counted(node.take(&one, 1, START, Span::ZERO));
}
