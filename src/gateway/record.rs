//! Writes into the record of a request what the limiter decides.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use smallvec::SmallVec;
use tollgate_core::algorithm::Retry;
use tollgate_core::decision::{Decision, Outcome, OwnedDecision, Report, Ruling};
use tollgate_core::policy::{AccessVerdict, Policy};
use tollgate_core::routes::Route;

use crate::engine::{Judgement, Settled};
use crate::telemetry::{Name, PolicyRecord, Record, plan_name, source_word};

/// The most characters of the name of a model, which a client chooses.
const MAX_MODEL_CHARS: usize = 64;

/// Adds the route to the record of a request.
pub fn record_route(record: &mut Record, route: &Route) {
    if let Cow::Owned(masked) = route.path.masked(record.path()) {
        record.masked_path = Some(masked.into());
    }
    record.route = Some((&*route.name).into());
}

/// Adds the route, the client and the decision to the record of a request.
pub fn record_decision(record: &mut Record, route: &Route, judgement: &Judgement<'_>) {
    let Judgement { client_ip, decision, .. } = judgement;
    record_route(record, route);
    (record.decided, record.store_us) = (Some(judgement.now), judgement.store_us);
    record.decided_for(&route.path);
    record.client = *client_ip;
    record.auth = judgement.credential.word;
    if let Some(key) = &judgement.credential.key {
        record.key_id = Some(key.key.id);
        record.team = key.key.team.as_deref().map(Name::from);
    }
    record.class = judgement.class.map(Name::from);
    let short = |model: &str| model.chars().take(MAX_MODEL_CHARS).collect::<String>().into();
    if let Some(named) = &judgement.named {
        record.model = named.model.as_deref().map(short);
        record.agent = named.agent.map(Name::from);
    }
    record.set_decision(outcome(decision));
    (record.is_refused, record.wait) = match decision.outcome {
        Outcome::Admit => (false, None),
        Outcome::Refuse(Retry::After(wait)) => (true, Some(wait)),
        _ => (true, None),
    };
    record.policies = policies(&record.method, route, decision);
    record_access(record, route, judgement);
}

/// Adds the first access lists that deny the request, or would.
fn record_access(record: &mut Record, route: &Route, judgement: &Judgement<'_>) {
    if !judgement.access.any() {
        return;
    }
    for (list, verdict) in judgement.access.of(&route.access) {
        let of_record = match verdict {
            AccessVerdict::Denied(_) => &mut record.denied_by,
            AccessVerdict::ShadowDenied => &mut record.shadow_denied_by,
            AccessVerdict::Allowed => continue,
        };
        of_record.get_or_insert_with(|| (&*list.name).into());
    }
}

/// Adds the decision of the policies that need the answer of the authorizer.
pub fn record_second_decision(record: &mut Record, route: &Route, judgement: &Judgement<'_>) {
    let decision = &judgement.decision;
    match decision.outcome {
        Outcome::Admit if decision.delay.is_zero() => {}
        Outcome::Admit => record.set_decision(outcome(decision)),
        other => {
            record.set_decision(outcome(decision));
            record.is_refused = true;
            record.wait = match other {
                Outcome::Refuse(Retry::After(wait)) => Some(wait),
                _ => None,
            };
        }
    }
    record.store_us = match (record.store_us, judgement.store_us) {
        (Some(first), Some(second)) => Some(first.saturating_add(second)),
        (first, second) => first.or(second),
    };
    record.policies.extend(policies(&record.method, route, decision));
}

/// Says in the record which policy binds. There is one for both decisions.
pub fn record_binding(record: &mut Record, decision: &OwnedDecision) {
    let binding = decision.binding().map(|report| &*report.policy.name);
    for policy in &mut record.policies {
        policy.is_binding = binding == Some(policy.name.as_str());
    }
}

/// Adds what was settled to the record of a request.
pub fn record_settlement(record: &mut Record, settled: &Settled) {
    record.settled = Some(settled.at);
    record.unsettled = settled.unsettled;
    record.usage = settled.usage;
    record.spent = settled.spent();
    for (policy, units) in &settled.units {
        let name = &*policy.name;
        let of_policy = record.policies.iter_mut().find(|it| it.name.as_str() == name);
        if let Some(of_policy) = of_policy {
            of_policy.settled = Some(*units);
        }
    }
}

/// One word for the decision of all policies.
pub fn outcome(decision: &Decision<&Arc<Policy>>) -> &'static str {
    match decision.outcome {
        Outcome::Admit if !decision.delay.is_zero() => "delayed",
        // An outcome other than "admitted" says more, so it takes precedence.
        Outcome::Admit => {
            let outcomes = decision.enforced().map(Report::outcome);
            outcomes.max_by_key(|outcome| *outcome != "admitted").unwrap_or("admitted")
        }
        Outcome::Refuse(_) => decision.binding().map_or("refused", Report::outcome),
        Outcome::Unavailable(_) => "failed_closed",
        Outcome::Unverifiable(..) => "unverifiable",
        Outcome::Deny(_)
        | Outcome::Uncountable(..)
        | Outcome::Unauthorized(..)
        | Outcome::Denied(_) => "denied",
        Outcome::Ambiguous(_) => "ambiguous",
        Outcome::Unauthenticated(refusal) => refusal.fault.word(),
    }
}

/// Whether the policy is one of the route's, and not the one that stands in for it.
fn is_of(route: &Route, policy: &Arc<Policy>) -> bool {
    route.policies.iter().any(|it| Arc::ptr_eq(it, policy))
}

fn policies(
    method: &Method,
    route: &Route,
    decision: &Decision<&Arc<Policy>>,
) -> SmallVec<[PolicyRecord; 1]> {
    let mut records = SmallVec::new();
    records.extend(decision.reports.iter().enumerate().map(|(index, report)| PolicyRecord {
        name: (&*report.policy.name).into(),
        client: Some(report.client),
        cost: Some(report.cost),
        own_limit: report.owner.is_some().then_some((report.verdict.limit, report.window)),
        is_elastic: report.ruling == Ruling::Elastic,
        is_preflight: method == Method::OPTIONS && !is_of(route, report.policy),
        settled: None,
        plan: Some(plan_name(report)).filter(|name| !name.is_empty()).map(Name::from),
        source: Some(source_word(report.source)),
        remaining: Some(report.verdict.remaining),
        is_binding: decision.binding == Some(index),
        is_shadow_refused: report.is_shadow_refused(),
    }));
    records.extend(decision.lacking.iter().map(|policy| PolicyRecord {
        name: (&*policy.name).into(),
        client: None,
        cost: None,
        own_limit: None,
        is_elastic: false,
        is_preflight: false,
        settled: None,
        plan: None,
        source: None,
        remaining: None,
        is_binding: false,
        is_shadow_refused: true,
    }));
    records
}
