//! Specifications become policies, and faults name their fields.

use super::*;
use crate::algorithm::{Algorithm, MONTH};
use crate::policy::Plan;
use crate::time::Timestamp;

fn limit(units: u64) -> LimitSpec {
    LimitSpec::Rate(Quota::new(units, Span::SECOND).unwrap())
}

fn spec() -> PolicySpec {
    PolicySpec {
        name: "p".into(),
        key: Written::Given(KeyExpr::Ip),
        limit: Written::Given(Some(limit(5))),
        ..PolicySpec::default()
    }
}

fn compile(spec: &PolicySpec) -> Compiled {
    let client = ClientSettings::default();
    let has = ClientFacts {
        user: true,
        token: true,
        place: true,
        keys: true,
        classes: true,
        agents: true,
        trusted_proxy: true,
    };
    let usual_mode = StoreMode::Leased;
    spec.compile(&Facts {
        client: &client,
        has,
        shares_store: true,
        keeps_overrides: true,
        usual_mode,
        prices: Written::Absent,
    })
}

fn fields(spec: &PolicySpec) -> Vec<Field> {
    compile(spec).faults.into_iter().map(|fault| fault.field).collect()
}

/// Only the plan has a mistake, so nothing is said of fields that its limit would need.
#[test]
fn a_plan_that_cannot_be_read_may_have_a_limit() {
    let plan = |limit| PlanSpec { name: "pro".into(), limit };
    for (limits, expected) in [
        (Written::Given(vec![plan(Written::Unreadable)]), vec![]),
        (Written::Unreadable, vec![]),
        (Written::Given(vec![plan(Written::Given(None))]), vec![Field::Plans, Field::Limit]),
    ] {
        let plans = PlansSpec { from: Written::Given(KeyExpr::Custom), limits };
        let unlimited =
            PolicySpec { limit: Written::Given(None), plans: Written::Given(plans), ..spec() };
        assert_eq!(fields(&unlimited), expected);
    }
}

#[test]
fn a_cost_above_the_limit_may_pass_beyond_an_elastic_one() {
    let with = |units: u64| {
        let when = WhenSpec {
            latency_below: Written::Given(Span::from_millis(200)),
            in_flight_below_percent: Written::Absent,
        };
        let elastic =
            ElasticSpec { limit: Written::Given(limit(units)), when: Written::Given(when) };
        let cost = Written::Given(CostSpec::Fixed(20));
        fields(&PolicySpec { cost, elastic: Written::Given(elastic), ..spec() })
    };
    assert_eq!(with(40), []);
    assert_eq!(with(19), [Field::Cost]);
}

/// The request before counts in the whole window after it.
#[test]
fn a_cost_of_the_whole_limit_halves_the_rate_of_two_counters() {
    let with = |units, policy: PolicySpec| {
        fields(&PolicySpec { limit: Written::Given(Some(limit(units))), ..policy })
    };
    let costs = |units| PolicySpec { cost: Written::Given(CostSpec::Fixed(units)), ..spec() };
    assert_eq!(with(1, spec()), [Field::Limit]);
    assert_eq!(with(2, spec()), []);
    assert_eq!(with(5, costs(5)), [Field::Cost]);
    assert_eq!(with(5, costs(4)), []);
    assert_eq!(with(1, PolicySpec { buckets: Written::Given(10), ..spec() }), []);
    let left = vec![Written::Given(401)];
    let counted = CountSpec::Statuses { statuses: Written::Given(left), left: Left::default() };
    assert_eq!(with(1, PolicySpec { count: Written::Given(counted), ..spec() }), []);
    for kind in [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog] {
        assert_eq!(with(1, PolicySpec { algorithm: Written::Given(kind), ..spec() }), [], "{kind}");
    }
    let pro = PlanSpec { name: "pro".into(), limit: Written::Given(Some(limit(1))) };
    let limits = Written::Given(vec![pro]);
    let plans = PlansSpec { from: Written::Given(KeyExpr::Custom), limits };
    let planned = PolicySpec { plans: Written::Given(plans), ..spec() };
    assert_eq!(fields(&planned), [Field::PlanLimit(0)]);
}

/// A new algorithm cannot be forgotten in the table of the fields.
#[test]
fn every_algorithm_has_a_row_and_can_be_chosen() {
    use AlgorithmKind as Kind;
    for kind in [
        Kind::SlidingWindow,
        Kind::SlidingLog,
        Kind::FixedWindow,
        Kind::TokenBucket,
        Kind::LeakyBucket,
        Kind::Concurrency,
    ] {
        let max_delay = match kind {
            Kind::LeakyBucket => Written::Given(Span::SECOND),
            _ => Written::Absent,
        };
        let limit = match kind {
            Kind::Concurrency => LimitSpec::Count(5),
            _ => limit(5),
        };
        let algorithm = Written::Given(kind);
        let limit = Written::Given(Some(limit));
        let Compiled { policy, faults } =
            compile(&PolicySpec { algorithm, limit, max_delay, ..spec() });
        assert_eq!(faults, [], "{kind}");
        let policy = policy.unwrap();
        assert_eq!(policy.algorithm.name(), kind.name());
        let is_exact = policy.consistency.mode == StoreMode::Exact;
        assert_eq!(is_exact, kind.rules().is_always_exact, "{kind}");
    }
}

#[test]
fn all_faults_are_found_at_once() {
    let spec = PolicySpec {
        key: Written::Given(KeyExpr::First(vec![KeyExpr::Ip, KeyExpr::All(Vec::new())])),
        buckets: Written::Given(0),
        burst: Written::Given(3),
        cost: Written::Given(CostSpec::Fixed(0)),
        penalty: Written::Given(PenaltySpec::default()),
        ..spec()
    };
    let all_of_the_first = KeyPlace { path: vec![1], is_list: true };
    let found = fields(&spec);
    let expected = [
        Field::Key(all_of_the_first),
        Field::Burst,
        Field::Buckets,
        Field::Penalty,
        Field::Penalty,
        Field::Cost,
    ];
    assert_eq!(found, expected);
}

/// The code that fills the specification has reported it.
#[test]
fn of_what_cannot_be_read_nothing_more_is_said() {
    let spec = PolicySpec {
        key: Written::Unreadable,
        limit: Written::Unreadable,
        algorithm: Written::Unreadable,
        missing_key: Written::Unreadable,
        plans: Written::Given(PlansSpec {
            from: Written::Unreadable,
            limits: Written::Given(vec![PlanSpec { name: "a".into(), limit: Written::Unreadable }]),
        }),
        ..spec()
    };
    let Compiled { policy, faults } = compile(&spec);
    assert!(policy.is_none());
    assert_eq!(faults, []);
    let absent = PolicySpec { name: "p".into(), ..PolicySpec::default() };
    assert_eq!(fields(&absent), [Field::Name, Field::Name]);
}

#[test]
fn an_unlimited_policy_counts_as_its_first_plan_does() {
    let plan = |name: &str, limit| PlanSpec { name: name.into(), limit: Written::Given(limit) };
    let limits = vec![plan("free", None), plan("small", Some(limit(7))), plan("big", None)];
    let plans = PlansSpec { from: Written::Given(KeyExpr::Host), limits: limits.into() };
    let spec = PolicySpec { limit: Written::Given(None), plans: plans.into(), ..spec() };
    let Compiled { policy, faults } = compile(&spec);
    assert_eq!(faults, []);
    let policy = policy.unwrap();
    assert!(policy.is_unlimited);
    assert_eq!(policy.algorithm.limit(), 7);
    let plans = policy.plans.unwrap().limits;
    assert!(matches!(plans[0].1, Plan::Unlimited));
    assert!(matches!(&plans[1].1, Plan::Limited { algorithm, .. } if algorithm.limit() == 7));
}

/// The window of a calendar needs the time zones.
#[cfg(feature = "calendar")]
#[test]
fn an_error_of_the_algorithm_names_the_field_that_causes_it() {
    let calendar = |zone: &str| PolicySpec {
        algorithm: Written::Given(AlgorithmKind::FixedWindow),
        limit: Written::Given(Some(LimitSpec::Rate(Quota::new(5, Span::DAY).unwrap()))),
        calendar: Written::Given(zone.into()),
        ..spec()
    };
    let Compiled { policy, faults } = compile(&calendar("Europe/Berlin"));
    assert_eq!(faults, []);
    assert!(matches!(policy.unwrap().algorithm, Algorithm::FixedWindow(_)));
    assert_eq!(fields(&calendar("Europe/Nowhere")), [Field::Calendar]);
    let hourly = PolicySpec { limit: Written::Given(Some(limit(5))), ..calendar("Europe/Berlin") };
    assert_eq!(fields(&hourly), [Field::Limit]);
}

/// A month implies its algorithm and the months of UTC.
#[test]
fn a_limit_per_month_is_counted_in_months_of_a_calendar() {
    let monthly = |units| LimitSpec::Rate(Quota::new(units, MONTH).unwrap());
    let spec = || PolicySpec { limit: Written::Given(Some(monthly(5))), ..spec() };
    let Compiled { policy, faults } = compile(&spec());
    assert_eq!(faults, []);
    let algorithm = policy.unwrap().algorithm;
    assert!(matches!(&algorithm, Algorithm::FixedWindow(it) if it.zone() == Some("UTC")));
    let with = |kind| PolicySpec { algorithm: Written::Given(kind), ..spec() };
    assert_eq!(compile(&with(AlgorithmKind::FixedWindow)).policy.unwrap().algorithm, algorithm);
    for kind in
        [AlgorithmKind::SlidingWindow, AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog]
    {
        assert_eq!(fields(&with(kind)), [Field::Algorithm]);
    }
    let buckets = PolicySpec { buckets: Written::Given(4), ..spec() };
    assert_eq!(fields(&buckets), [Field::Buckets]);
    let after = PenaltySpec {
        after: monthly(9).into(),
        ban: Span::from_secs(60).into(),
        ..PenaltySpec::default()
    };
    assert_eq!(fields(&PolicySpec { penalty: after.into(), ..spec() }), [Field::After]);
    let delayed = |delay| PenaltySpec {
        after: LimitSpec::Rate(Quota::new(9, Span::SECOND).expect("a quota")).into(),
        ban: Span::from_secs(60).into(),
        delay: Written::Given(delay),
        ..PenaltySpec::default()
    };
    for (delay, expected) in [(Span::from_millis(10), None), (Span::from_secs(30), None)]
        .into_iter()
        .chain([0, 9, 30_001].map(|ms| (Span::from_millis(ms), Some(Field::BanDelay))))
    {
        let spec = PolicySpec { penalty: delayed(delay).into(), ..spec() };
        assert_eq!(fields(&spec), Vec::from_iter(expected), "{delay}");
    }
    let plan = |limit| PlanSpec { name: "p".into(), limit: Written::Given(Some(limit)) };
    let plans = |limit, own| PolicySpec {
        limit: Written::Given(own),
        plans: PlansSpec { from: KeyExpr::Host.into(), limits: vec![plan(limit)].into() }.into(),
        ..self::spec()
    };
    assert_eq!(fields(&plans(monthly(9), Some(monthly(5)))), []);
    assert_eq!(fields(&plans(limit(9), Some(monthly(5)))), [Field::PlanLimit(0)]);
    let unlimited = compile(&plans(monthly(9), None)).policy.unwrap();
    let january = unlimited.algorithm.length_at(Timestamp::default());
    assert_eq!([unlimited.algorithm.window(), january], [MONTH, Span::from_secs(31 * 86_400)]);
}
