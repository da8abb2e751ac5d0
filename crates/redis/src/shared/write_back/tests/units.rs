//! Each unit is counted once, or reported as lost.

use proptest::prelude::*;
use tollgate_core::algorithm::testing::cases;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 10, ..cases() })]

    #[test]
    fn each_unit_is_counted_once_or_reported_as_lost(
        max_keys in prop_oneof![0..4_usize, Just(1000)],
        steps in prop::collection::vec(
            (0..1500_u64, 0..6_u64, 1..9_u64, 0..9_u32, 1..4_usize),
            1..200,
        ),
    ) {
        let mut store = Central::default();
        let mut node = Ledger::new(max_keys, INTERVAL);
        let algorithm = fixed(100);
        let mut now = START;
        let mut admitted = 0;
        let mut waiting = Vec::new();
        let mut late = Vec::new();
        for (gap_ms, client, cost, fate, most) in steps {
            now = now.plus(Span::from_millis(gap_ms));
            let charge = charge(client, &algorithm, cost);
            let (verdict, _) = decide(&mut store, &mut node, &charge, 1, now);
            admitted += if verdict.admitted { cost } else { 0 };
            waiting.extend(node.due(now, most));
            // Replies come in any order.
            let index = usize::try_from(client).unwrap() % waiting.len().max(1);
            match fate {
                _ if waiting.is_empty() => {}
                0 => node.not_sent(waiting.swap_remove(index), now),
                1 => node.lost(&mut waiting.swap_remove(index), now),
                2 => {}
                3 => {
                    let mut delta = waiting.swap_remove(index);
                    node.lost(&mut delta, now);
                    late.push((delta, is_even(client)));
                }
                _ => {
                    let delta = waiting.swap_remove(index);
                    let before = store.count(&delta, now);
                    node.answered(delta, before.as_ref(), now);
                }
            }
            if late.len() > 2 {
                let (delta, has_arrived) = late.remove(0);
                if has_arrived {
                    let before = store.count(&delta, now);
                    node.answered(delta, before.as_ref(), now);
                } else {
                    node.not_sent(delta, now);
                }
            }
            prop_assert!(node.next_due().is_none_or(|due| due >= START));
        }
        for delta in waiting.into_iter().chain(late.into_iter().map(|(delta, _)| delta)) {
            node.not_sent(delta, now);
        }
        let unsent: u64 = node.unsent().map(|(_, units)| units).sum();
        let known = store.units + node.lost_units() + node.forgotten_units();
        prop_assert_eq!(known + unsent, admitted);
        // Units that do not fit into one window fit into later ones.
        for day in 0..1000 {
            let then = now.plus(Span::from_secs(86_400 * day));
            store.hear(&mut node, then);
        }
        prop_assert_eq!(node.close(now), []);
        prop_assert_eq!(store.units + node.lost_units() + node.forgotten_units(), admitted);
        if max_keys > 100 {
            prop_assert_eq!(node.forgotten_units(), 0);
        }
    }
}

fn is_even(number: u64) -> bool {
    number.is_multiple_of(2)
}

#[test]
fn a_delta_that_may_have_arrived_is_not_sent_again() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let three = charge(1, &algorithm, 3);
    let (mut node, mut delta) = reported(&mut store, &three);
    node.lost(&mut delta, after(1000));
    assert_eq!(node.lost_units(), 3);
    assert_eq!(node.close(after(5000)), []);
    // Its units are part of what this node may admit: a quarter of 100, as one of two nodes.
    node.learn(&Charge { cost: 0, ..three }, None, true, after(1000));
    let more = charge(1, &algorithm, 23);
    assert_eq!(node.take(&more, 2, after(1000), Span::ZERO), TakeOutcome::Ask);
    node.end_ask(&more);
    counted(node.take(&charge(1, &algorithm, 22), 2, after(1000), Span::ZERO));
}

#[test]
fn a_late_reply_ends_the_doubt() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let three = charge(1, &algorithm, 3);
    let most = charge(1, &algorithm, 24);
    for has_arrived in [true, false] {
        let (mut node, mut delta) = reported(&mut store, &three);
        node.lost(&mut delta, after(1000));
        assert_eq!(
            node.take(&most, 2, after(1000), Span::ZERO),
            TakeOutcome::Ask,
            "the store has acknowledged nothing"
        );
        node.end_ask(&most);
        if has_arrived {
            let before = store.count(&delta, after(1000));
            node.answered(delta, before.as_ref(), after(1000));
            assert_eq!(store.units, 3);
        } else {
            node.not_sent(delta, after(1000));
            let delta = node.due(after(1100), ALL).pop().expect("the report is sent again");
            assert_eq!(delta.units, 3);
            node.answered(delta, None, after(1100));
        }
        assert_eq!(node.lost_units(), 0);
        assert_eq!(
            counted(node.take(&most, 2, after(1100), Span::ZERO)).remaining,
            73,
            "no unit is in doubt"
        );
    }
}

#[test]
fn a_node_that_stops_reports_units_that_were_counted_during_a_report() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let three = charge(1, &algorithm, 3);
    let (mut node, first) = reported(&mut store, &three);
    counted(node.take(&three, 1, after(1000), Span::ZERO));
    node.correct(&three, Op::Settle { reserved: 3, actual: 9, taken: START }, 1, after(1000));
    let rest: Vec<_> = node.close(after(1000)).into_iter().map(|delta| delta.units).collect();
    assert_eq!((first.units, rest), (3, vec![3, 6]));
}

#[test]
fn units_admitted_without_the_store_count_on_the_node_until_the_next_reply() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let one = charge(1, &algorithm, 1);
    let mut node = knowing(&mut store, &one);
    node.foresee(&charge(1, &algorithm, 100), START);
    assert!(matches!(node.take(&one, 1, START, Span::ZERO), TakeOutcome::Refused(_)));
    assert_eq!(node.close(START), [], "the ledger does not report it");
    node.learn(&Charge { cost: 0, ..one }, None, true, after(10));
    assert_eq!(counted(node.take(&one, 1, after(10), Span::ZERO)).remaining, 99);
}
