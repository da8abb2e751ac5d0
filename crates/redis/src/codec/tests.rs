//! Bodies have the right operations, and no reply makes decoding panic.

use proptest::prelude::*;
use tollgate_core::algorithm::testing::{algorithms, cases};
use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::digest::Key;
use tollgate_core::digest::{Counter, Principal};
use tollgate_core::time::Timestamp;

use super::body::head;
use super::*;
use crate::fuzzing::every_algorithm;
use crate::layout::Layout;
use crate::script::Encoded;

fn asked(algorithm: &Algorithm, principal: u128, counter: u64, ask: Ask) -> Asked<'_> {
    let principal = Principal::from_bits(principal);
    let key = Key { principal, counter: Counter::from_bits(counter) };
    Asked { key, algorithm, ask, binding: true }
}

fn encoder() -> Encoder {
    Encoder::new(Layout::with_buckets("rl", 16), 1)
}

/// 2026-11-21T07:28:46Z.
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// A reply with this rest after the time.
fn answer(refused: u8, values: &[&[u8]]) -> Vec<u8> {
    let mut answer = vec![refused];
    answer.extend_from_slice(&NOW.as_micros().to_le_bytes()[..7]);
    values.iter().for_each(|value| answer.extend_from_slice(value));
    answer
}

#[test]
fn operations_of_one_principal_are_adjacent() {
    let policy = &every_algorithm()[0];
    let asks =
        [(7, 1), (8, 2), (7, 3)].map(|(who, counter)| asked(policy, who, counter, Ask::Peek));
    let Encoded { keys, body } = encoder().encode(&asks, NOW);
    assert_eq!(keys.to_vec(), ["rl:7", "rl:8"]);
    let charge = 3 + 1 + 1 + 1 + 6 + 12;
    assert_eq!(body.len(), 1 + 2 * (7 + 1) + 3 * charge);
    assert_eq!((body[0], body[8], body[9], body[9 + charge]), (2, 2, 1, 3));
}

#[test]
fn the_order_of_the_policies_does_not_change_the_body() {
    let policies = every_algorithm();
    let asks: Vec<_> = [(7, 0x0100_0003), (7, 2), (7, 1)]
        .into_iter()
        .zip(&policies)
        .map(|((who, counter), policy)| asked(policy, who, counter, Ask::Take(1)))
        .collect();
    let body = |order: [usize; 3]| encoder().encode(&order.map(|index| asks[index]), NOW).body;
    let first = body([0, 1, 2]);
    assert_eq!(first[9], 1, "the smallest counter comes first");
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(body(order), first);
        let asks = order.map(|index| asks[index]);
        let found = decode(&asks, &answer(0, &[])).unwrap();
        let limits = found.replies.iter().map(|it| it.verdict.limit);
        assert!(limits.eq(asks.iter().map(|it| it.algorithm.limit())), "each has its own verdict");
    }
}

#[test]
fn the_ends_of_a_window_of_a_minute_are_counted_in_units_of_2_to_the_24() {
    let body = encoder().encode(&[asked(&every_algorithm()[0], 0, 0, Ask::Peek)], NOW).body;
    assert_eq!(body[12], (1 << 4) + 24 / 3);
}

#[test]
fn replies_have_the_order_of_the_operations() {
    let [sliding, _, fixed, ..] = every_algorithm();
    let asks = [
        asked(&sliding, 7, 1, Ask::Take(1)),
        asked(&sliding, 8, 2, Ask::Take(1)),
        asked(&fixed, 7, 3, Ask::Take(1)),
    ];
    // The first principal's field has the state of another counter, too. The fixed window
    // has 40 units, and ends at 07:29:00, which is 3,549,847 units of 2^24 us.
    let other = [9, 0, 0, 0x28, 0x97, 0x2a, 0x36, 0, 0, 2, 7, 7];
    let fixed_state = [3, 0, 0, 0x38, 0x97, 0x2a, 0x36, 0, 40];
    let found = decode(&asks, &answer(0, &[&[21], &other, &fixed_state])).unwrap();
    assert_eq!((found.at, found.refused), (NOW, false));
    let remaining = found.replies.iter().map(|reply| reply.verdict.remaining);
    assert_eq!(remaining.collect::<Vec<_>>(), [99, 99, 59]);
}

#[test]
fn an_answer_that_contradicts_its_states_is_refused() {
    let policy = &every_algorithm()[0];
    let asks = [asked(policy, 0, 0, Ask::Take(1))];
    assert_eq!(decode(&asks, &answer(1, &[])), Err(InvalidReply::Disagrees));
    let asks = [asked(policy, 0, 0, Ask::Take(101))];
    assert_eq!(decode(&asks, &answer(0, &[])), Err(InvalidReply::Disagrees));
}

#[test]
fn an_error_says_what_is_wrong_with_a_reply() {
    let [sliding, ..] = every_algorithm();
    let asks = [asked(&sliding, 0, 0, Ask::Take(1))];
    let decode = |answer: &[u8]| decode(&asks, answer).unwrap_err();
    assert_eq!(decode(&[]), InvalidReply::Short);
    assert_eq!(decode(&[2]), InvalidReply::Outcome(2));
    assert_eq!(decode(&[0; 9]), InvalidReply::Time(0));
    let state = [0, 0, 0, 0x18, 1, 1, 1, 1];
    assert_eq!(decode(&answer(0, &[&state[..6]])), InvalidReply::Short);
    assert_eq!(decode(&answer(0, &[&state])), InvalidReply::Short);
    assert_eq!(decode(&answer(0, &[&state, &[0xff; 12]])), InvalidReply::Number);
}

#[test]
fn a_field_with_unknown_content_counts_as_empty() {
    let [sliding, ..] = every_algorithm();
    let asks = [asked(&sliding, 0, 0, Ask::Take(1))];
    for value in [&b"x"[..], b"hello, world", &[0xff; 40], &[1, 0, 0, 0x28, 1, 1, 1, 1, 9, 9]] {
        assert_eq!(decode(&asks, &answer(0, &[value])).unwrap().replies[0].before, None);
    }
}

#[test]
fn a_settlement_becomes_the_difference() {
    let [sliding, .., concurrency, _] = every_algorithm();
    let taken = NOW;
    let ask = |algorithm, reserved, actual| {
        let key = asked(algorithm, 0, 0, Ask::Peek).key;
        Asked::correction(key, algorithm, Op::Settle { reserved, actual, taken }).map(|it| it.ask)
    };
    assert_eq!(ask(&sliding, 5, 5), None);
    assert_eq!(ask(&sliding, 5, 2), Some(Ask::Give { cost: 3, taken }));
    assert_eq!(ask(&sliding, 5, 9), Some(Ask::Charge(4)));
    assert_eq!(ask(&concurrency, 5, 9), None);
}

/// Replies that begin correctly, so that not all of them fail at once: with the state of the
/// requested counter.
fn answers(head: u8) -> impl Strategy<Value = Vec<u8>> {
    let varied = prop_oneof![Just(0x80_u8), Just(0xff), Just(0), Just(1), any::<u8>()];
    (0..2_u8, prop::collection::vec(varied, 0..40))
        .prop_map(move |(refused, rest)| answer(refused, &[&[1, 0, 0, head], &rest]))
}

fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        Just(Ask::Peek),
        any::<u64>().prop_map(Ask::Take),
        (any::<[u64; 3]>(), any::<u16>()).prop_map(|([cost, extra, reserve], share)| {
            Ask::Lease { cost, ahead: Ahead { extra, reserve, share_1024: share } }
        }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(cost, taken)| Ask::Give { cost, taken: Timestamp::from_micros(taken) }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(cost, taken)| Ask::Cancel { cost, taken: Timestamp::from_micros(taken) }),
        any::<u64>().prop_map(Ask::Charge),
        (any::<u64>(), any::<u64>()).prop_map(|(units, asked)| Ask::Renew { units, asked }),
        Just(Ask::Reset),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn decoding_a_reply_never_panics(
        (algorithm, answer) in
            prop_oneof![prop::sample::select(every_algorithm().to_vec()), algorithms()].prop_flat_map(|it| {
                let any = prop::collection::vec(any::<u8>(), 0..40);
                (Just(it.clone()), prop_oneof![answers(head(&it)), any])
            }),
        ask in asks(),
        binding in any::<bool>(),
    ) {
        let asked = Asked { binding, ..asked(&algorithm, 1, 1, ask) };
        if let Ok(answered) = decode(&[asked], &answer) {
            prop_assert_eq!(answered.replies.len(), 1);
        }
    }

    #[test]
    fn encoding_operations_never_panics(
        algorithm in prop_oneof![prop::sample::select(every_algorithm().to_vec()), algorithms()],
        ask in asks(),
        (principal, counter, now_us) in any::<(u128, u64, u64)>(),
    ) {
        let now = Timestamp::from_micros(now_us);
        let body = encoder().encode(&[asked(&algorithm, principal, counter, ask)], now);
        prop_assert_eq!((body.keys.len(), body.body[0]), (1, 1));
    }

    #[test]
    fn a_lease_never_takes_more_than_fits(
        room in any::<u64>(),
        (cost, extra, reserve) in any::<(u64, u64, u64)>(),
        share in any::<u16>(),
    ) {
        let ahead = Ahead { extra, reserve, share_1024: share };
        let free = room.saturating_sub(cost);
        prop_assert!(ahead.granted(free) <= extra.min(free));
    }
}
