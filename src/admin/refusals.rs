//! The last refusals of this node.

use serde_json::{Value, json};
use tollgate_limiter::algorithm::Retry;

use super::answer::Answer;
use super::call::Call;
use super::problem::Problem;
use crate::telemetry::{Refusal, RefusalRings};

/// The refusals of a list if the caller does not say how many.
const REFUSALS: usize = 100;
/// The most refusals of a list.
const MAX_REFUSALS: usize = 1000;

/// The last refusals, of one policy or of all.
///
/// # Errors
/// 400, if a parameter is not valid.
pub(super) fn list(rings: &RefusalRings, call: &Call) -> Result<Answer, Problem> {
    let limit = match call.parameter("limit").map(str::parse) {
        None => REFUSALS,
        Some(Ok(limit @ 1..=MAX_REFUSALS)) => limit,
        Some(_) => return Err(Problem::bad_request("limit is a number from 1 to 1000")),
    };
    let before = call.parameter("after").map(str::parse).transpose();
    let before =
        before.map_err(|_| Problem::bad_request("after is not the next of an earlier page"))?;
    let (refusals, has_more) = rings.newest(call.parameter("policy"), before, limit);
    let next = refusals.last().filter(|_| has_more).map(|it| it.sequence.to_string());
    let items: Vec<Value> = refusals.iter().map(item).collect();
    Ok(Answer::json(&json!({ "scope": "node", "items": items, "next": next })))
}

/// The refusals of requests with one id.
///
/// # Errors
/// 404, if there are none.
pub(super) fn of_request(rings: &RefusalRings, call: &Call) -> Result<Answer, Problem> {
    let items: Vec<Value> = rings.of_request(call.value(0)).iter().map(item).collect();
    if items.is_empty() {
        let reach = match rings.oldest() {
            Some(oldest) => format!("the oldest one that is kept is of {oldest}"),
            None => "none is kept now".to_owned(),
        };
        return Err(Problem::not_found(format!(
            "this node knows no refusal with this id: of each policy a worker keeps the last 256 \
             refusals, and at most 8 of one key; {reach}; other nodes may know it"
        )));
    }
    Ok(Answer::json(&json!({ "scope": "node", "items": items })))
}

/// One refusal.
pub(super) fn item(refusal: &Refusal) -> Value {
    json!({
        "sequence": refusal.sequence,
        "time": refusal.time.to_string(),
        "request_id": refusal.request_id,
        "policy": *refusal.policy,
        "key": { "id": refusal.key_id().to_string(), "text": refusal.text },
        "limit": refusal.limit,
        "used": refusal.used,
        "wait_ms": match refusal.retry {
            Retry::Now => Value::Null,
            Retry::After(wait) => json!(wait.as_millis_ceil()),
            Retry::Never => json!("never"),
        },
        "route": refusal.route,
        "source": refusal.source,
        "method": refusal.method,
        "path": refusal.path,
    })
}
