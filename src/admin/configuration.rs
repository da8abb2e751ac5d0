//! The configuration: the one that runs, the check of another one, and its replacement.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::answer::Answer;
use super::audit::Change;
use super::call::Call;
use super::config_call::{ConfigCall, ConfigRequest, Refused, Replaced, invalid};
use super::differences::differences;
use super::node::{Checked, Node, Phase, View};
use super::problem::Problem;
use crate::patches::IfMatch;

/// The configuration that runs: as it is written, or what is true of it.
pub(super) fn show(view: &View, call: &Call) -> Result<Answer, Problem> {
    let mut body = state(view);
    match call.parameter("view") {
        None | Some("file") => body["file"] = json!(view.document.as_ref().map(|it| &*it.written)),
        Some("effective") => {
            let shown = view.document.as_ref().map(|it| (it.effective)(&view.snapshot.patches));
            if let Some(Value::Object(fields)) = shown {
                fields.into_iter().for_each(|(name, value)| body[name] = value);
            }
        }
        Some(_) => return Err(Problem::bad_request("view is file or effective")),
    }
    let mut answer = Answer::json(&body);
    answer.etag = view.document.as_ref().map(|it| it.tag.clone());
    Ok(answer)
}

/// Which configuration runs.
fn state(view: &View) -> Value {
    let by = view.origin.as_ref().map(|it| &it.actor);
    json!({
        "generation": view.generation,
        "loaded": view.loaded.to_string(),
        "digest": view.snapshot.definitions.file_digest,
        "from": if by.is_some() { "call" } else { "file" },
        "by": by,
        "needs_restart": view.needs_restart,
    })
}

/// Checks a configuration, on another thread. `checks` bounds how many run at a time.
pub(super) async fn check(
    node: &Node,
    view: &View,
    checks: &Arc<Semaphore>,
    body: Bytes,
) -> Result<Answer, Problem> {
    let text = text(body)?;
    let busy = || Problem::unavailable("another configuration is being checked; try again");
    // Held by the check itself, which goes on if the call takes too long.
    let permit = Arc::clone(checks).try_acquire_owned().map_err(|_| busy())?;
    let check = Arc::clone(&node.readers.check);
    let checked = spawn_blocking(move || {
        let checked = check(&text);
        drop(permit);
        checked
    });
    let failed = |_| Problem::unavailable("the configuration could not be checked");
    let Checked { document, problems } = checked.await.map_err(failed)?;
    let Some(document) = document else { return Err(invalid(&problems)) };
    let mut body = match &view.document {
        Some(running) => differences(&running.written, &document),
        None => json!({}),
    };
    body["valid"] = json!(true);
    body["warnings"] = json!(problems);
    Ok(Answer::json(&body))
}

/// Runs another configuration, and writes it into the file if the caller asks for that.
pub(super) async fn put(
    node: &Node,
    view: &View,
    call: &Call,
    body: Bytes,
) -> Result<Answer, Problem> {
    let write = match call.parameter("write") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::bad_request("write is true or false")),
    };
    if write {
        may_write(view)?;
    }
    let Some(if_match) = call.if_match.as_deref() else {
        let detail = "send If-Match with the ETag of GET /v1/config, so that no other change is \
                      overwritten; If-Match: * forces it";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    };
    let requested = ConfigRequest::Put { text: text(body)?, write };
    let before = view.snapshot.definitions.file_digest.clone();
    let Replaced { before: old, after: new, needs_restart, warnings } =
        ask(node, call, requested, IfMatch::parse(if_match)).await?.map_err(|it| it.problem(""))?;
    let changed = differences(&old, &new);
    let view = node.view();
    let mut body = state(&view);
    body["needs_restart"] = json!(needs_restart);
    body["warnings"] = json!(warnings);
    body["written"] = json!(write);
    for name in ["changes", "more_changes"] {
        body[name] = changed[name].clone();
    }
    let after = json!({
        "digest": body["digest"], "written": write, "at": places(&changed["changes"]),
    });
    let change = Change { before: json!({ "digest": before }), after, ..Change::default() };
    let mut answer = Answer::changed(&body, change);
    answer.etag = view.document.map(|it| it.tag);
    Ok(answer)
}

/// Asks the task that replaces configurations.
pub(super) async fn ask(
    node: &Node,
    call: &Call,
    requested: ConfigRequest,
    if_match: IfMatch,
) -> Result<Result<Replaced, Refused>, Problem> {
    let busy = || Problem::unavailable("another configuration is being applied; try again");
    if node.view().phase == Phase::Draining {
        return Err(Problem::unavailable("this node finishes its last requests; ask another"));
    }
    let (reply, answer) = oneshot::channel();
    let actor = call.actor.clone();
    node.configs.try_send(ConfigCall { requested, if_match, actor, reply }).map_err(|_| busy())?;
    answer.await.map_err(|_| busy())
}

/// # Errors
/// 403, if calls may not write the file.
pub(super) fn may_write(view: &View) -> Result<(), Problem> {
    if view.settings.write_config {
        return Ok(());
    }
    let detail = "calls may not write the file; set admin.write_config: true in it";
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

fn text(body: Bytes) -> Result<String, Problem> {
    String::from_utf8(body.into())
        .map_err(|_| Problem::bad_request("the configuration is not UTF-8 text"))
}

/// The places of the first changes, for the audit log.
fn places(changes: &Value) -> Vec<Value> {
    let changes = changes.as_array().into_iter().flatten();
    changes.take(20).map(|change| change["at"].clone()).collect()
}
