//! The configuration: the one that runs, the check of another one, and its replacement.

use bytes::Bytes;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use super::differences::Differences;
use crate::admin::answer::Answer;
use crate::admin::audit::Change;
use crate::admin::call::Call;
use crate::admin::config_call::{ConfigCall, ConfigRequest, Refused, Replaced, invalid};
use crate::admin::node::{Checked, EffectiveConfig, Node, Phase, View};
use crate::admin::problem::{ConfigProblem, Problem};
use crate::patches::IfMatch;

/// Which configuration runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
struct Running {
    /// How many configurations have been in use.
    generation: u64,
    /// The time since which this one is (RFC 3339).
    loaded: String,
    /// Equal on nodes with the same configuration.
    digest: String,
    from: Origin,
    /// The credential of the call that gave it. Null: it is that of the file.
    by: Option<String>,
    /// The names of settings that are not in force before a restart.
    needs_restart: Vec<&'static str>,
}

/// Where the configuration in use comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Origin {
    File,
    Call,
}

/// The configuration in use as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Configuration<'v> {
    #[serde(flatten)]
    running: Running,
    /// The file, with `***` for secrets. Null: the gateway runs without one.
    file: Option<&'v Value>,
}

/// What is true of the configuration in use.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EffectiveConfiguration {
    #[serde(flatten)]
    running: Running,
    #[serde(flatten)]
    effective: EffectiveConfig,
}

/// What the check of a configuration without mistakes has found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Valid {
    /// Always true; a configuration with mistakes is answered with 422.
    valid: bool,
    warnings: Vec<ConfigProblem>,
    /// What it would change.
    #[serde(flatten)]
    differences: Differences,
}

/// The configuration was replaced.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Replacement {
    #[serde(flatten)]
    running: Running,
    warnings: Vec<ConfigProblem>,
    /// Whether the file has it, too.
    written: bool,
    #[serde(flatten)]
    differences: Differences,
}

impl Running {
    fn of(view: &View) -> Self {
        let by = view.origin.as_ref().map(|it| it.actor.clone());
        Self {
            generation: view.generation,
            loaded: view.loaded.to_string(),
            digest: view.snapshot.definitions.identity.config.clone(),
            from: if by.is_some() { Origin::Call } else { Origin::File },
            by,
            needs_restart: view.needs_restart.clone(),
        }
    }
}

/// The configuration that runs: as it is written, or what is true of it.
pub fn show(view: &View, call: &Call) -> Answer {
    let running = Running::of(view);
    let document = view.document.as_ref();
    let effective = (call.parameter("view") == Some("effective")).then_some(document).flatten();
    let mut answer = match effective.map(|it| (it.effective)(&view.snapshot.patches)) {
        Some(effective) => Answer::json(&EffectiveConfiguration { running, effective }),
        None => {
            Answer::json(&Configuration { running, file: document.map(|it| &*it.masked.written) })
        }
    };
    answer.etag = document.map(|it| it.tag.clone());
    answer
}

/// Checks a configuration. `checks` bounds how many run at a time.
pub async fn check(
    node: &Node,
    view: &View,
    checks: &Semaphore,
    body: Bytes,
) -> Result<Answer, Problem> {
    let text = text(body)?;
    let busy = |_| Problem::unavailable("another configuration is being checked; try again");
    let _permit = checks.try_acquire().map_err(busy)?;
    let checked = (node.readers.check)(text).await;
    let unfinished = |why| Problem::unavailable(format!("the configuration is not checked: {why}"));
    let Checked { document, problems } = checked.map_err(unfinished)?;
    let Some(document) = document else { return Err(invalid(&problems)) };
    let before = view.document.as_ref().map(|it| it.masked.clone()).unwrap_or_default();
    let differences = Differences::between(&before, &document);
    Ok(Answer::json(&Valid { valid: true, warnings: problems, differences }))
}

/// Runs another configuration, and writes it into the file if the caller asks for that.
pub async fn put(node: &Node, view: &View, call: &Call, body: Bytes) -> Result<Answer, Problem> {
    let write = call.parameter("write") == Some("true");
    if write {
        may_write(view)?;
    }
    let Some(if_match) = call.if_match.as_deref() else {
        let detail = "send If-Match with the ETag of GET /v1/config, so that no other change is \
                      overwritten; If-Match: * forces it";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    };
    let requested = ConfigRequest::Put { text: text(body)?, write };
    let done = ask(node, call, requested, IfMatch::parse(if_match)).await?;
    Ok(replaced(node, done.map_err(|it| it.problem(""))?, write))
}

/// Reads the file again, and waits until it runs.
pub async fn reload(node: &Node, call: &Call) -> Result<Answer, Problem> {
    let done = ask(node, call, ConfigRequest::Reload, IfMatch::Any).await?;
    Ok(replaced(node, done.map_err(|it| it.problem(""))?, true))
}

/// The answer about a configuration that was replaced.
fn replaced(node: &Node, done: Replaced, is_in_file: bool) -> Answer {
    let Replaced { before: old, after: new, needs_restart, warnings } = done;
    let differences = Differences::between(&old.masked, &new.masked);
    let view = node.view();
    let running = Running { needs_restart, ..Running::of(&view) };
    let at: Vec<&str> = differences.changes.iter().take(20).map(|it| &*it.at).collect();
    let change = Change {
        before: json!({ "digest": old.digest, "keyed_digest": old.masked.keyed_digest }),
        after: json!({
            "digest": new.digest, "keyed_digest": new.masked.keyed_digest, "written": is_in_file,
            "at": at,
        }),
        ..Change::default()
    };
    let body = Replacement { running, warnings, written: is_in_file, differences };
    let mut answer = Answer::changed(&body, change);
    answer.etag = view.document.map(|it| it.tag);
    answer
}

/// Asks the task that replaces configurations.
pub async fn ask(
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
pub fn may_write(view: &View) -> Result<(), Problem> {
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
