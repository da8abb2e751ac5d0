//! What is told beforehand is what the request then gets, and nothing is counted by telling it.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::algorithm::testing::{algorithms, cases};
use crate::algorithm::{Algorithm, Ban, Concurrency};
use crate::decision::tests::fixed;
use crate::decision::{Ending, Outcome};
use crate::digest::{Secret, SharedSecret};
use crate::policy::{
    ClientSettings, Clients, Cost, Count, Elastic, Exempt, KeyExpr, MissingKey, Mode, Penalty,
    Plan, Plans, Preflights,
};
use crate::request::RequestView;
use crate::store::{MemoryStore, Store};
use crate::time::Span;

const X: HeaderName = HeaderName::from_static("x");
const PLAN: HeaderName = HeaderName::from_static("x-plan");
const COST: HeaderName = HeaderName::from_static("x-cost");

/// One request: the values of `x`, `x-plan` and `x-cost`, whether it is OPTIONS, whether the
/// upstream has room, how it ends, and the time after the request before it.
type Step = (Option<u8>, Option<u8>, u8, bool, bool, Option<bool>, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        prop::option::weighted(0.9, 0..3_u8),
        prop::option::of(0..3_u8),
        0..5_u8,
        prop::bool::weighted(0.1),
        any::<bool>(),
        any::<Option<bool>>(),
        prop_oneof![8 => 0..150_u64, 2 => 0..3000_u64, 1 => 0..400_000_u64],
    );
    prop::collection::vec(step, 25..40)
}

/// A policy with every part that can change a decision.
fn policies() -> impl Strategy<Value = Policy> {
    let extras = prop::array::uniform8(any::<bool>());
    let in_flight =
        (1..4_u64).prop_map(|limit| Algorithm::Concurrency(Concurrency::new(limit).unwrap()));
    let algorithms = prop_oneof![6 => algorithms(), 1 => in_flight];
    (algorithms, extras, 0..4_u8, 1..5_u64, prop::bool::weighted(0.2)).prop_map(
        |(algorithm, extras, missing, more, is_shadow)| {
            let [by_x, soft, elastic, penalty, plans, exempt, counts_errors, by_field] = extras;
            let larger = |more| algorithm.with_capacity(algorithm.capacity() + more).ok();
            let key = if by_x { KeyExpr::Header(X) } else { KeyExpr::Global };
            let pro = |algorithm| ("1".into(), Plan::Limited { algorithm, soft: None });
            let limits = algorithm.with_limit(algorithm.limit() + more).ok().map(pro);
            let limits = limits.into_iter().chain([("2".into(), Plan::Unlimited)]).collect();
            let ban = Ban::new(Span::from_millis(700), Span::SECOND).unwrap();
            let methods = exempt.then_some(Method::OPTIONS).into_iter().collect();
            Policy {
                missing_key: match missing {
                    0 => MissingKey::Ip,
                    1 => MissingKey::Skip,
                    2 => MissingKey::Deny,
                    _ => MissingKey::Unauthorized,
                },
                soft: larger(more).filter(|_| soft),
                elastic: elastic.then(|| Elastic {
                    beyond: fixed(more, Span::SECOND),
                    latency_below: Some(Span::SECOND),
                    in_flight_below_percent: None,
                }),
                penalty: penalty.then(|| Penalty {
                    after: fixed(2, Span::SECOND),
                    ban: Algorithm::Ban(ban),
                    delay: Span::ZERO,
                }),
                plans: plans.then_some(Plans { from: KeyExpr::Header(PLAN), limits }),
                exempt: Exempt { methods, ..Exempt::default() },
                count: match counts_errors {
                    true => Count::statuses(vec![StatusCode::NOT_FOUND]),
                    false => Count::All,
                },
                cost: match by_field {
                    true => Cost::Field { name: COST, default: 1, max: Some(4) },
                    false => Cost::Fixed(more.min(2)),
                },
                mode: if is_shadow { Mode::Shadow } else { Mode::Enforce },
                preflights: Preflights::Counted,
                ..Policy::new("p", key, algorithm)
            }
        },
    )
}

/// Everything that a decision says, in a form that can be compared.
fn told(decision: &Decision<&Arc<Policy>>) -> String {
    let outcome = match &decision.outcome {
        Outcome::Admit => "admit".to_owned(),
        Outcome::Refuse(retry) => format!("refuse {retry:?}"),
        Outcome::Unavailable(wait) => format!("unavailable {wait:?}"),
        Outcome::Deny(policy) => format!("deny {}", policy.name),
        Outcome::Uncountable(policy, why) => format!("uncountable {} {why:?}", policy.name),
        Outcome::Unverifiable(policy, wait) => format!("unverifiable {} {wait:?}", policy.name),
        Outcome::Ambiguous(policy) => format!("ambiguous {}", policy.name),
        Outcome::Denied(denial) => format!("denied {denial:?}"),
        Outcome::Unauthenticated(refusal) => format!("unauthenticated {:?}", refusal.fault),
        Outcome::Unauthorized(policy, fault) => format!("unauthorized {} {fault:?}", policy.name),
    };
    let reports = decision.reports.iter().map(|it| {
        let named = (&it.policy.name, it.client, it.ruling, it.verdict, it.source);
        format!("{:?}", (named, it.used, it.cost, it.window, it.choice, it.owner.is_some()))
    });
    let lacking = decision.lacking.iter().map(|policy| policy.name.to_string());
    let lines: Vec<String> = reports.chain(lacking).collect();
    format!("{outcome} {:?} {:?} {lines:#?}", decision.delay, decision.binding)
}

struct Run {
    clients: Clients,
    policies: Vec<Arc<Policy>>,
    limiter: RateLimiter,
    now: Timestamp,
}

impl Run {
    fn new(policies: Vec<Policy>) -> Self {
        let named = policies.into_iter().enumerate().map(|(index, policy)| {
            let name = format!("p{index}");
            let counter = Policy::new(&name, KeyExpr::Ip, policy.algorithm.clone()).counter;
            Arc::new(Policy { name: name.into(), counter, ..policy })
        });
        let settings = ClientSettings {
            trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
            ..ClientSettings::default()
        };
        let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
        Self {
            clients: Clients::new(settings, [], secret),
            policies: named.collect(),
            limiter: RateLimiter::new(Store::Memory(Arc::new(MemoryStore::of_one_decision()))),
            now: Timestamp::from_micros(1_795_246_126_000_000),
        }
    }

    /// All states of the store.
    fn states(&self) -> String {
        format!("{:?}", self.limiter.store())
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (x, plan, cost, is_options, has_room, ends, later_us) = step;
        self.now = self.now.plus(Span::from_micros(later_us));
        let field = |name: HeaderName, value: Option<u8>| {
            value.map(|value| (name, HeaderValue::from(u16::from(value))))
        };
        let fields = [field(X, x), field(PLAN, plan), field(COST, Some(cost))];
        let headers: HeaderMap = fields.into_iter().flatten().collect();
        let method = if is_options { Method::OPTIONS } else { Method::GET };
        let request = RequestView::sample("a.test", "/", &headers).with_method(&method);
        let subject = self.clients.subject(&request, None, self.now);
        let latency = has_room.then_some(Span::ZERO);
        let room = Headroom { latency, ..Headroom::default() };
        let before = self.states();
        let peek = async || self.limiter.peek(&self.policies, &subject, room, self.now).await;
        let first = peek().await;
        let second = peek().await;
        prop_assert_eq!(told(&first.decision), told(&second.decision));
        prop_assert!(before == self.states(), "a look has changed the counters");
        let decision = self.limiter.decide(&self.policies, &subject, room, self.now).await;
        prop_assert_eq!(told(&first.decision), told(&decision));
        if first.decision.reports.len() + first.decision.lacking.len() > 0 {
            let all = first.decision.reports.len() + first.decision.lacking.len();
            prop_assert_eq!(all + first.skipped.len(), self.policies.len());
        }
        if let Some(is_counted) = ends {
            let status = if is_counted { StatusCode::NOT_FOUND } else { StatusCode::OK };
            let ending = Ending { status: Some(status), ..Ending::default() };
            self.limiter.end(&decision.lease, &ending, self.now);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases.min(50), ..cases() })]

    #[test]
    fn a_request_gets_what_was_told_and_telling_counts_nothing(
        policies in prop::collection::vec(policies(), 1..=4),
        steps in steps(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut run = Run::new(policies);
        for step in steps {
            runtime.block_on(run.step(step))?;
        }
    }
}
