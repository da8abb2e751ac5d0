//! Changes of policies at run time.

use std::collections::BTreeMap;
use std::rc::Rc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tollgate_core::policy::Policy;

use super::effect::{Effect, policy};
use crate::admin::answer::{Answer, Page};
use crate::admin::audit::Change;
use crate::admin::call::Call;
use crate::admin::calls::configuration;
use crate::admin::candidates::CandidateCounts;
use crate::admin::cluster::{About, Cluster, is_cluster};
use crate::admin::config_call::ConfigRequest;
use crate::admin::node::{Node, Phase, View};
use crate::admin::outcomes::{Outcomes, PolicyOutcomes, Use};
use crate::admin::problem::Problem;
use crate::admin::rejected::problem;
use crate::admin::state::AdminState;
use crate::admin::words::{Counted, Limit, Scope};
use crate::patches::{CANDIDATE, Changed, Done, IfMatch, PatchCall, Requested, Shown};
use crate::telemetry::families;

/// A policy, and what was changed of it at run time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
pub struct ShownPolicy {
    /// What it does now, with its patch.
    #[serde(flatten)]
    effect: Effect,
    /// The definition as it is written in the file, without secrets.
    definition: Option<Value>,
    patch: Option<Shown>,
    candidate: Option<Candidate>,
    /// Why this node ignores changes of the policy.
    ignored: Vec<String>,
    /// Where changes are in force.
    changes_scope: Scope,
    outcomes: Outcomes,
    r#use: Use,
    /// The decisions of this node since the process began by plan, of a policy with plans. The
    /// plan without a name is the policy's own limit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_plan: BTreeMap<String, Counted>,
    /// The requests of this node since the process began whose cost is not known in the end, by
    /// cause.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unsettled: Counted,
}

/// A policy with its outcomes on all nodes that share the store.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PolicyOfCluster {
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    policy: ShownPolicy,
}

/// A page of policies with their outcomes on all nodes that share the store.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PoliciesOfCluster {
    #[serde(flatten)]
    about: About,
    /// The names of policies that have figures and that the file of this node does not define.
    elsewhere: Vec<String>,
    #[serde(flatten)]
    page: Page<ShownPolicy>,
}

/// Another limit that is tried in shadow.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Candidate {
    /// The name in metrics and logs.
    name: String,
    /// The limit as the operator has written it.
    written: Option<String>,
    algorithm: &'static str,
    limit: Limit,
    /// The burst as the operator has written it.
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    /// The limits of plans as the operator has written them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    plans: BTreeMap<String, String>,
    /// Why, in the words of the operator.
    reason: String,
    /// The credential that made it.
    actor: String,
    /// When it was made (RFC 3339).
    since: String,
    /// When it ends.
    ends: Option<String>,
    /// The time from which on its counters are complete (RFC 3339).
    warming_until: String,
    /// Its decisions since it began, and its disagreements with the policies that decide.
    outcomes: Counted,
    outcomes_scope: Scope,
}

/// A change was removed of a policy that this node does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Removed {
    name: String,
    /// Always true.
    removed: bool,
}

/// Makes a change, and answers as for a look at the policy. The change may have a mistake.
pub async fn change(
    state: &AdminState,
    call: &Call,
    requested: Result<Requested, Problem>,
) -> Result<Answer, Problem> {
    let AdminState { node, candidates, .. } = state;
    let answer = make(node, candidates, call, requested?).await;
    candidates.update(&node.metrics, &node.view());
    answer
}

async fn make(
    node: &Node,
    counts: &CandidateCounts,
    call: &Call,
    requested: Requested,
) -> Result<Answer, Problem> {
    let name = call.value(0);
    // An entry of a policy that this node does not have can be removed.
    let removes = matches!(requested, Requested::RemovePatch | Requested::RemoveCandidate);
    if !removes {
        let view = node.view();
        policy(&view, name)?;
        if view.snapshot.definitions.get(name).is_none() {
            let detail = "this gateway runs without a file, and its policy cannot be changed; write a \
                          file with tollgate init, and run that";
            return Err(Problem::conflict(detail));
        }
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
    let change = |Done { before, after }| Change::of_policy(name, before, after);
    let change = change(done.map_err(|rejected| problem(rejected, name, change))?);
    call.has_made(&change);
    if persists {
        // The patch is in force until the definition in the file has its values: the policy has
        // them without a break.
        let asked = ConfigRequest::Persist(name.to_owned());
        let written = configuration::ask(node, call, asked, IfMatch::Any).await;
        let written = written.and_then(|it| it.map_err(|refused| refused.problem(name)));
        written.map_err(|problem| {
            let detail =
                format!("the patch is in force, but is not in the file: {}", problem.detail);
            Problem { detail, ..problem }.after(change.clone())
        })?;
    }
    let removed = |_| Answer::json(&Removed { name: name.to_owned(), removed: true });
    let mut answer = one(node, counts, &node.view(), name, None).unwrap_or_else(removed);
    answer.change = Some(change);
    Ok(answer)
}

/// The figures of all nodes, if the call asks for them.
async fn figures(state: &AdminState, call: &Call) -> Option<Rc<Cluster>> {
    match is_cluster(call) {
        true => Some(state.node.cluster(state.clock.wall()).await),
        false => None,
    }
}

/// One policy, with its outcomes on this node or on all nodes.
pub async fn show(state: &AdminState, view: &View, call: &Call) -> Result<Answer, Problem> {
    let cluster = figures(state, call).await;
    one(&state.node, &state.candidates, view, call.value(0), cluster.as_deref())
}

/// One policy, with its definition in the file and its changes. With `cluster`, its outcomes
/// are those of all nodes.
fn one(
    node: &Node,
    counts: &CandidateCounts,
    view: &View,
    name: &str,
    cluster: Option<&Cluster>,
) -> Result<Answer, Problem> {
    let policy = policy(view, name)?;
    let shown = with_changes(node, counts, view, &policy, cluster);
    let mut answer = match cluster {
        None => Answer::json(&shown),
        Some(cluster) => Answer::json(&PolicyOfCluster { about: cluster.about(), policy: shown }),
    };
    let defined = view.snapshot.definitions.get(name);
    answer.etag = defined.map(|it| view.snapshot.patches.tag(it));
    Ok(answer)
}

/// All policies by name, in the order of the file.
pub async fn list(state: &AdminState, view: &View, call: &Call) -> Result<Answer, Problem> {
    let cluster = figures(state, call).await;
    let AdminState { node, candidates: counts, .. } = state;
    let policies = &view.snapshot.policies;
    let shown = |policy: &Policy| with_changes(node, counts, view, policy, cluster.as_deref());
    let page =
        Page::of(policies.iter().map(|it| (it.name.to_string(), shown(it))).collect(), call)?;
    let Some(cluster) = cluster else { return Ok(Answer::json(&page)) };
    // Candidates are shown beside their policies.
    let is_here =
        |name: &str| name.ends_with(CANDIDATE) || policies.iter().any(|it| &*it.name == name);
    let elsewhere = cluster.policies().keys().filter(|name| !is_here(name)).cloned().collect();
    Ok(Answer::json(&PoliciesOfCluster { about: cluster.about(), elsewhere, page }))
}

fn with_changes(
    node: &Node,
    counts: &CandidateCounts,
    view: &View,
    policy: &Policy,
    cluster: Option<&Cluster>,
) -> ShownPolicy {
    let snapshot = &view.snapshot;
    let name = &*policy.name;
    let outcomes = match cluster {
        None => PolicyOutcomes::of(&node.history, name),
        Some(cluster) => cluster.outcomes(name),
    };
    let changed = snapshot.patches.changed.get(name);
    let patch = changed.and_then(|it| it.patch.as_ref());
    let ignored = snapshot.patches.ignored.iter().filter(|it| it.policy == name);
    ShownPolicy {
        effect: Effect::of(policy),
        definition: snapshot.definitions.get(name).map(|it| it.written.clone()),
        patch: patch.map(|(patch, _)| patch.shown()),
        candidate: changed.and_then(|it| candidate(node, counts, it)),
        ignored: ignored.map(|it| it.because.clone()).collect(),
        changes_scope: if node.control.is_some() { Scope::Cluster } else { Scope::Node },
        outcomes: Outcomes::of(&outcomes),
        r#use: Use::of(&outcomes),
        by_plan: by_plan(node, policy),
        unsettled: unsettled(node, name),
    }
}

/// The requests whose cost is not known in the end, by cause.
fn unsettled(node: &Node, policy: &str) -> Counted {
    let counts = node.metrics.counts(&families::UNSETTLED_REQUESTS, Some(policy)).into_iter();
    let counts = counts.filter(|(_, count)| *count > 0);
    counts.filter_map(|(labels, count)| Some((labels.get(1)?.to_string(), count))).collect()
}

/// The decisions of a policy that has plans, by plan and outcome.
fn by_plan(node: &Node, policy: &Policy) -> BTreeMap<String, Counted> {
    let mut plans = BTreeMap::<String, Counted>::new();
    if policy.plans.is_some() {
        for (labels, count) in node.metrics.counts(&families::DECISIONS, Some(&policy.name)) {
            if let [_, plan, outcome] = &*labels {
                plans.entry(plan.to_string()).or_default().insert(outcome.to_string(), count);
            }
        }
    }
    plans
}

/// The candidate beside a policy, and what it has judged on this node.
fn candidate(node: &Node, counts: &CandidateCounts, changed: &Changed) -> Option<Candidate> {
    let (change, policy) = changed.candidate.as_ref()?;
    let warm = change.since().plus(policy.algorithm.window());
    let Shown { values, reason, actor, since, ends } = change.shown();
    Some(Candidate {
        name: policy.name.to_string(),
        written: values.limit,
        algorithm: policy.algorithm.name(),
        limit: Limit::under(policy, &policy.algorithm),
        burst: values.burst,
        plans: values.plans,
        reason,
        actor,
        since,
        ends,
        warming_until: warm.to_string(),
        outcomes: counts.since(&node.metrics, &policy.name, change.since_us),
        outcomes_scope: Scope::Node,
    })
}
