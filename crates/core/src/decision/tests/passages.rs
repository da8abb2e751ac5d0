//! Shares of limits that requests and settlements pass.

use std::cell::RefCell;
use std::rc::Rc;

use http::{HeaderName, StatusCode};

use super::*;
use crate::consistency::{Consistency, StoreMode};
use crate::decision::MarkedSettlement;
use crate::meter::{MeterSpec, Metered};
use crate::policy::WarnShares;
use crate::store::Mark;

fn warning(policy: Policy, percents: &[u8]) -> Policy {
    Policy { warn: WarnShares::new(percents).map(Box::new), ..policy }
}

async fn shares(gate: &Gate, is_shared: bool) -> Vec<u8> {
    let decision = gate.decide(0).await;
    decision.passages(is_shared).map(|it| it.share).collect()
}

#[tokio::test]
async fn one_request_passes_each_share() {
    let gate = Gate::new([warning(policy("p", 10, DAY), &[50, 90])]);
    let mut passed = Vec::new();
    for _ in 0..12 {
        passed.push(shares(&gate, false).await);
    }
    let expected =
        [&[][..], &[], &[], &[], &[50], &[], &[], &[], &[90], &[], &[], &[]].map(<[u8]>::to_vec);
    assert_eq!(passed, expected);
}

#[tokio::test]
async fn a_refused_request_passes_nothing() {
    let roomy = warning(policy("roomy", 2, DAY), &[50]);
    let gate = Gate::new([roomy, policy("tight", 1, DAY)]);
    assert_eq!(shares(&gate, false).await, [50]);
    assert!(shares(&gate, false).await.is_empty());
    assert_eq!(gate.remaining().await, [1, 0]);
}

#[tokio::test]
async fn a_node_that_counts_ahead_of_the_store_tells_a_share_as_long_as_it_is_reached() {
    let of = |mode| {
        let consistency = Consistency { mode, ..Consistency::default() };
        Gate::new([Policy { consistency, ..warning(policy("p", 4, DAY), &[50]) }])
    };
    for (mode, is_shared, expected) in [
        (StoreMode::Leased, true, [0, 1, 1, 1]),
        (StoreMode::WriteBack, true, [0, 1, 1, 1]),
        (StoreMode::Exact, true, [0, 1, 0, 0]),
        (StoreMode::Leased, false, [0, 1, 0, 0]),
    ] {
        let gate = of(mode);
        let mut told = [0; 4];
        for count in &mut told {
            *count = shares(&gate, is_shared).await.len();
        }
        assert_eq!(told, expected, "{mode:?} {is_shared}");
    }
}

/// The shares that a settlement of these tokens passes.
async fn settled(gate: &Gate, tokens: u64) -> Vec<(u8, u64)> {
    let shares = movements(gate, tokens).await.into_iter().filter_map(|it| match it {
        Movement::Share(passage) => Some((passage.share, passage.used)),
        Movement::Beyond(..) => None,
    });
    shares.collect()
}

/// What a settlement of these tokens does to limits.
async fn movements(gate: &Gate, tokens: u64) -> Vec<Movement> {
    let lease = gate.decide(0).await.lease;
    let metered = [Metered::Cost(tokens)];
    let ending = Ending { status: Some(StatusCode::OK), metered: &metered, ..Ending::default() };
    let told = Rc::new(RefCell::new(Vec::new()));
    let to = Rc::clone(&told);
    let now = Timestamp::from_micros(1);
    gate.limiter.end_told(&lease, &ending, now, move |it| to.borrow_mut().push(it));
    told.take()
}

#[tokio::test]
async fn a_settlement_passes_shares_by_what_it_charges_beyond_the_reservation() {
    let meter = MeterSpec::Header(HeaderName::from_static("x-used"));
    let metered = || Policy {
        cost: Cost::Metered { reserve: 10, meter: meter.clone(), estimate: None },
        ..policy("p", 100, DAY)
    };
    let gate = Gate::new([warning(metered(), &[50, 100]), metered()]);
    assert!(settled(&gate, 49).await.is_empty());
    // The reservation passes the share, so the decision tells it.
    assert!(settled(&gate, 1).await.is_empty());
    assert!(settled(&gate, 10).await.is_empty());
    assert!(settled(&gate, 25).await.is_empty());
    assert_eq!(settled(&gate, 15).await, [(100, 100)]);
    let gate = Gate::new([warning(metered(), &[50, 100])]);
    assert_eq!(settled(&gate, 60).await, [(50, 60)]);
    // 60 and 1,000 are counted.
    assert_eq!(settled(&gate, 1_000).await, [(100, 1_060)]);
}

#[tokio::test]
async fn a_settlement_with_a_mark_passes_a_share_once() {
    let gate = Gate::new([warning(policy("p", 100, DAY), &[50, 80])]);
    let decision = gate.decide(0).await;
    let report = &decision.reports[0];
    let charged = Charged::of(report).expect("it is admitted");
    let policy: &Arc<Policy> = report.policy;
    let counter = charged.counter(policy).expect("it is known");
    let mut passed = Vec::new();
    for (id, actual) in [(1, 49), (2, 2), (2, 2), (3, 31), (4, 0), (5, 2)] {
        let mark = Mark::new(id << 100, 7, DAY).expect("it lasts for a day");
        let told = Rc::new(RefCell::new(None));
        let to = Rc::clone(&told);
        let settled = gate.limiter.settle_once(
            MarkedSettlement {
                charged: &charged,
                policy,
                counter: &counter,
                mark: &mark,
                taken: Timestamp::default(),
                actual,
            },
            Timestamp::from_micros(1),
            move |it| {
                if let Movement::Share(it) = it {
                    to.replace(Some((it.share, it.used)));
                }
            },
        );
        settled.await.expect("the store is in memory");
        passed.push(told.take());
    }
    // The settlements charge 48, 1, nothing, 30, less than nothing and 1.
    assert_eq!(passed, [None, Some((50, 50)), None, Some((80, 80)), None, Some((80, 80))]);
}

#[tokio::test]
async fn a_settlement_tells_the_units_that_it_counts_beyond_the_limit() {
    let meter = MeterSpec::Header(HeaderName::from_static("x-used"));
    let cost = Cost::Metered { reserve: 10, meter, estimate: None };
    let gate = Gate::new([Policy { cost, ..policy("p", 100, DAY) }]);
    let beyond = |movements: Vec<Movement>| -> Vec<u64> {
        let units = movements.iter().filter_map(|it| match it {
            Movement::Beyond(_, units) => Some(*units),
            Movement::Share(_) => None,
        });
        units.collect()
    };
    assert!(beyond(movements(&gate, 90).await).is_empty());
    // It reserves the last 10 units.
    assert_eq!(beyond(movements(&gate, 35).await), [25]);
    // It is refused.
    assert!(movements(&gate, 35).await.is_empty());
}

#[tokio::test]
async fn a_soft_limit_warns_of_shares_of_the_limit_itself() {
    let soft = Policy { soft: Some(fixed(20, DAY)), ..policy("p", 10, DAY) };
    let gate = Gate::new([warning(soft, &[50, 100])]);
    let mut passed = Vec::new();
    for request in 1..=20 {
        passed.extend(shares(&gate, false).await.into_iter().map(|share| (request, share)));
    }
    assert_eq!(passed, [(5, 50), (10, 100)]);
}
