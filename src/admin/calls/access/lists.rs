//! What the API shows of access lists, and how it changes their modes.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tollgate_core::policy::{AccessList, AccessStep, DenialAnswer};

use crate::admin::answer::{Answer, Page};
use crate::admin::audit::Change;
use crate::admin::body::read_json;
use crate::admin::call::Call;
use crate::admin::node::{Node, Phase, View};
use crate::admin::problem::Problem;
use crate::admin::rejected::problem;
use crate::admin::words::{Counted, Scope};
use crate::patches::{Done, IfMatch, NewMode, PatchCall, Requested, Shown, entry_of};
use crate::telemetry::families;

/// An access list, and whether its mode was changed at run time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AccessList")]
pub struct ShownList {
    name: String,
    /// `enforce`, `shadow` or `off`: the mode that holds now.
    mode: &'static str,
    /// The status of the response to a denied request.
    status: u16,
    /// When a client may try again, in seconds.
    retry_after_s: Option<u32>,
    /// When it is evaluated: `before_auth`, or `after_auth` if a rule compares identities of clients.
    step: &'static str,
    /// The names of the routes that use it.
    routes: Vec<String>,
    /// The definition as it is written in the file, without secrets.
    definition: Option<Value>,
    /// The change of the mode.
    patch: Option<Shown>,
    /// Why this node ignores a change of the mode.
    ignored: Vec<String>,
    /// Where changes are in force.
    changes_scope: Scope,
    /// What it has said on this node since the process began.
    results: Counted,
}

/// All access lists by name, in the order of the file.
pub fn list(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let lists = view.snapshot.access.iter();
    let shown = lists.map(|list| (list.name.to_string(), shown(node, view, list)));
    Ok(Answer::json(&Page::of(shown.collect(), call)?))
}

/// One access list.
pub fn one(node: &Node, view: &View, name: &str) -> Result<Answer, Problem> {
    let list = view.snapshot.access.iter().find(|list| *list.name == *name);
    let list = list.ok_or_else(|| unknown(name))?;
    let mut answer = Answer::json(&shown(node, view, list));
    let defined = view.snapshot.definitions.list(name);
    answer.etag = defined.map(|it| view.snapshot.patches.list_tag(it));
    Ok(answer)
}

/// Gives an access list another mode, and answers as for a look at it.
pub async fn change(node: &Node, call: &Call, body: Bytes) -> Result<Answer, Problem> {
    let name = call.value(0);
    if node.view().snapshot.definitions.list(name).is_none() {
        return Err(unknown(name));
    }
    let new: NewMode = read_json(&body)?;
    let Some(if_match) = call.if_match.as_deref() else {
        let detail = "send If-Match with the ETag of GET /v1/access/{list}, so that no other \
                      change is overwritten; If-Match: * forces it";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    };
    if node.view().phase == Phase::Draining {
        return Err(Problem::unavailable("this node finishes its last requests; ask another"));
    }
    let away = || Problem::unavailable("changes cannot be made now; try again");
    let (reply, answer) = oneshot::channel();
    let asked = PatchCall {
        policy: name.to_owned(),
        requested: Requested::Mode(new),
        if_match: IfMatch::parse(if_match),
        actor: call.actor.clone(),
        reply,
    };
    node.patches.try_send(asked).map_err(|_| away())?;
    let done = answer.await.map_err(|_| away())?;
    let change = |Done { before, after }| Change {
        list: Some(name.to_owned()),
        before,
        after,
        ..Change::default()
    };
    let change = change(done.map_err(|rejected| problem(rejected, name, change))?);
    let mut answer = one(node, &node.view(), name)?;
    answer.change = Some(change);
    Ok(answer)
}

fn unknown(name: &str) -> Problem {
    Problem::not_found(format!("there is no access list {name:?}"))
}

fn shown(node: &Node, view: &View, list: &AccessList) -> ShownList {
    let snapshot = &view.snapshot;
    let name = &*list.name;
    let routes = (0..snapshot.routes.len()).map(|index| snapshot.rules.route(index));
    let uses = routes.filter(|route| route.access.iter().any(|it| it.name == list.name));
    let ignored = snapshot.patches.ignored.iter().filter(|it| it.policy == entry_of(name));
    let counts = node.metrics.counts(&families::ACCESS, Some(name));
    let mut results = BTreeMap::new();
    for (labels, count) in counts {
        if let [_, result] = &*labels {
            *results.entry(result.to_string()).or_insert(0) += count;
        }
    }
    ShownList {
        name: name.to_owned(),
        mode: list.mode.as_str(),
        status: list.answer.status(),
        retry_after_s: match list.answer {
            DenialAnswer::Unavailable(wait_s) => wait_s.map(Into::into),
            DenialAnswer::Forbidden | DenialAnswer::NotFound => None,
        },
        step: match list.step() {
            AccessStep::BeforeAuth => "before_auth",
            AccessStep::AfterAuth => "after_auth",
        },
        routes: uses.map(|route| route.name.to_string()).collect(),
        definition: snapshot.definitions.list(name).map(|it| it.written.clone()),
        patch: snapshot.patches.lists.get(name).map(|(change, _)| change.shown()),
        ignored: ignored.map(|it| it.because.clone()).collect(),
        changes_scope: if node.control.is_some() { Scope::Cluster } else { Scope::Node },
        results,
    }
}
