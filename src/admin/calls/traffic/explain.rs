//! What a request would get now, and why.

use bytes::Bytes;

use crate::admin::answer::Answer;
use crate::admin::body::read_json;
use crate::admin::node::{Node, View};
use crate::admin::problem::Problem;
use crate::engine::{Description, StoreCall};

/// Explains the request that the body describes. A worker does it, by its own counters.
///
/// # Errors
/// 400, if the body describes no request, and 503, if no worker answers.
pub async fn explain(node: &Node, view: &View, body: Bytes) -> Result<Answer, Problem> {
    let description: Description = read_json(&body)?;
    let asked = description.into_asked().map_err(|it| Problem::bad_request(it.to_string()))?;
    let mut explanation = node.ask(|reply| StoreCall::Explain(Box::new(asked), reply)).await?;
    explanation.generation = Some(view.generation);
    Ok(Answer::json(&explanation))
}
