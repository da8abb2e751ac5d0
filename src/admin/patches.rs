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
use super::config_call::ConfigRequest;
use super::configuration;
use super::figures;
use super::node::{Node, Phase, View};
use super::policies::{definition, limit_of, policy};
use super::problem::Problem;
use super::rejected::problem;
use crate::patches::{Changed, Done, IfMatch, PatchCall, Requested};

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
    let persists = matches!(&requested, Requested::Patch(patch) if patch.persists());
    if let (true, Requested::Patch(patch)) = (persists, &requested) {
        configuration::may_write(&node.view())?;
        // What cannot be written is not changed for a moment either.
        let asked = ConfigRequest::MayPersist(name.to_owned(), patch.clone());
        let may = configuration::ask(node, call, asked, IfMatch::parse(if_match)).await?;
        may.map_err(|refused| refused.problem(name))?;
    }
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
    if persists {
        // The patch is in force until the definition in the file has its values: the policy has
        // them without a break.
        let asked = ConfigRequest::Persist(name.to_owned());
        let written = configuration::ask(node, call, asked, IfMatch::Any).await?;
        written.map_err(|refused| {
            let problem = refused.problem(name);
            let detail =
                format!("the patch is in force, but is not in the file: {}", problem.detail);
            Problem { detail, ..problem }
        })?;
    }
    let change = Change { policy: Some(name.to_owned()), before, after, ..Change::default() };
    let removed = |_| Answer::json(&json!({ "name": name, "removed": true }));
    let mut answer = show(node, counts, &node.view(), name).unwrap_or_else(removed);
    answer.change = Some(change);
    Ok(answer)
}

/// One policy, with its definition in the file and its changes.
pub(super) fn show(
    node: &Node,
    counts: &CandidateCounts,
    view: &View,
    name: &str,
) -> Result<Answer, Problem> {
    let policy = policy(view, name)?;
    let body = with_changes(node, counts, view, name, definition(&policy));
    let defined = view.snapshot.definitions.get(name);
    let tag = defined.map(|it| view.snapshot.patches.tag(it));
    let mut answer = Answer::json(&body);
    answer.etag = tag;
    Ok(answer)
}

/// All policies by name, in the order of the file.
pub(super) fn all(node: &Node, counts: &CandidateCounts, view: &View) -> Vec<(String, Value)> {
    let policies = view.snapshot.policies.iter();
    let shown = |name: &str, shown| with_changes(node, counts, view, name, shown);
    policies.map(|it| (it.name.to_string(), shown(&it.name, definition(it)))).collect()
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
    figures::with_outcomes(body, &node.history)
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
