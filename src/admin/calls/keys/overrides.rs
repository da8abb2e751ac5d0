//! The limit of a single key.

use bytes::Bytes;
use serde_json::json;
use tokio::task::spawn_blocking;
use tollgate_core::algorithm::WindowText;
use tollgate_core::store::overrides::Override;

use super::forms::{NewLimit, ShownOverride};
use super::subject::Subject;
use crate::admin::answer::Answer;
use crate::admin::body::read_json;
use crate::admin::call::Call;
use crate::admin::calls::policies;
use crate::admin::node::{Node, View};
use crate::admin::problem::Problem;
use crate::engine::StoreCall;

/// The limit of a single key.
pub async fn show_override(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of_overridable(node, view, call).await?;
    Ok(Answer::json(&subject.with_limits()))
}

/// Sets the limit of a key alone.
pub async fn set_override(
    node: &Node,
    view: &View,
    call: &Call,
    body: Bytes,
) -> Result<Answer, Problem> {
    let new: NewLimit = read_json(&body)?;
    let subject = Subject::of_overridable(node, view, call).await?;
    let limit = (node.readers.limit)(&new.limit, &subject.policy).map_err(Problem::bad_request)?;
    if let Override::Limited { units, window } = limit {
        let counted = subject.policy.override_limit(units, window);
        counted.map_err(|error| {
            Problem::bad_request(format!("the policy cannot count this limit: {error}"))
        })?;
    }
    put(node, subject, Some(limit)).await
}

/// Removes the limit of a key alone.
pub async fn unset_override(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of_overridable(node, view, call).await?;
    put(node, subject, None).await
}

async fn put(
    node: &Node,
    mut subject: Subject,
    limit: Option<Override>,
) -> Result<Answer, Problem> {
    let Some(key) = subject.override_key() else {
        return Err(not_overridable(&subject.policy.name));
    };
    let before = subject.own.map(|limit| subject.written(limit));
    let after = limit.map(|limit| subject.written(limit));
    let change = subject.change(json!(before), json!(after));
    match node.overrides.clone() {
        Some(file) => {
            let done = spawn_blocking(move || file.put(key, limit)).await;
            done.map_err(|_| Problem::unavailable("the file of overrides cannot be written"))?
                .map_err(|error| Problem::unavailable(error.to_string()))?;
        }
        // Redis may have written it also if its answer is lost.
        None => node
            .ask(|reply| StoreCall::PutOverride(key, limit, reply))
            .await?
            .map_err(|error| Problem::unavailable(error).after(change.clone()))?,
    }
    subject.own = limit;
    Ok(Answer::changed(&subject.with_limits(), change))
}

impl Subject {
    async fn of_overridable(node: &Node, view: &View, call: &Call) -> Result<Self, Problem> {
        let named = policies::policy(view, call.value(0))?;
        if named.overrides.is_none() {
            return Err(not_overridable(&named.name));
        }
        Self::of(node, view, call).await?.knowing_own()
    }

    /// A limit of this key alone, as it can be set.
    fn written(&self, limit: Override) -> String {
        match (limit, self.policy.unit().denomination()) {
            (Override::Limited { units, window }, Some(money)) => {
                let window = window.map(|window| format!("/{}", WindowText(window)));
                format!("{}{}", money.shown(units), window.unwrap_or_default())
            }
            (limit, _) => limit.to_string(),
        }
    }

    fn with_limits(&self) -> ShownOverride {
        let misfit = match self.own {
            Some(Override::Limited { units, window }) => {
                self.policy.override_limit(units, window).err()
            }
            _ => None,
        };
        ShownOverride {
            key: self.about(),
            own: self.own.map(|limit| self.written(limit)),
            policy_limit: policies::limit(&self.policy),
            ignored_because: misfit.map(|error| format!("the policy cannot count it: {error}")),
        }
    }
}

fn not_overridable(policy: &str) -> Problem {
    Problem::conflict(format!(
        "the policy {policy:?} has no overrides; write overrides: true under it and start the \
         gateways again"
    ))
}
