//! The cache against a plain map instead of the store: the store refuses all that the cache
//! refuses, with the same verdicts.

use std::collections::HashMap;

use proptest::prelude::*;
use smallvec::smallvec;
use tollgate_core::algorithm::testing::{algorithms, cases};
use tollgate_core::algorithm::{Concurrency, FixedWindow, Quota, SlidingWindow, SubWindows};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Principal};
use tollgate_core::store::Source;

use super::*;

const ROOMY: usize = 1 << 20;

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us)
}

fn key(number: u64) -> Key {
    Key { principal: Principal::from_bits(number.into()), counter: Counter::from_bits(7) }
}

fn charge(number: u64, algorithm: &Algorithm, cost: u64) -> Charge<'_> {
    Charge { key: key(number), algorithm, cost, binding: true, consistency: Consistency::default() }
}

fn fixed(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::from_secs(60)).unwrap()))
}

/// The cache's answers if no units were given back, and no other node counts.
fn refuse(cache: &DenyCache, charges: &[Charge<'_>], now: Timestamp) -> Option<Answers> {
    refuse_if(cache, charges, now, |_, _| true)
}

fn refuse_if(
    cache: &DenyCache,
    charges: &[Charge<'_>],
    now: Timestamp,
    is_current: impl Fn(&Key, Timestamp) -> bool,
) -> Option<Answers> {
    match cache.judge(charges.iter().copied(), &Trust { now, fresh_for: MAX_AGE, is_current }) {
        Known::Refused(answers) => Some(answers),
        Known::Stale(_) => panic!("no state is older than what is used"),
        Known::Unknown => None,
    }
}

/// The store, and the number of calls to it.
#[derive(Default)]
struct Central {
    states: HashMap<Key, State>,
    calls: u64,
}

impl Central {
    /// The answers of the store, and the states afterwards.
    fn decide(
        &mut self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> (Vec<Verdict>, Vec<Option<State>>) {
        self.calls += 1;
        let judge =
            |charge: &Charge<'_>, op| charge.algorithm.apply(self.states.get(&charge.key), op, now);
        let mut judged: Vec<_> =
            charges.iter().map(|charge| judge(charge, Op::Take(charge.cost))).collect();
        if charges.iter().zip(&judged).any(|(charge, (_, it))| charge.binding && !it.admitted) {
            for (charge, (next, verdict)) in charges.iter().zip(&mut judged) {
                *next = None;
                if verdict.admitted {
                    let before = judge(charge, Op::Peek).1;
                    *verdict = Verdict { admitted: true, retry: Retry::Now, ..before };
                }
            }
        }
        for (charge, (next, _)) in charges.iter().zip(&judged) {
            if let Some(next) = next {
                self.states.insert(charge.key, next.clone());
            }
        }
        let states = charges.iter().map(|charge| self.states.get(&charge.key).cloned()).collect();
        (judged.into_iter().map(|(_, verdict)| verdict).collect(), states)
    }

    /// A request on a node: the cache answers, or else the store.
    fn ask(
        &mut self,
        cache: &mut DenyCache,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> Vec<Answer> {
        if let Some(answers) = refuse(cache, charges, now) {
            return answers.to_vec();
        }
        let (verdicts, states) = self.decide(charges, now);
        cache.learn(charges.iter().copied().zip(states), now);
        verdicts.into_iter().map(Answer::of_store).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 4, ..cases() })]

    #[test]
    fn the_cache_of_a_single_node_gives_the_answers_of_the_store(
        policies in prop::collection::vec(algorithms(), 3),
        steps in steps(),
    ) {
        let mut store = Central::default();
        let mut without = Central::default();
        let mut cache = DenyCache::new(ROOMY);
        let mut now = at(1_795_246_126_000_000);
        for (gap_us, client, costs) in steps {
            now = now.plus(Span::from_micros(gap_us));
            let charges = request(&policies, client, &costs);
            let said = store.ask(&mut cache, &charges, now);
            for (said, expected) in said.iter().zip(without.decide(&charges, now).0) {
                // A charge that was not asked for does not refuse the request.
                match said.source {
                    Source::Unasked => prop_assert!(expected.admitted),
                    _ => prop_assert_eq!(said.verdict, expected),
                }
            }
        }
    }

    #[test]
    fn a_node_refuses_only_what_the_store_refuses_whatever_other_nodes_consume(
        policies in prop::collection::vec(algorithms(), 3),
        steps in steps(),
    ) {
        let mut store = Central::default();
        let mut caches = [DenyCache::new(ROOMY), DenyCache::new(ROOMY)];
        let mut now = at(1_795_246_126_000_000);
        for (turn, (gap_us, client, costs)) in steps.into_iter().enumerate() {
            now = now.plus(Span::from_micros(gap_us));
            let charges = request(&policies, client, &costs);
            let cache = &mut caches[turn % 2];
            let Some(refused) = refuse(cache, &charges, now) else {
                store.ask(cache, &charges, now);
                continue;
            };
            let before = store.states.clone();
            let (verdicts, _) = store.decide(&charges, now);
            prop_assert_eq!(&store.states, &before, "the store counts nothing");
            let told = refused.iter().zip(&verdicts).filter(|(it, _)| it.source == Source::Store);
            for (here, there) in told.map(|(here, there)| (here.verdict, there)) {
                prop_assert!(here.admitted || !there.admitted);
                prop_assert!(here.remaining >= there.remaining && here.retry <= there.retry);
            }
        }
    }
}

/// A gap in microseconds, a client, and for each policy the cost of the request and whether it
/// binds.
type Step = (u64, u64, Vec<(u64, bool)>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap_us = prop_oneof![8 => 0..300_u64, 1 => 0..3_000_000_u64];
    let costs = prop::collection::vec((0..=4_u64, prop::bool::weighted(0.8)), 1..=3);
    prop::collection::vec((gap_us, 0..3_u64, costs), 1..80)
}

/// A request of this client. The last policy counts all clients together.
fn request<'a>(policies: &'a [Algorithm], client: u64, costs: &[(u64, bool)]) -> Vec<Charge<'a>> {
    let numbers = [client, 100 + client, 200];
    let placed = policies.iter().zip(numbers).zip(costs);
    let charge = |((algorithm, number), &(cost, binding))| Charge {
        binding,
        ..charge(number, algorithm, cost)
    };
    placed.map(charge).collect()
}

#[test]
fn a_refused_client_costs_one_call_a_minute() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let quota = Quota::new(2, Span::DAY).unwrap();
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
    let start = at(0);
    for request in 0..10_000 {
        let now = start.plus(Span::from_millis(60 * request));
        let verdict = store.ask(&mut cache, &[charge(1, &algorithm, 1)], now)[0].verdict;
        assert_eq!(verdict.admitted, request < 2);
    }
    // Two are admitted. The second call already shows that a third one does not fit.
    assert!((11..=12).contains(&store.calls), "{} calls", store.calls);
}

#[test]
fn after_a_give_back_on_another_node_the_store_is_asked_as_soon_as_it_is_announced() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let algorithm = fixed(2);
    store.ask(&mut cache, &[charge(1, &algorithm, 2)], at(5));
    let refused = |changed| {
        let is_current = |_: &Key, asked| asked > at(changed);
        refuse_if(&cache, &[charge(1, &algorithm, 1)], at(7), is_current).is_some()
    };
    assert!(refused(4), "the store was asked after the give-back");
    assert!(!refused(5) && !refused(6));
}

/// The limit of a client at one destination, and the limit for all clients at another one,
/// whose clock is an hour ahead.
#[test]
fn a_client_over_its_own_limit_costs_no_call_at_any_destination() {
    let mut cache = DenyCache::new(ROOMY);
    let own = fixed(1);
    let all = fixed(100);
    let charges = [charge(1, &own, 1), charge(2, &all, 1)];
    let now = at(120_000_000);
    let there = now.plus(Span::from_secs(3600));
    let used = own.apply(None, Op::Take(1), now).0;
    let nearly_all = all.apply(None, Op::Take(99), there).0;
    let clocks = [StoreClock::new(now, now, now), StoreClock::new(there, now, now)];
    cache.learn_all(smallvec![
        Observation { charge: charges[0], state: used, clock: clocks[0] },
        Observation { charge: charges[1], state: nearly_all, clock: clocks[1] },
    ]);
    let refuse_after = |after_s, is_current: bool| {
        refuse_if(&cache, &charges, now.plus(Span::from_secs(after_s)), |_, _| is_current)
    };
    let answers = refuse_after(0, true).unwrap();
    assert_eq!(answers[0].verdict.retry, Retry::After(Span::from_secs(60)));
    assert_eq!((answers[1].verdict.admitted, answers[1].verdict.remaining), (true, 1));
    let answers = refuse_after(30, true).unwrap();
    assert_eq!(answers[0].verdict.retry, Retry::After(Span::from_secs(30)));
    assert_eq!(answers[1].source, Source::Unasked, "other nodes may have taken units");
    assert!(refuse_after(60, true).is_none(), "its own wait is over");
    assert!(refuse_after(0, false).is_none(), "units may have been given back");
    let full = [charges[0], charge(2, &all, 2)];
    let answers = refuse(&cache, &full, now).unwrap();
    let wait = Retry::After(Span::from_secs(60));
    assert!(answers.iter().all(|it| it.verdict.retry == wait), "by the clock of each destination");
}

/// What the cache knows of a request, if other nodes may count.
fn known(cache: &DenyCache, charges: &[Charge<'_>], now: Timestamp) -> Known {
    let is_current = |_: &Key, _| true;
    cache.judge(charges.iter().copied(), &Trust { now, fresh_for: FRESH_FOR, is_current })
}

/// Regression: the cache told waits by states that were up to a minute old.
#[test]
fn a_wait_is_told_by_a_fresh_state_or_by_one_that_ends_when_it_ends() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let quota = Quota::new(2, Span::from_secs(60)).unwrap();
    let fixed = fixed(2);
    let sliding = Algorithm::SlidingWindow(SlidingWindow::new(quota));
    let start = at(1_795_246_126_000_000);
    for (client, algorithm) in [(1, &fixed), (2, &sliding), (3, &sliding)] {
        let cost = if client == 3 { 1 } else { 2 };
        cache.note(
            key(client),
            store.decide(&[charge(client, algorithm, cost)], start).1[0].clone(),
            StoreClock::new(start, start, start),
        );
    }
    let [ends, drains, open] =
        [charge(1, &fixed, 1), charge(2, &sliding, 1), charge(3, &sliding, 1)];
    let is_refused = |charges: &[Charge<'_>], us| {
        matches!(known(&cache, charges, start.plus(Span::from_micros(us))), Known::Refused(_))
    };
    let stale =
        |charges: &[Charge<'_>], us| known(&cache, charges, start.plus(Span::from_micros(us)));
    let fresh_us = 9_999;
    let old_us = 10_000;
    assert!(is_refused(&[ends], old_us) && is_refused(&[drains], fresh_us));
    assert_eq!(stale(&[drains], old_us), Known::Stale(key(2)), "other nodes may have counted");
    assert!(is_refused(&[ends, open], fresh_us));
    assert_eq!(stale(&[open, ends], old_us), Known::Stale(key(1)), "it may be used up since");
    assert_eq!(stale(&[open], old_us), Known::Unknown);
    // A minute's wait hides what lasts for a second at most.
    let second = SlidingWindow::new(Quota::new(1, Span::from_secs(1)).unwrap());
    let second = Algorithm::SlidingWindow(second);
    let short = charge(3, &second, 1);
    assert!(is_refused(&[short, ends], old_us));
}

#[test]
fn if_one_charge_is_unknown_the_store_is_asked() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let full = fixed(2);
    let other = fixed(9);
    store.ask(&mut cache, &[charge(1, &full, 2)], at(0));
    assert!(refuse(&cache, &[charge(1, &full, 1)], at(1)).is_some());
    assert!(refuse(&cache, &[charge(2, &other, 1), charge(1, &full, 1)], at(1)).is_none());
}

#[test]
fn a_raised_limit_applies_at_once() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let low = fixed(2);
    let high = fixed(3);
    store.ask(&mut cache, &[charge(1, &low, 2)], at(0));
    assert!(refuse(&cache, &[charge(1, &low, 1)], at(1)).is_some());
    assert!(store.ask(&mut cache, &[charge(1, &high, 1)], at(1))[0].verdict.admitted);
}

#[test]
fn after_a_give_back_the_store_is_asked() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let algorithm = fixed(2);
    let taken = charge(1, &algorithm, 2);
    store.ask(&mut cache, &[taken], at(0));
    assert!(refuse(&cache, &[taken], at(1)).is_some());
    cache.forget(&taken.key);
    assert!(refuse(&cache, &[taken], at(1)).is_none());
}

#[test]
fn the_store_is_always_asked_for_units_in_flight() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let in_flight = Algorithm::Concurrency(Concurrency::new(1).unwrap());
    let full = fixed(1);
    let alone = [charge(1, &in_flight, 1)];
    store.ask(&mut cache, &alone, at(0));
    store.ask(&mut cache, &alone, at(1));
    assert!(refuse(&cache, &alone, at(2)).is_none());
    // If another limit refuses, the answer for this charge has the last known units in flight.
    let both = [charge(1, &in_flight, 1), charge(2, &full, 2)];
    store.ask(&mut cache, &both, at(3));
    assert!(refuse(&cache, &both, at(4)).is_some());
}

#[test]
fn a_charge_that_does_not_bind_is_refused_locally_only_if_no_other_charge_counts() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(ROOMY);
    let full = fixed(1);
    let roomy = fixed(10);
    let shadow = Charge { binding: false, ..charge(1, &full, 1) };
    store.ask(&mut cache, &[shadow], at(0));
    assert!(!refuse(&cache, &[shadow], at(1)).unwrap()[0].verdict.admitted);
    store.ask(&mut cache, &[shadow, charge(2, &roomy, 1)], at(1));
    assert!(refuse(&cache, &[shadow, charge(2, &roomy, 1)], at(2)).is_none());
}

#[test]
fn many_refused_clients_do_not_exceed_the_size_of_the_cache() {
    const MAX_BYTES: usize = 100_000;
    let mut store = Central::default();
    let mut cache = DenyCache::new(MAX_BYTES);
    let quota = Quota::new(1, Span::SECOND).unwrap();
    let algorithm = Algorithm::SubWindows(SubWindows::new(quota, 100).unwrap());
    for client in 0..2000 {
        store.ask(&mut cache, &[charge(client, &algorithm, 1)], at(client));
        assert!(cache.seen.weight() <= MAX_BYTES as u64);
    }
    assert!(cache.seen.len() > 100, "the cache is used");
    assert!(cache.seen.memory_used().total() < 2 * MAX_BYTES);
}

#[test]
fn a_cache_of_size_zero_refuses_nothing() {
    let mut store = Central::default();
    let mut cache = DenyCache::new(0);
    let algorithm = fixed(1);
    for us in 0..3 {
        store.ask(&mut cache, &[charge(1, &algorithm, 1)], at(us));
    }
    assert_eq!(store.calls, 3);
}
