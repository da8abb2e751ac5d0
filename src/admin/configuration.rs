//! The configuration: the file in use, and the check of another one.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::answer::Answer;
use super::node::{Checked, Node, View};
use super::problem::{ConfigProblem, Problem};

/// The configuration in use.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Configuration<'v> {
    /// How many configurations have been in use.
    generation: u64,
    /// The time since which this one is (RFC 3339).
    loaded: String,
    /// The file, with `***` for secrets. Null: the gateway runs without one.
    file: Option<&'v Value>,
}

/// What the check of a configuration without mistakes has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Valid {
    /// Always true; a configuration with mistakes is answered with 422.
    valid: bool,
    warnings: Vec<ConfigProblem>,
}

/// The file in use.
pub(super) fn show(view: &View) -> Answer {
    Answer::json(&Configuration {
        generation: view.generation,
        loaded: view.loaded.to_string(),
        file: view.document.as_deref(),
    })
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
        return Ok(Answer::json(&Valid { valid: true, warnings }));
    }
    let detail = "the configuration has mistakes";
    let errors = errors.into_iter().map(Into::into).collect();
    Err(Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail) })
}
