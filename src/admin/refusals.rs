//! The last refusals of this node.

use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::audit::Change;
use super::call::Call;
use super::problem::Problem;
use super::reveal;
use super::words::Scope;
use crate::engine::Wait;
use crate::telemetry::{Refusal, RefusalRings};

/// The last refusals, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Refusals {
    scope: Scope,
    items: Vec<ShownRefusal>,
    /// What `after` is for the next page. Null: this is the last one.
    next: Option<String>,
}

/// The refusals of requests with one id.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RefusalsOfRequest {
    scope: Scope,
    items: Vec<ShownRefusal>,
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
pub struct ShownRefusal {
    /// Counts up from the start of the process.
    sequence: u64,
    /// When it was (RFC 3339).
    time: String,
    /// Clients can choose it, so several requests can have the same.
    request_id: String,
    policy: String,
    key: RefusedKey,
    /// The plan of the client. It is absent if the limit was not that of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// In units, as `used`.
    limit: u64,
    used: u64,
    /// What a unit is, if it is money: millionths of the dollar are `usd-6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// The wait that the client was told. Null: none.
    wait_ms: Option<Wait>,
    route: String,
    source: &'static str,
    method: String,
    /// Without the query and without the values of path parameters.
    path: String,
}

/// The key of a refused client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct RefusedKey {
    id: String,
    /// The masked text.
    text: String,
    /// The whole key, with `reveal=true`. It is absent if it was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole_key: Option<String>,
}

/// The last refusals, of one policy or of all.
///
/// # Errors
/// 400, if a parameter is not valid.
pub fn list(rings: &RefusalRings, call: &Call) -> Result<Answer, Problem> {
    let before = call.parameter("after").map(str::parse).transpose();
    let before =
        before.map_err(|_| Problem::bad_request("after is not the next of an earlier page"))?;
    let (refusals, has_more) = rings.newest(call.parameter("policy"), before, call.number("limit"));
    let next = refusals.last().filter(|_| has_more).map(|it| it.sequence.to_string());
    let items = shown(&refusals, call);
    let change = reveal_of(&items, call);
    let answer = Answer::json(&Refusals { scope: Scope::Node, items, next });
    Ok(answer.recorded(change))
}

/// The refusals, with whole keys if the call asks for them.
fn shown(refusals: &[Refusal], call: &Call) -> Vec<ShownRefusal> {
    let with_whole_key = |refusal| {
        let mut shown = ShownRefusal::of(refusal);
        shown.key.whole_key = refusal.whole.as_ref().map(|it| it.as_str().to_owned());
        shown
    };
    match call.reveals() {
        true => refusals.iter().map(with_whole_key).collect(),
        false => refusals.iter().map(ShownRefusal::of).collect(),
    }
}

/// What the audit log says of these refusals, if their whole keys are shown.
fn reveal_of(items: &[ShownRefusal], call: &Call) -> Option<Change> {
    let count = items.iter().filter(|it| it.key.whole_key.is_some()).count();
    call.reveals().then(|| reveal::shown(call, count, None))
}

/// The refusals of requests with one id.
///
/// # Errors
/// 404, if there are none.
pub fn of_request(rings: &RefusalRings, call: &Call) -> Result<Answer, Problem> {
    let refusals = rings.of_request(call.value(0));
    let items = shown(&refusals, call);
    if items.is_empty() {
        let reach = match rings.oldest() {
            Some(oldest) => format!("the oldest one that is kept is of {oldest}"),
            None => "none is kept now".to_owned(),
        };
        return Err(Problem::not_found(format!(
            "this node knows no refusal with this id: of each policy a worker keeps the last 256 \
             refusals, at most 8 of one key, and not all of a flood; {reach}; other nodes may know it"
        )));
    }
    let change = reveal_of(&items, call);
    let answer = Answer::json(&RefusalsOfRequest { scope: Scope::Node, items });
    Ok(answer.recorded(change))
}

impl ShownRefusal {
    /// This refusal, with the masked text.
    pub fn of(refusal: &Refusal) -> Self {
        Self {
            sequence: refusal.sequence,
            time: refusal.time.to_string(),
            request_id: refusal.request_id.clone(),
            policy: refusal.policy.to_string(),
            key: RefusedKey {
                id: refusal.key_id().to_string(),
                text: refusal.text.clone(),
                whole_key: None,
            },
            plan: refusal.plan.as_deref().map(str::to_owned),
            limit: refusal.limit,
            used: refusal.used,
            unit: refusal.unit.map(|unit| unit.to_string()),
            wait_ms: Wait::of(refusal.retry),
            route: refusal.route.clone(),
            source: refusal.source,
            method: refusal.method.clone(),
            path: refusal.path.clone(),
        }
    }
}
