//! Changes of policies at run time.

use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tollgate_limiter::time::Timestamp;

use super::answer::Answer;
use super::audit::Change;
use super::call::Call;
use super::candidates::CandidateCounts;
use super::cluster::Cluster;
use super::node::{Node, Phase, View};
use super::outcomes::PolicyOutcomes;
use super::policies::{definition, limit_of, policy};
use super::problem::Problem;
use crate::patches::{CANDIDATE, Changed, Done, IfMatch, PatchCall, Rejected, Requested};

/// The body of a change.
///
/// # Errors
/// 400, if it cannot be read.
pub(super) fn read_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // A list would be read as the fields in their order.
    let fields: Result<Map<String, Value>, _> = serde_json::from_slice(body);
    fields
        .and_then(|fields| serde_json::from_value(Value::Object(fields)))
        .map_err(|error| Problem::bad_request(format!("the body is not as it should be: {error}")))
}

/// Makes a change, and answers as for a look at the policy.
pub(super) async fn change(
    node: &Node,
    counts: &CandidateCounts,
    call: &Call,
    requested: Requested,
) -> Result<Answer, Problem> {
    let name = call.value(0);
    // An entry of a policy that this node does not have can be removed.
    let removes = matches!(requested, Requested::RemovePatch | Requested::RemoveCandidate);
    if !removes {
        policy(&node.view(), name)?;
    }
    let Some(if_match) = call.if_match.as_deref() else {
        let detail = "send If-Match with the ETag of GET /v1/policies/{policy}, so that no other \
                      change is overwritten; If-Match: * forces it";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    };
    let away = || Problem::unavailable("changes cannot be made now; try again");
    if node.view().phase == Phase::Draining {
        return Err(Problem::unavailable("this node finishes its last requests; ask another"));
    }
    let (reply, answer) = oneshot::channel();
    let asked = PatchCall {
        policy: name.to_owned(),
        requested,
        if_match: IfMatch::parse(if_match),
        actor: call.actor.clone(),
        reply,
    };
    node.patches.try_send(asked).map_err(|_| away())?;
    let done = answer.await.map_err(|_| away())?;
    let Done { before, after } = done.map_err(|rejected| problem(rejected, name))?;
    let change = Change { policy: Some(name.to_owned()), before, after, ..Change::default() };
    let removed = |_| Answer::json(&json!({ "name": name, "removed": true }));
    let mut answer = show(node, counts, &node.view(), name, None).unwrap_or_else(removed);
    answer.change = Some(change);
    Ok(answer)
}

/// One policy, with its definition in the file and its changes. With `cluster`, its outcomes
/// are those of all nodes.
pub(super) fn show(
    node: &Node,
    counts: &CandidateCounts,
    view: &View,
    name: &str,
    cluster: Option<&Cluster>,
) -> Result<Answer, Problem> {
    let policy = policy(view, name)?;
    let mut body = with_changes(node, counts, view, name, definition(&policy));
    if let Some(cluster) = cluster {
        show_outcomes(cluster, name, &mut body);
        if let (Value::Object(body), Value::Object(about)) = (&mut body, cluster.about()) {
            body.extend(about);
        }
    }
    let defined = view.snapshot.definitions.get(name);
    let tag = defined.map(|it| view.snapshot.patches.tag(it));
    let mut answer = Answer::json(&body);
    answer.etag = tag;
    Ok(answer)
}

/// All policies by name, in the order of the file.
pub(super) fn list(
    node: &Node,
    counts: &CandidateCounts,
    view: &View,
    call: &Call,
    cluster: Option<&Cluster>,
) -> Result<Answer, Problem> {
    let policies = view.snapshot.policies.iter().map(|it| {
        let mut shown = with_changes(node, counts, view, &it.name, definition(it));
        if let Some(cluster) = cluster {
            show_outcomes(cluster, &it.name, &mut shown);
        }
        (it.name.to_string(), shown)
    });
    let Some(cluster) = cluster else { return Answer::page(policies.collect(), call) };
    let mut about = cluster.about();
    // Candidates are shown beside their policies.
    let is_here = |name: &str| {
        name.ends_with(CANDIDATE) || view.snapshot.policies.iter().any(|it| &*it.name == name)
    };
    let elsewhere = cluster.policies().keys().filter(|name| !is_here(name));
    about["elsewhere"] = elsewhere.map(String::as_str).collect();
    Answer::page_about(policies.collect(), call, about)
}

fn show_outcomes(cluster: &Cluster, policy: &str, body: &mut Value) {
    let none = PolicyOutcomes::default();
    let outcomes = cluster.policies().get(policy).map_or(&none, |it| &it.outcomes);
    outcomes.show_in(body);
}

fn with_changes(
    node: &Node,
    counts: &CandidateCounts,
    view: &View,
    name: &str,
    mut body: Value,
) -> Value {
    let snapshot = &view.snapshot;
    let defined = snapshot.definitions.get(name);
    let changed = snapshot.patches.changed.get(name);
    body["definition"] = json!(defined.map(|it| &it.written));
    let patch = changed.and_then(|it| it.patch.as_ref());
    body["patch"] = json!(patch.map(|(patch, _)| patch.shown()));
    body["candidate"] = json!(changed.and_then(|it| candidate(node, counts, it)));
    let ignored = snapshot.patches.ignored.iter().filter(|it| it.policy == name);
    body["ignored"] = ignored.map(|it| it.because.as_str()).collect();
    body["changes_scope"] = json!(if node.control.is_some() { "cluster" } else { "node" });
    PolicyOutcomes::of(&node.history, name).show_in(&mut body);
    body
}

/// The candidate beside a policy, and what it has judged on this node.
fn candidate(node: &Node, counts: &CandidateCounts, changed: &Changed) -> Option<Value> {
    let (change, policy) = changed.candidate.as_ref()?;
    let warm = change.since().plus(policy.algorithm.window());
    let mut shown = change.shown();
    let values = shown["limit"].take();
    let fields = [
        ("name", json!(*policy.name)),
        ("written", values),
        ("algorithm", json!(policy.algorithm.name())),
        ("limit", limit_of(&policy.algorithm)),
        ("warming_until", json!(Timestamp::to_string(&warm))),
        ("outcomes", counts.since(&node.metrics, &policy.name, change.since_us)),
        ("outcomes_scope", json!("node")),
    ];
    fields.into_iter().for_each(|(name, value)| shown[name] = value);
    Some(shown)
}

fn problem(rejected: Rejected, policy: &str) -> Problem {
    match rejected {
        Rejected::UnknownPolicy => Problem::not_found(format!("there is no policy {policy:?}")),
        Rejected::Nothing => Problem::not_found("there is none that could be removed"),
        Rejected::Stale => {
            let detail = "the policy or its changes are not those of If-Match any more; look at \
                          the policy again";
            Problem::new(StatusCode::PRECONDITION_FAILED, detail)
        }
        Rejected::Invalid(mistakes) => {
            let errors = mistakes.iter().map(|it| json!(it)).collect();
            let first = mistakes.first().map_or("the change has mistakes", |it| &*it.message);
            Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, first) }
        }
        Rejected::Full(why) => Problem::conflict(why),
        Rejected::Away(why) => Problem::unavailable(format!(
            "{why}; the changes that are known stay in force, and this one may have been made"
        )),
    }
}
