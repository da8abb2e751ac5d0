//! Units that are given back, and costs above the reservation.

use proptest::prelude::*;
use tollgate_core::algorithm::testing::cases;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 10, ..cases() })]

    #[test]
    fn the_corrected_total_is_the_sum_of_the_actual_costs(
        steps in prop::collection::vec(
            (0..1500_u64, 1..9_u64, prop::option::of(0..12_u64), 0..4_u32, prop::bool::ANY),
            1..100,
        ),
    ) {
        let mut store = Central::default();
        let mut node = Ledger::new(10, INTERVAL);
        let algorithm = fixed(1_000_000);
        let mut now = START;
        let mut sum = 0;
        let mut under_way = Vec::new();
        let mut taken = Vec::new();
        for (gap_ms, reserved, actual, fate, is_quick) in steps {
            now = now.plus(Span::from_millis(gap_ms));
            let one = charge(1, &algorithm, reserved);
            let (verdict, _) = decide(&mut store, &mut node, &one, 4, now);
            prop_assert!(verdict.admitted, "the key is far from its limit");
            sum += reserved;
            taken.push((reserved, now));
            // The store counts a report before it receives later corrections.
            for delta in node.due(now, ALL) {
                match fate {
                    0 => node.not_sent(delta, now),
                    _ => under_way.push((store.count(&delta, now), now, delta)),
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
                for (before, at, delta) in under_way.drain(..) {
                    node.answered(delta, before.as_ref(), at);
                    let told = counted(node.take(&charge(1, &algorithm, 0), 4, now, Span::ZERO));
                    prop_assert_eq!(told.remaining, 1_000_000 - sum);
                }
            }
        }
        for (before, at, delta) in under_way {
            node.answered(delta, before.as_ref(), at);
        }
        for delta in node.close(now) {
            store.count(&delta, now);
        }
        let state = store.states.values().next();
        prop_assert_eq!(algorithm.apply(state, Op::Peek, now).1.remaining, 1_000_000 - sum);
    }
}

#[test]
fn a_refused_request_is_withdrawn_on_the_node_or_in_the_store() {
    let mut store = Central::default();
    let algorithm = fixed(100);
    let three = charge(1, &algorithm, 3);
    let mut node = knowing(&mut store, &three);
    counted(node.take(&three, 1, START, Span::ZERO));
    let (verdict, op) = node.withdraw(&three, START, START);
    assert_eq!((verdict.remaining, op), (100, None), "the store has received no report");
    counted(node.take(&three, 1, after(1), Span::ZERO));
    store.hear(&mut node, after(2000));
    let (verdict, op) = node.withdraw(&three, after(1), after(2000));
    assert_eq!(verdict.remaining, 100);
    store.correct(&three, op.expect("the store has received the report"), after(2000));
    assert_eq!(store.judge(&three, after(2000)).0.remaining, 97);
}

#[test]
fn a_request_with_a_slightly_earlier_time_is_withdrawn_on_the_node() {
    let limit = fixed(100);
    let mut store = Central::default();
    let one = charge(1, &limit, 3);
    let mut node = knowing(&mut store, &one);
    counted(node.take(&one, 1, after(2), Span::ZERO));
    let op = Op::Settle { reserved: 3, actual: 0, taken: after(1) };
    assert_eq!(node.correct(&one, op, 1, after(3)), None, "the store has received no report");
    store.hear(&mut node, after(2000));
    assert_eq!(store.units, 0);
}

/// A reply that the store gave before it received the give-back comes after that was sent.
#[test]
fn units_that_were_given_back_are_free_after_an_older_reply() {
    let mut store = Central::default();
    let limit = fixed(3);
    let three = charge(1, &limit, 3);
    let mut node = knowing(&mut store, &three);
    counted(node.take(&three, 1, START, Span::ZERO));
    store.hear(&mut node, after(1));
    let (_, before) = store.judge(&charge(1, &limit, 0), after(2));
    let (_, op) = node.withdraw(&three, START, after(3));
    node.learn(&charge(1, &limit, 0), before.as_ref(), false, after(2));
    let refused = node.take(&three, 1, after(4), Span::ZERO);
    assert!(matches!(refused, TakeOutcome::Refused(_)), "the older reply has these units");
    store.correct(&three, op.expect("the store has counted it"), after(4));
    let state = store.states.get(&three.key).cloned();
    node.returned(&three.key, state, after(4));
    assert_eq!(counted(node.take(&three, 1, after(5), Span::ZERO)).remaining, 0);
}
