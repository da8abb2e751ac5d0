//! What is kept of a request that a limit refuses.

use std::sync::Arc;

use http::HeaderValue;
use tollgate_core::decision::Decision;
use tollgate_core::policy::{Policy, Subject};
use tollgate_core::request::RequestView;
use tollgate_core::routes::Route;
use tollgate_core::time::Timestamp;

use crate::message::X_REQUEST_ID;
use crate::telemetry::{Refused, WorkerRefusals, chosen_plan, source_word};

/// Keeps the refusal under the policy whose wait the client is told, or under the first one
/// that refuses.
#[cold]
pub fn keep(
    refusals: &WorkerRefusals,
    decision: &Decision<&Arc<Policy>>,
    subject: &Subject<'_, '_>,
    route: &Route,
    request: &RequestView<'_>,
    time: Timestamp,
) {
    let first = || decision.reports.iter().find(|report| report.refuses());
    let Some(report) = decision.binding().or_else(first) else { return };
    if !refusals.admits(&report.policy.name, report.client, time) {
        return;
    }
    let whole = refusals.keeps_whole().then(|| subject.whole_key(report.policy).into());
    let id = request.headers().get(X_REQUEST_ID).map(HeaderValue::to_str);
    refusals.keep(&Refused {
        time,
        request_id: id.and_then(Result::ok).unwrap_or_default(),
        policy: &report.policy.name,
        client: report.client,
        text: &subject.shown_key(report.policy),
        whole: whole.as_ref(),
        plan: chosen_plan(report),
        api_key: subject.known_key().map(|known| known.key.id),
        limit: report.verdict.limit,
        used: report.used,
        unit: report.policy.unit().denomination(),
        retry: report.verdict.retry,
        route: &route.name,
        source: source_word(report.source),
        method: request.method().as_str(),
        path: &route.path.masked(request.path()),
    });
}
