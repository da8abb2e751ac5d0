//! `tollgate policy` and `tollgate reset`: limits that change while gateways run.
//!
//! A change reads the policy first, and is made only if it has not changed in between. It prints
//! the limit before and after, until when it holds, and the command that undoes it.

mod args;
mod text;
mod times;

use std::io;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tollgate_top::clean;

use self::args::{ChangeArgs, PolicyCommand};
pub use self::args::{EXAMPLES, PolicyArgs, RESET_EXAMPLES, ResetArgs};
use self::text::Changing;
use super::admin_client::{AdminError, Answer, Method};
use super::console::quoted;
use super::which::{self, Gateway, GatewayArgs};
use crate::app::local_runtime;

/// Why a policy is not shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The gateway does not answer, or refuses.
    #[error(transparent)]
    Gateway(#[from] which::Problem),
    /// Another operator was faster.
    #[error("the policy \"{0}\" was changed in the meantime; nothing was done: look at it again")]
    Changed(String),
    /// The limit that was tried is set, and its trial has not ended.
    #[error(
        "the limit was set, but the trial beside it may go on: {why}; end it with: {end}",
        why = unended(.error)
    )]
    TrialGoesOn {
        /// Why it has not ended.
        error: Box<Problem>,
        /// The command that ends it.
        end: String,
    },
    /// No other limit is tried.
    #[error(
        "no limit is tried beside the policy \"{0}\"; begin with: tollgate policy try {word} LIMIT",
        word = quoted(.0)
    )]
    NoTrial(String),
    /// There is nothing to undo.
    #[error("the policy \"{0}\" is as in the file, and no other limit is tried")]
    Unchanged(String),
    /// The algorithm of a policy does not change at run time.
    #[error(
        "the limit that is tried has another algorithm ({algorithm}), which needs a change of the file"
    )]
    Algorithm {
        /// The algorithm of the trial.
        algorithm: String,
    },
    /// The system refuses a runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Problem {
    /// Whether the fault is in the arguments or the configuration.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Gateway(problem) if problem.is_usage())
    }
}

/// Why a trial has not ended. Something was done before.
fn unended(error: &Problem) -> String {
    match error {
        Problem::Changed(_) => "the policy was changed in the meantime".to_owned(),
        other => other.to_string(),
    }
}

/// What is printed.
pub struct Output {
    pub text: String,
    /// Whether it is for programs.
    pub is_json: bool,
    /// What has failed after that.
    pub failure: Option<Problem>,
}

/// Shows or changes policies.
///
/// # Errors
/// If the gateway does not answer or refuses.
pub fn run(args: &PolicyArgs) -> Result<Output, Problem> {
    let runtime = local_runtime().map_err(Problem::Start)?;
    runtime.block_on(perform(&args.command))
}

/// Forgets the counters of a key.
///
/// # Errors
/// If the gateway does not answer or refuses.
pub fn reset(args: &ResetArgs) -> Result<String, Problem> {
    let gateway = args.gateway.find()?;
    let key = match args.key.strip_prefix('~') {
        Some(id) => format!("~{}", encoded(id)),
        None => encoded(&args.key),
    };
    let api_key = args.api_key.as_ref().map(|id| format!("?api_key={}", encoded(id)));
    let path = format!("{}/keys/{key}{}", path(&args.policy), api_key.unwrap_or_default());
    let runtime = local_runtime().map_err(Problem::Start)?;
    let answer = runtime.block_on(async { gateway.client.delete(&path).await });
    let answer = clean::document(answer.map_err(|error| gateway.problem(error))?);
    Ok(text::reset(&answer, &args.key))
}

async fn perform(command: &PolicyCommand) -> Result<Output, Problem> {
    match command {
        PolicyCommand::List { gateway, json } => {
            let gateway = gateway.find()?;
            let mut items = Vec::new();
            let mut after = String::new();
            loop {
                let path = format!("/v1/policies?limit=1000{after}");
                let mut page = gateway.client.get(&path).await.map_err(|it| gateway.problem(it))?;
                if let Value::Array(more) = page["items"].take() {
                    items.extend(more);
                }
                let Some(next) = page["next"].as_str() else { break };
                after = format!("&after={}", encoded(next));
            }
            let items = clean::document(Value::Array(items));
            let text = if *json { format!("{items:#}\n") } else { text::list(&items) };
            Ok(Output { text, is_json: *json, failure: None })
        }
        PolicyCommand::Show { policy, gateway, json } => {
            let Answer { document, .. } = look(&gateway.find()?, policy).await?;
            let text = if *json { format!("{document:#}\n") } else { text::show(&document) };
            Ok(Output { text, is_json: *json, failure: None })
        }
        PolicyCommand::Set { policy, limit, gateway: named, change } => {
            let gateway = named.find()?;
            let before = look(&gateway, policy).await?;
            let values = json!({ "limit": limit });
            let after = patch(&gateway, policy, &before, values, change).await?;
            let changing =
                Changing { policy, gateway: named.arguments(), is_persistent: change.persist };
            Ok(told(changing.set(&before.document, &after.document)))
        }
        PolicyCommand::Try { policy, limit, gateway: named, lasts, reason } => {
            let gateway = named.find()?;
            let before = look(&gateway, policy).await?;
            let body = json!({ "limit": limit, "for": lasts, "reason": reason });
            let path = format!("{}/candidate", path(policy));
            let after = change(&gateway, policy, Method::PUT, &path, Some(&body), &before).await?;
            let changing = Changing { policy, gateway: named.arguments(), is_persistent: false };
            Ok(told(changing.tried(&after.document)))
        }
        PolicyCommand::Apply { policy, gateway, change } => apply(gateway, policy, change).await,
        PolicyCommand::Undo { policy, trial, gateway } => undo(gateway, policy, *trial).await,
    }
}

/// Puts the limit that is tried in the place of that of the policy, and ends the trial.
async fn apply(named: &GatewayArgs, policy: &str, args: &ChangeArgs) -> Result<Output, Problem> {
    let gateway = &named.find()?;
    let before = look(gateway, policy).await?;
    let tried = &before.document["candidate"];
    let Some(limit) = tried["written"].as_str() else {
        return Err(Problem::NoTrial(policy.to_owned()));
    };
    if tried["algorithm"] != before.document["algorithm"] {
        let algorithm = tried["algorithm"].as_str().unwrap_or("?").to_owned();
        return Err(Problem::Algorithm { algorithm });
    }
    let mut values = json!({ "limit": limit });
    for name in ["burst", "plans"] {
        if !tried[name].is_null() {
            values[name] = tried[name].clone();
        }
    }
    let after = patch(gateway, policy, &before, values, args).await?;
    let changing = Changing { policy, gateway: named.arguments(), is_persistent: args.persist };
    let told = told(changing.set(&before.document, &after.document));
    // A trial whose limit was written into the file has ended with it.
    if after.document["candidate"].is_null() {
        return Ok(told);
    }
    let path = format!("{}/candidate", path(policy));
    let ended = change(gateway, policy, Method::DELETE, &path, None, &after).await;
    let goes_on = |error| Problem::TrialGoesOn { error: Box::new(error), end: changing.end() };
    Ok(Output { failure: ended.err().map(goes_on), ..told })
}

/// Removes the change of a policy, or else the limit that is tried beside it.
async fn undo(named: &GatewayArgs, policy: &str, is_trial: bool) -> Result<Output, Problem> {
    let gateway = &named.find()?;
    let before = match look(gateway, policy).await {
        // A change outlives its policy if the file of another node still has it.
        Err(Problem::Gateway(which::Problem::Call { error, .. })) if error.is_not_found() => {
            Answer { document: json!({ "patch": {} }), tag: Some("*".to_owned()) }
        }
        looked => looked?,
    };
    let is_ignored = before.document["ignored"].as_array().is_some_and(|it| !it.is_empty());
    let what = match (&before.document["patch"], &before.document["candidate"]) {
        (_, Value::Null) if is_trial => return Err(Problem::NoTrial(policy.to_owned())),
        (_, Value::Object(_)) if is_trial => "candidate",
        (Value::Null, Value::Null) if !is_ignored => {
            return Err(Problem::Unchanged(policy.to_owned()));
        }
        (Value::Null, Value::Object(_)) => "candidate",
        _ => "patch",
    };
    let path = format!("{}/{what}", path(policy));
    let after = change(gateway, policy, Method::DELETE, &path, None, &before).await?;
    let changing = Changing { policy, gateway: named.arguments(), is_persistent: false };
    Ok(told(changing.undone(what, &before.document, &after.document)))
}

/// The policy, with its entity tag.
async fn look(gateway: &Gateway, policy: &str) -> Result<Answer, Problem> {
    let answer = gateway.client.tagged(&path(policy)).await;
    let Answer { document, tag } = answer.map_err(|error| gateway.problem(error))?;
    Ok(Answer { document: clean::document(document), tag })
}

/// Gives a policy other values.
async fn patch(
    gateway: &Gateway,
    policy: &str,
    before: &Answer,
    mut values: Value,
    args: &ChangeArgs,
) -> Result<Answer, Problem> {
    values["reason"] = json!(args.reason);
    if let Some(lasts) = &args.lasts {
        values["for"] = json!(lasts);
    }
    if args.persist {
        values["persist"] = json!(true);
    }
    change(gateway, policy, Method::PATCH, &path(policy), Some(&values), before).await
}

/// Makes a call that changes a policy, if the policy is as it was seen.
async fn change(
    gateway: &Gateway,
    policy: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
    seen: &Answer,
) -> Result<Answer, Problem> {
    let tag = seen.tag.as_deref().unwrap_or("*");
    let answer = gateway.client.change(method, path, body, tag).await;
    let Answer { document, tag } = answer.map_err(|error| match error {
        AdminError::Answer { status, .. } if status == http::StatusCode::PRECONDITION_FAILED => {
            Problem::Changed(policy.to_owned())
        }
        other => gateway.problem(other).into(),
    })?;
    Ok(Answer { document: clean::document(document), tag })
}

fn told(text: String) -> Output {
    Output { text, is_json: false, failure: None }
}

fn path(policy: &str) -> String {
    format!("/v1/policies/{}", encoded(policy))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
