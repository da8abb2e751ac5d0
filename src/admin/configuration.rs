//! The configuration: the file in use, and the check of another one.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::answer::Answer;
use super::call::Call;
use super::node::{Checked, Node, View};
use super::problem::Problem;

/// The file in use.
pub(super) fn show(view: &View, call: &Call) -> Result<Answer, Problem> {
    match call.parameter("view") {
        None | Some("file") => {}
        Some(_) => return Err(Problem::bad_request("view is file")),
    }
    Ok(Answer::json(&json!({
        "generation": view.generation,
        "loaded": view.loaded.to_string(),
        "file": view.document.as_deref(),
    })))
}

/// Checks a configuration, on another thread. `checks` bounds how many run at a time.
pub(super) async fn check(
    node: &Node,
    checks: &Arc<Semaphore>,
    body: Bytes,
) -> Result<Answer, Problem> {
    let text = String::from_utf8(body.into())
        .map_err(|_| Problem::bad_request("the configuration is not UTF-8 text"))?;
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
    let Checked { is_valid, problems } = checked.await.map_err(failed)?;
    let (warnings, errors): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.is_warning);
    if is_valid {
        return Ok(Answer::json(&json!({ "valid": true, "warnings": warnings })));
    }
    let detail = "the configuration has mistakes";
    let errors = errors.iter().map(|error| json!(error)).collect();
    Err(Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail) })
}
