//! Settlements, refunds and releases after a response.

use std::num::NonZeroU64;

use http::{HeaderName, StatusCode};

use super::*;
use crate::algorithm::{Concurrency, Op, SlidingLog};
use crate::meter::{MeterSpec, Metered, Unsettled, Usage, UsageApi, Weights};
use crate::policy::{Count, Estimate, Left, Reservation, ReserveSettings};

fn metered(reserve: u64) -> Cost {
    let meter = MeterSpec::Header(HeaderName::from_static("x-used"));
    Cost::Metered { reserve, estimate: None, meter }
}

/// A response that does not state its cost.
const UNKNOWN: Metered = Metered::AtLeast(0, Unsettled::Absent);

fn ended(status: u16) -> Ending<'static> {
    Ending { status: Some(StatusCode::from_u16(status).unwrap()), ..Ending::default() }
}

/// The remaining units of a limit of 100 after one request with this ending.
async fn left(policy: Policy, ending: &Ending<'_>) -> u64 {
    let gate = Gate::new([policy]);
    let decision = gate.decide(0).await;
    gate.end(decision.lease, ending);
    gate.remaining().await[0]
}

#[tokio::test]
async fn plain_policies_need_no_settlement() {
    let gate = Gate::new([policy("a", 9, DAY), policy("b", 9, DAY)]);
    let lease = gate.decide(0).await.lease;
    assert!(lease.is_empty() && lease.meters().next().is_none());
}

#[tokio::test]
async fn a_refused_request_needs_no_settlement() {
    let costly = Policy { cost: metered(101), ..policy("p", 100, DAY) };
    assert!(Gate::new([costly]).decide(0).await.lease.is_empty());
}

#[tokio::test]
async fn reserved_units_are_settled_by_the_cost_in_the_response() {
    let left = async |reading: &[Metered]| {
        let ending = Ending { metered: reading, ..ended(200) };
        left(Policy { cost: metered(20), ..policy("p", 100, DAY) }, &ending).await
    };
    assert_eq!(left(&[Metered::Cost(5)]).await, 95);
    assert_eq!(left(&[Metered::Cost(0)]).await, 100);
    assert_eq!(left(&[Metered::Cost(30)]).await, 70);
    assert_eq!(left(&[Metered::Cost(u64::MAX)]).await, 0);
    // A response without a cost leaves the reserved units charged.
    assert_eq!(left(&[UNKNOWN]).await, 80);
    // Unless it states that it costs more.
    assert_eq!(left(&[Metered::AtLeast(30, Unsettled::Broken)]).await, 70);
    assert_eq!(left(&[]).await, 80);
}

#[tokio::test]
async fn policies_whose_cost_is_not_read_are_named() {
    let gate = Gate::new([
        policy("plain", 9, DAY),
        Policy { cost: metered(20), ..policy("first", 100, DAY) },
        Policy { cost: metered(20), ..policy("last", 100, DAY) },
    ]);
    let lease = gate.decide(0).await.lease;
    let unsettled = |metered: &[Metered]| {
        let ending = Ending { metered, ..ended(200) };
        let all = lease.unsettled(&ending);
        all.map(|(policy, cause)| (policy.name.to_string(), cause)).collect::<Vec<_>>()
    };
    let named = |name: &str, cause| (name.to_owned(), cause);
    let cost = Metered::Cost(5);
    assert_eq!(unsettled(&[cost, cost]), []);
    assert_eq!(unsettled(&[cost, UNKNOWN]), [named("last", Unsettled::Absent)]);
    assert_eq!(unsettled(&[UNKNOWN, cost]), [named("first", Unsettled::Absent)]);
    let left = [named("first", Unsettled::Left), named("last", Unsettled::Left)];
    assert_eq!(unsettled(&[]), left);
}

#[tokio::test]
async fn the_units_of_a_lease_are_known_by_policy() {
    let in_flight = Algorithm::Concurrency(Concurrency::new(9).unwrap());
    let held = Policy::new("held", KeyExpr::Global, in_flight);
    let gate = Gate::new([
        Policy { cost: metered(20), ..policy("first", 100, DAY) },
        held,
        policy("plain", 9, DAY),
        Policy { cost: metered(20), ..policy("last", 100, DAY) },
    ]);
    let lease = gate.decide(0).await.lease;
    let held: Vec<_> = lease.in_flight().map(|(policy, units)| (&*policy.name, units)).collect();
    assert_eq!(held, [("held", 1)]);
    let ending = Ending { metered: &[Metered::Cost(5), Metered::Cost(30)], ..ended(200) };
    let settled = lease.settlements(&ending).map(|(policy, units)| (&*policy.name, units));
    assert_eq!(settled.collect::<Vec<_>>(), [("first", [20, 5]), ("last", [20, 30])]);
    gate.end(lease, &ending);
}

#[tokio::test]
async fn a_body_costs_its_received_bytes_even_without_a_response() {
    let cost = || Cost::Body { unit_bytes: NonZeroU64::new(1000).unwrap() };
    let left = async |status: Option<StatusCode>, request_bytes| {
        let ending = Ending { status, request_bytes: Some(request_bytes), metered: &[] };
        left(Policy { cost: cost(), ..policy("p", 100, DAY) }, &ending).await
    };
    assert_eq!(left(Some(StatusCode::OK), 0).await, 100);
    assert_eq!(left(Some(StatusCode::OK), 1000).await, 99);
    assert_eq!(left(Some(StatusCode::OK), 4001).await, 95);
    assert_eq!(left(None, 4001).await, 95);
}

#[tokio::test]
async fn outcomes_that_are_not_counted_are_given_back_and_unknown_ones_are_not() {
    let counted = || {
        let count = Count::statuses(vec![StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN]);
        Policy { count, ..policy("p", 100, DAY) }
    };
    assert_eq!(left(counted(), &ended(200)).await, 100);
    assert_eq!(left(counted(), &ended(401)).await, 99);
    assert_eq!(left(counted(), &ended(403)).await, 99);
    assert_eq!(left(counted(), &Ending::default()).await, 99);
    let ignoring = || match counted().count {
        Count::Statuses { statuses, .. } => Count::Statuses { statuses, left: Left::Ignored },
        Count::All => Count::All,
    };
    let forgiving = || Policy { count: ignoring(), ..counted() };
    assert_eq!(left(forgiving(), &Ending::default()).await, 100);
    assert_eq!(left(forgiving(), &ended(401)).await, 99);
    let both = || Policy { cost: metered(20), ..counted() };
    let metered = |status| Ending { metered: &[Metered::Cost(7)], ..ended(status) };
    assert_eq!(left(both(), &metered(401)).await, 93);
    assert_eq!(left(both(), &metered(200)).await, 100);
}

/// Two workers decide at the same time, and the one that read the clock first comes last.
#[tokio::test]
async fn a_request_is_given_back_that_was_counted_after_one_of_a_later_time() {
    let quota = Quota::new(100, DAY).unwrap();
    let count = || Count::statuses(vec![StatusCode::UNAUTHORIZED]);
    let log = Algorithm::SlidingLog(SlidingLog::new(quota).unwrap());
    let logged = Policy { count: count(), ..Policy::new("log", KeyExpr::Global, log) };
    let alone = Gate::new([logged.clone()]);
    let both = Gate::new([logged, Policy { count: count(), ..policy("fixed", 100, DAY) }]);
    for gate in [alone, both] {
        let later = gate.decide(DAY.as_micros() + 1).await;
        let earlier = gate.decide(DAY.as_micros() - 1).await;
        for decision in [later, earlier] {
            gate.end(decision.lease, &ended(200));
        }
        assert!(gate.remaining().await.iter().all(|units| *units == 100));
    }
}

#[tokio::test]
async fn units_in_flight_are_released_at_any_end() {
    let in_flight = Algorithm::Concurrency(Concurrency::new(1).unwrap());
    let gate = Gate::new([Policy::new("c", KeyExpr::Global, in_flight), policy("p", 9, DAY)]);
    for ending in [ended(200), ended(502), Ending::default()] {
        let decision = gate.decide(0).await;
        assert!(is_admitted(&decision));
        assert_eq!(outcomes(&gate.decide(0).await), ["refused", "admitted"]);
        gate.end(decision.lease, &ending);
    }
    assert_eq!(gate.remaining().await, [1, 6]);
}

#[tokio::test]
async fn readings_belong_to_meters_in_their_order() {
    let [a, b] = ["a", "b"].map(|name| Policy { cost: metered(20), ..policy(name, 100, DAY) });
    let plain = policy("plain", 100, DAY);
    let counted = Policy {
        count: Count::statuses(vec![StatusCode::NOT_FOUND]),
        ..policy("counted", 100, DAY)
    };
    let gate = Gate::new([a, plain, counted, b]);
    let decision = gate.decide(0).await;
    assert_eq!(decision.lease.meters().count(), 2);
    let ending = Ending { metered: &[Metered::Cost(1), Metered::Cost(2)], ..ended(200) };
    gate.end(decision.lease, &ending);
    assert_eq!(gate.remaining().await, [99, 99, 100, 98]);
}

#[tokio::test]
async fn units_that_a_policy_in_shadow_refused_are_not_given_back_to_it() {
    let count = Count::statuses(vec![StatusCode::UNAUTHORIZED]);
    let shadow = Policy { mode: Mode::Shadow, count, ..policy("s", 1, DAY) };
    let gate = Gate::new([shadow]);
    let [first, second] = [gate.decide(0).await, gate.decide(0).await];
    assert_eq!(outcomes(&second), ["shadow_refused"]);
    gate.end(second.lease, &ended(200));
    assert_eq!(gate.remaining().await, [0]);
    gate.end(first.lease, &ended(200));
    assert_eq!(gate.remaining().await, [1]);
}

/// A policy that reserves what the body states. Its counters have a limit of 100.
fn estimating(estimates_unsettled: bool) -> Policy {
    let settings = ReserveSettings { estimates_unsettled, ..ReserveSettings::default() };
    let estimate = Some(Box::new(Reservation::new(UsageApi::OpenAi, settings)));
    let meter = MeterSpec::Usage { api: UsageApi::OpenAi, tariff: Weights::default().into() };
    let cost = Cost::Metered { reserve: 90, estimate, meter };
    Policy { cost, ..policy("p", 100, DAY) }
}

/// The remaining units after a request with this estimate and this ending.
async fn left_of(policy: Policy, tokens: Option<[u64; 2]>, ending: &Ending<'_>) -> u64 {
    let usage = tokens.map(|[input, output]| Usage { input, output, ..Usage::default() });
    let estimate = Estimate { usage, ..Estimate::default() };
    let cost = policy.cost.reserved(&estimate);
    left_at(policy, cost, estimate, ending).await.0
}

/// The same for a request that reserves `cost`, and whether its cost is not known.
async fn left_at(
    policy: Policy,
    cost: u64,
    estimate: Estimate,
    ending: &Ending<'_>,
) -> (u64, bool) {
    let gate = Gate::new([policy]);
    let mut list = gate.claims(&[cost]);
    list[0].estimate = Some(Box::new(estimate));
    list[0].is_capped = true;
    let mut claims = Claims { list, lacking: Lacking::new(), settles: false };
    let now = Timestamp::from_micros(0);
    let decision = gate.limiter.judge().judge(&mut claims, gate.room, now).await;
    assert!(matches!(decision.outcome, Outcome::Admit));
    let is_unsettled = decision.lease.unsettled(ending).next().is_some();
    gate.end(decision.lease, ending);
    (gate.remaining().await[0], is_unsettled)
}

#[tokio::test]
async fn without_an_answer_the_reservation_or_the_estimated_input_counts() {
    let gone = Ending::default();
    assert_eq!(left_of(estimating(false), Some([20, 30]), &gone).await, 50);
    assert_eq!(left_of(estimating(true), Some([20, 30]), &gone).await, 80);
    // The size of the body is not known.
    assert_eq!(left_of(estimating(true), None, &gone).await, 10);
    let broken = [Metered::Estimated(33, Unsettled::Broken)];
    let broken = Ending { metered: &broken, ..ended(200) };
    assert_eq!(left_of(estimating(true), Some([20, 30]), &broken).await, 67);
}

/// A request that an endpoint has got costs what a request costs whose client leaves before the answer.
#[tokio::test]
async fn a_request_that_was_sent_and_not_answered_keeps_its_reservation() {
    let unanswered = Ending { metered: &[Metered::Unanswered], ..ended(504) };
    assert_eq!(left_of(estimating(false), Some([20, 30]), &unanswered).await, 50);
    assert_eq!(left_of(estimating(true), Some([20, 30]), &unanswered).await, 80);
    assert_eq!(left_of(estimating(true), None, &unanswered).await, 10);
    assert_eq!(left_of(estimating(true), Some([0, 0]), &unanswered).await, 100);
    let policy = Policy { cost: metered(20), ..policy("p", 100, DAY) };
    assert_eq!(left(policy.clone(), &unanswered).await, 80);
    let lease = Gate::new([policy]).decide(0).await.lease;
    let told: Vec<_> = lease.unsettled(&unanswered).map(|(_, cause)| cause).collect();
    assert_eq!(told, [Unsettled::Broken]);
}

/// Such a request is never refused, so it must cost nothing in the end, whatever its answer states.
#[tokio::test]
async fn a_request_that_has_reserved_nothing_costs_nothing() {
    for reading in [Metered::Cost(50), Metered::AtLeast(50, Unsettled::Broken)] {
        let ending = Ending { metered: &[reading], ..ended(200) };
        assert_eq!(left_of(estimating(false), Some([0, 0]), &ending).await, 100);
    }
    assert_eq!(left_of(estimating(true), Some([0, 0]), &Ending::default()).await, 100);
}

/// It names a free model, and another model may answer.
#[tokio::test]
async fn a_request_with_a_body_that_has_reserved_nothing_costs_what_its_answer_states() {
    let usage = Usage { input: 20, output: 30, ..Usage::default() };
    for (usage, metered, expected) in [
        (Some(usage), &[Metered::Cost(50)][..], (50, false)),
        (None, &[Metered::Cost(50)], (50, false)),
        (Some(usage), &[Metered::Cost(0)], (100, false)),
        (Some(usage), &[Metered::AtLeast(50, Unsettled::Broken)], (50, true)),
        (Some(usage), &[Metered::AtLeast(0, Unsettled::Absent)], (100, true)),
        (Some(usage), &[Metered::Estimated(7, Unsettled::Left)], (93, true)),
        // No other model has answered.
        (Some(usage), &[Metered::Unanswered], (100, false)),
        (Some(usage), &[], (100, false)),
        // It has no body.
        (Some(Usage::default()), &[Metered::AtLeast(50, Unsettled::Broken)], (100, false)),
    ] {
        let estimate = Estimate { usage, ..Estimate::default() };
        let ending = Ending { metered, ..ended(200) };
        let left = left_at(estimating(false), 0, estimate, &ending).await;
        assert_eq!(left, expected, "{usage:?} {metered:?}");
    }
}

#[tokio::test]
async fn an_estimate_is_at_most_the_limit_of_the_client() {
    let mut policy = estimating(false);
    if let Cost::Metered { reserve, .. } = &mut policy.cost {
        *reserve = 1_000_000;
    }
    assert_eq!(left_of(policy.clone(), Some([5_000, 9_000]), &ended(200)).await, 0);
    assert_eq!(left_of(policy, None, &ended(200)).await, 0);
}

/// The servers of a request's counters have clocks of their own: each gets its units back for the
/// time at which it has counted them, also if the lease is opened after the judgement.
#[test]
fn each_charge_is_settled_for_the_time_of_its_server() {
    let [before, decided] = [1, 2].map(|s| Timestamp::from_micros(1_795_246_126_000_000 + s));
    let metered = Policy { cost: metered(20), ..policy("metered", 100, DAY) };
    let policies = [metered.clone(), metered, policy("plain", 100, DAY)].map(Arc::new);
    fn claim(policy: &Arc<Policy>) -> Claim<&Arc<Policy>> {
        let key = Key { principal: Principal::from_bits(0), counter: policy.counter };
        Claim::known(policy, key, LimitChoice::Own, 20)
    }
    let claims: Vec<Claim<&Arc<Policy>>> = policies.iter().map(claim).collect();
    let reports: Vec<_> = claims
        .iter()
        .zip([Some(before), None, Some(before)])
        .map(|(claim, at)| {
            let verdict = claim.within().algorithm.apply(None, Op::Take(20), decided).1;
            claim.report(&Answer { at, ..Answer::of_store(verdict) }, None, decided)
        })
        .collect();
    let mut lease = Lease::new(&claims, &reports, false, [decided, decided]);
    lease.open_all(&reports);
    let taken = lease.due_for(&[5, 5, 5]).into_iter().map(|it| match it.op {
        Op::Settle { taken, .. } => taken,
        op => panic!("{op:?}"),
    });
    assert_eq!(taken.collect::<Vec<_>>(), [before, decided, before]);
    let charged = reports.iter().map(|report| Charged::of(report).unwrap().at);
    assert_eq!(charged.collect::<Vec<_>>(), [Some(before), None, Some(before)]);
}
