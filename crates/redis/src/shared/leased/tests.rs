//! Several ledgers with one central state: no unit is spent that was not taken, and the bound
//! holds for any sequence of requests.

mod bans;
mod units;

use std::collections::HashMap;

use tollgate_core::algorithm::testing::cases;
use tollgate_core::algorithm::testing::summable;
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, Op, Quota, Retry, SlidingLog, SlidingWindow, State,
    TokenBucket, Verdict,
};
use tollgate_core::digest::Key;
use tollgate_core::store::Charge;
use tollgate_core::testing::{START, after};
use tollgate_core::time::{Span, Timestamp};

use crate::shared::testing::charge;
use proptest::prelude::*;

use super::*;
use crate::shared::Ahead;
use crate::shared::FRESH_FOR;

const LENGTH: LeaseLength = LeaseLength { share_percent: 2, longest: Span::from_secs(10) };

/// 1,000 units in 10 s: leases of 200 ms.
fn quota() -> Quota {
    Quota::new(1000, Span::from_secs(10)).unwrap()
}

fn bucket() -> Algorithm {
    Algorithm::TokenBucket(TokenBucket::new(quota(), 1000).unwrap())
}

/// A bucket with a new unit in each millisecond.
fn fast() -> Algorithm {
    Algorithm::TokenBucket(TokenBucket::new(Quota::new(1000, Span::SECOND).unwrap(), 1000).unwrap())
}

/// The store, without delay.
#[derive(Default)]
struct Central {
    states: HashMap<Key, State>,
    calls: u64,
    /// Units of all keys that were taken and not returned.
    taken: u64,
}

impl Central {
    /// A request of one charge at one node.
    fn request(&mut self, node: &mut Ledger, charge: &Charge<'_>, now: Timestamp) -> Verdict {
        self.take_back(node.returns(now), now);
        match node.spend(charge, now, Span::ZERO) {
            Spending::Spent(verdict) | Spending::Refused(verdict) => verdict,
            Spending::Ask(ahead) => self.lend(node, charge, ahead, now),
        }
    }

    fn lend(
        &mut self,
        node: &mut Ledger,
        charge: &Charge<'_>,
        ahead: Ahead,
        now: Timestamp,
    ) -> Verdict {
        self.calls += 1;
        let before = self.states.get(&charge.key).cloned();
        let take = |cost| charge.algorithm.apply(before.as_ref(), Op::Take(cost), now);
        let exactly = take(charge.cost).1;
        if exactly.admitted {
            let units = charge.cost + ahead.granted(exactly.remaining);
            self.states.extend(take(units).0.map(|next| (charge.key, next)));
            self.taken += units;
        }
        node.answered(charge, ahead, before.as_ref(), now)
    }

    fn take_back(&mut self, returns: Vec<Return>, now: Timestamp) {
        for back in returns {
            self.calls += 1;
            self.taken -= back.units;
            let state = self.states.get(&back.key);
            let next = back.algorithm.apply(state, back.op(), now).0;
            self.states.extend(next.map(|next| (back.key, next)));
        }
    }
}

/// Algorithms with windows from 1 to 1.5 s: leases of 20 to 30 ms.
fn algorithms() -> impl Strategy<Value = Algorithm> {
    let quotas = (1..=300_u64, 1_000_000..=1_500_000_u64)
        .prop_map(|(limit, us)| Quota::new(limit, Span::from_micros(us)).unwrap());
    summable(quotas, 1..=300, 1..=60).prop_filter("no lease", Ledger::leases)
}

/// The bound of the mode: that of the algorithm, and for a bucket the units that it refills
/// during one lease in addition.
fn promised(algorithm: &Algorithm) -> Algorithm {
    let Algorithm::TokenBucket(bucket) = algorithm else { return algorithm.clone() };
    let quota = Quota::new(algorithm.limit(), algorithm.window()).unwrap();
    let burst = bucket.burst() + algorithm.limit().div_ceil(50);
    Algorithm::TokenBucket(TokenBucket::new(quota, burst).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 10, ..cases() })]

    #[test]
    fn spent_units_were_taken_and_stay_within_the_bound(
        algorithm in algorithms(),
        nodes in 1..4_usize,
        max_keys in prop_oneof![1..4_usize, Just(1000)],
        steps in prop::collection::vec(
            (
                prop_oneof![8 => 0..4000_u64, 1 => 0..40_000_u64, 1 => 0..1_000_000_u64],
                0..3_usize,
                prop_oneof![3 => Just(0), 1 => 0..6_u64],
                1..4_u64,
                prop::bool::weighted(0.1),
            ),
            1..300,
        ),
    ) {
        let mut store = Central::default();
        let mut nodes: Vec<_> = (0..nodes).map(|_| Ledger::new(max_keys, LENGTH)).collect();
        let mut promises: HashMap<u64, Option<State>> = HashMap::new();
        let promised = promised(&algorithm);
        let mut now = START;
        let mut admitted = 0;
        for (gap_us, node, client, cost, stopped) in steps {
            now = now.plus(Span::from_micros(gap_us));
            let charge = charge(client, &algorithm, cost);
            let count = nodes.len();
            let node = &mut nodes[node % count];
            let calls = store.calls;
            let verdict = store.request(node, &charge, now);
            if !verdict.admitted {
                continue;
            }
            if stopped && store.calls == calls {
                node.put_back(&charge, now, now).expect("the key is in the table, because it has just been spent");
                continue;
            }
            admitted += cost;
            prop_assert!(admitted <= store.taken);
            let promise = promises.entry(client).or_default();
            let (next, kept) = promised.apply(promise.as_ref(), Op::Take(cost), now);
            prop_assert!(kept.admitted, "{cost} units too many");
            *promise = next;
        }
        for node in &mut nodes {
            store.take_back(node.close(now), now);
            prop_assert!(admitted <= store.taken);
        }
    }

    #[test]
    fn remaining_units_never_exceed_the_capacity(
        algorithm in algorithms(),
        gaps in prop::collection::vec(0..20_000_u64, 1..200),
    ) {
        let mut store = Central::default();
        let mut node = Ledger::new(10, LENGTH);
        let mut now = START;
        for gap_us in gaps {
            now = now.plus(Span::from_micros(gap_us));
            let verdict = store.request(&mut node, &charge(1, &algorithm, 1), now);
            prop_assert!(verdict.remaining <= algorithm.capacity());
            prop_assert_eq!(verdict.limit, algorithm.limit());
            prop_assert_eq!(verdict.admitted, verdict.retry == Retry::Now);
        }
    }
}

/// Requests of one client to the nodes in turn, with this gap between them.
fn traffic(store: &mut Central, nodes: &mut [Ledger], gap: Span, requests: u64) -> u64 {
    let algorithm = bucket();
    let mut admitted = 0;
    for request in 0..requests {
        let now = START.plus(Span::from_micros(gap.as_micros() * request));
        let node = usize::try_from(request).unwrap() % nodes.len();
        let verdict = store.request(&mut nodes[node], &charge(1, &algorithm, 1), now);
        admitted += u64::from(verdict.admitted);
    }
    admitted
}

#[test]
fn a_busy_client_of_one_node_costs_few_calls() {
    let mut store = Central::default();
    let admitted = traffic(&mut store, &mut [Ledger::new(10, LENGTH)], Span::from_millis(12), 5000);
    assert_eq!(admitted, 5000);
    assert!(store.calls < 5000 / 10, "{} calls", store.calls);
}

#[test]
fn a_client_below_its_limit_is_not_refused_on_any_of_several_nodes() {
    let mut store = Central::default();
    let mut nodes: Vec<_> = (0..16).map(|_| Ledger::new(10, LENGTH)).collect();
    let admitted = traffic(&mut store, &mut nodes, Span::from_millis(12), 5000);
    assert_eq!(admitted, 5000);
}

#[test]
fn a_client_above_its_limit_is_admitted_at_the_limit() {
    let mut store = Central::default();
    let mut nodes = [Ledger::new(10, LENGTH), Ledger::new(10, LENGTH)];
    // 20 s at twice the rate: the burst, and the refilled units.
    let admitted = traffic(&mut store, &mut nodes, Span::from_millis(5), 4000);
    assert!((2980..=3020).contains(&admitted), "{admitted}");
}

#[test]
fn the_first_request_and_a_request_after_a_pause_take_no_units_ahead() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let algorithm = bucket();
    let lease = Span::from_millis(200);
    for now in [START, after(900), after(1800)] {
        store.request(&mut node, &charge(1, &algorithm, 1), now);
    }
    assert_eq!(store.taken, 3);
    let soon = after(1800).plus(lease);
    store.request(&mut node, &charge(1, &algorithm, 3), soon);
    assert!(store.taken >= 6);
}

#[test]
fn unspent_units_are_returned_when_the_lease_ends() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota()));
    for ms in [0, 1] {
        let now = after(ms);
        store.request(&mut node, &charge(1, &algorithm, 1), now);
    }
    assert!(store.taken > 100, "two requests in a millisecond are a high rate");
    let end = after(201);
    assert_eq!(node.next_return(), Some(end));
    assert_eq!(node.returns(end.minus(Span::from_micros(1))), []);
    store.take_back(node.returns(end), end);
    assert_eq!(store.taken, 2);
    assert_eq!(node.next_return(), None);
}

#[test]
fn near_the_limit_no_units_are_taken_ahead() {
    let ahead = Ahead { extra: 100, reserve: 200, share_1024: 512 };
    for (free, granted) in [(0, 0), (199, 0), (200, 0), (203, 1), (300, 50), (900, 100)] {
        assert_eq!(ahead.granted(free), granted);
    }
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let algorithm = bucket();
    store.request(&mut node, &charge(1, &algorithm, 801), START);
    for us in 1..=50 {
        store.request(&mut node, &charge(1, &algorithm, 1), START.plus(Span::from_micros(us)));
    }
    assert_eq!((store.taken, store.calls), (851, 51));
}

#[test]
fn only_one_call_at_a_time_takes_units_ahead() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let algorithm = bucket();
    let charge = charge(1, &algorithm, 1);
    let later = after(50);
    store.request(&mut node, &charge, START);
    let Spending::Ask(first) = node.spend(&charge, later, Span::ZERO) else {
        panic!("no unit is leased")
    };
    assert!(first.extra > 0);
    assert_eq!(node.spend(&charge, later, Span::ZERO), Spending::Ask(Ahead::NOTHING));
    // A call without a reply blocks further ones for one lease length at most.
    let Spending::Ask(again) = node.spend(&charge, later.plus(Span::from_millis(200)), Span::ZERO)
    else {
        panic!("no unit is leased")
    };
    assert!(again.extra > 0);
}

#[test]
fn a_refusal_holds_for_some_milliseconds_and_for_larger_costs() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let algorithm = fast();
    store.request(&mut node, &charge(1, &algorithm, 1000), START);
    let refused = store.request(&mut node, &charge(1, &algorithm, 2), START);
    assert_eq!(refused.retry, Retry::After(FRESH_FOR));
    let calls = store.calls;
    let soon = after(6);
    for (cost, wait_ms) in [(3, 4), (10, 4), (11, 5), (20, 14)] {
        let held = store.request(&mut node, &charge(1, &algorithm, cost), soon);
        assert_eq!(held.retry, Retry::After(Span::from_millis(wait_ms)), "a cost of {cost}");
    }
    assert_eq!(store.calls, calls);
    assert!(store.request(&mut node, &charge(1, &algorithm, 1), soon).admitted);
    let then = after(10);
    assert!(store.request(&mut node, &charge(1, &algorithm, 2), then).admitted);
}

#[test]
fn a_new_limit_of_a_key_ends_its_refusals_and_its_lease() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let low = fast();
    let high = fast().with_limit(4000).unwrap();
    store.request(&mut node, &charge(1, &low, 1000), START);
    let soon = after(2);
    assert!(!store.request(&mut node, &charge(1, &low, 3), soon).admitted);
    assert!(matches!(node.spend(&charge(1, &low, 3), soon, Span::ZERO), Spending::Refused(_)));
    assert!(store.request(&mut node, &charge(1, &high, 3), soon).admitted, "the limit was raised");

    let low = bucket();
    let high = bucket().with_limit(4000).unwrap();
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    for ms in [0, 1] {
        let now = after(ms);
        store.request(&mut node, &charge(2, &high, 1), now);
    }
    assert!(store.taken > 100, "two requests in a millisecond are a high rate");
    assert_eq!(node.spend(&charge(2, &low, 1), soon, Span::ZERO), Spending::Ask(Ahead::NOTHING));
    let back = node.returns(soon);
    assert_eq!(back.len(), 1, "the limit was lowered, so unspent units are returned at once");
    assert_eq!(back[0].units, store.taken - 2);
}

#[test]
fn units_are_put_back_if_another_policy_refuses() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let algorithm = bucket();
    let one = charge(1, &algorithm, 1);
    store.request(&mut node, &one, START);
    let now = after(50);
    let leased = store.request(&mut node, &one, now);
    let Spending::Spent(spent) = node.spend(&one, now, Span::ZERO) else {
        panic!("the lease has units, and spends none")
    };
    assert_eq!(spent.remaining, leased.remaining - 1);
    let back = node.put_back(&one, now, now);
    assert_eq!(back.map(|it| it.remaining), Some(leased.remaining));
    // Units of an earlier lease are not put into a later one.
    let again = node.put_back(&one, now.minus(Span::MILLISECOND), now);
    assert_eq!(again.map(|it| it.remaining), Some(leased.remaining));
}

#[test]
fn a_lease_lasts_a_fiftieth_of_the_window_and_at_most_ten_seconds() {
    let windowed =
        |window| Algorithm::SlidingWindow(SlidingWindow::new(Quota::new(100, window).unwrap()));
    for (window, lease) in [
        (Span::from_millis(999), None),
        (Span::from_secs(1), Some(Span::from_millis(20))),
        (Span::from_secs(60), Some(Span::from_millis(1200))),
        (Span::from_secs(3600), Some(Span::from_secs(10))),
    ] {
        assert_eq!(LENGTH.of(&windowed(window)), lease, "{window}");
    }
    let other = LeaseLength { share_percent: 20, longest: Span::from_secs(60) };
    assert_eq!(other.of(&windowed(Span::from_secs(60))), Some(Span::from_secs(12)));
    assert_eq!(other.of(&windowed(Span::from_secs(3600))), Some(Span::from_secs(60)));
    let log = Algorithm::SlidingLog(SlidingLog::new(quota()).unwrap());
    let in_flight = Algorithm::Concurrency(Concurrency::new(1).unwrap());
    assert!(Ledger::leases(&bucket()));
    assert!(!Ledger::leases(&log) && !Ledger::leases(&in_flight));
}

#[test]
fn keys_that_do_not_fit_into_the_table_are_exact() {
    let mut store = Central::default();
    let mut node = Ledger::new(0, LENGTH);
    let algorithm = bucket();
    for request in 0..100 {
        let now = after(request);
        assert!(store.request(&mut node, &charge(1, &algorithm, 1), now).admitted);
    }
    assert_eq!((store.calls, store.taken), (100, 100));
}

#[test]
fn a_correction_changes_the_remaining_units_without_a_call() {
    let mut store = Central::default();
    let mut node = Ledger::new(10, LENGTH);
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota()));
    let charge = charge(1, &algorithm, 10);
    for ms in 0..2 {
        store.request(&mut node, &charge, after(ms));
    }
    let calls = store.calls;
    let told = store.request(&mut node, &charge, after(2)).remaining;
    node.corrected(charge.key, Op::Give { cost: 7, taken: after(1) }, after(3));
    assert_eq!(store.request(&mut node, &charge, after(3)).remaining, told - 10 + 7);
    assert_eq!(store.calls, calls, "the lease pays all requests");
}
