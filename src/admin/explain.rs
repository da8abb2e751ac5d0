//! What a request would get now, and why.

use serde_json::json;

use super::answer::Answer;
use super::node::{Node, View};
use super::problem::Problem;
use crate::engine::{Description, StoreCall};

/// Explains the request that the body describes. A worker does it, by its own counters.
///
/// # Errors
/// 400, if the body describes no request, and 503, if no worker answers.
pub(super) async fn explain(node: &Node, view: &View, body: &[u8]) -> Result<Answer, Problem> {
    let description: Description = serde_json::from_slice(body).map_err(|error| {
        Problem::bad_request(format!("the body describes no request to explain: {error}"))
    })?;
    let asked = description.into_asked().map_err(|it| Problem::bad_request(it.to_string()))?;
    let mut explanation = node.ask(|reply| StoreCall::Explain(Box::new(asked), reply)).await?;
    explanation.generation = Some(view.generation);
    Ok(Answer::json(&json!(explanation)))
}
