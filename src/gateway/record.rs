//! Writes into the record of a request what the limiter decides.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_limiter::algorithm::Retry;
use tollgate_limiter::decision::{Decision, Outcome, Report};
use tollgate_limiter::policy::Policy;

use crate::engine::Judgement;
use crate::routes::Route;
use crate::telemetry::{PolicyRecord, Record, source_word};

/// Adds the route, the client and the decision to the record of a request.
pub(super) fn record_decision(record: &mut Record, route: &Route, judgement: &Judgement<'_>) {
    let Judgement { client_ip, decision, .. } = judgement;
    if let Cow::Owned(masked) = route.path.masked(record.path()) {
        record.masked_path = Some(masked.into());
    }
    record.route = Some((&*route.name).into());
    record.client = *client_ip;
    record.outcome = outcome(decision);
    (record.is_refused, record.wait) = match decision.outcome {
        Outcome::Admit => (false, None),
        Outcome::Refuse(Retry::After(wait)) => (true, Some(wait)),
        _ => (true, None),
    };
    record.policies = policies(decision);
}

/// One word for the decision of all policies.
fn outcome(decision: &Decision<&Arc<Policy>>) -> &'static str {
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
        Outcome::Deny(_) | Outcome::Unauthorized(..) => "denied",
        Outcome::Ambiguous(_) => "ambiguous",
    }
}

fn policies(decision: &Decision<&Arc<Policy>>) -> SmallVec<[PolicyRecord; 2]> {
    let reports = decision.reports.iter().enumerate().map(|(index, report)| PolicyRecord {
        name: (&*report.policy.name).into(),
        client: Some(report.client),
        cost: Some(report.cost),
        source: Some(source_word(report.source)),
        remaining: Some(report.verdict.remaining),
        is_binding: decision.binding == Some(index),
        is_shadow_refused: report.is_shadow_refused(),
    });
    let lacking = decision.lacking.iter().map(|policy| PolicyRecord {
        name: (&*policy.name).into(),
        client: None,
        cost: None,
        source: None,
        remaining: None,
        is_binding: false,
        is_shadow_refused: true,
    });
    reports.chain(lacking).collect()
}
