//! The client that a call means: by its key as it is written, or by an id that was shown.

use tollgate_core::digest::Principal;
use tollgate_core::policy::Policy;

use crate::admin::node::{Node, View};
use crate::admin::problem::Problem;

/// The client with this key. `~` and an id stand for a client of a list or of a refusal.
///
/// # Errors
/// 400 if the text is no key of the policy, and 404 if the id is not known.
pub async fn principal(
    node: &Node,
    view: &View,
    policy: &Policy,
    text: &str,
) -> Result<Principal, Problem> {
    let Some(id) = text.strip_prefix('~').and_then(|id| id.parse().ok()) else {
        let principal = view.snapshot.rules.principal(&policy.key, text);
        return principal.map_err(|error| Problem::bad_request(error.to_string()));
    };
    let name = &*policy.name;
    if let Some(own) = node.top.principal(name, id).or_else(|| node.refusals.principal(name, id)) {
        return Ok(own);
    }
    node.cluster.principal(name, id).await.ok_or_else(|| {
        Problem::not_found(format!(
            "no list of the last ten minutes and no refusal of {name:?} that this node keeps has \
             the id {id}; ask the node that shows it, or write the key itself"
        ))
    })
}
