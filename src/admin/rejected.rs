//! The answers about changes of policies that are not made.

use http::StatusCode;
use serde_json::json;

use super::problem::Problem;
use crate::patches::Rejected;

/// The answer about a change that is not made.
pub(super) fn problem(rejected: Rejected, policy: &str) -> Problem {
    match rejected {
        Rejected::UnknownPolicy => Problem::not_found(format!("there is no policy {policy:?}")),
        Rejected::Nothing => Problem::not_found("there is none that could be removed"),
        Rejected::Stale => {
            let detail = "the policy or its changes are not those of If-Match any more; look at \
                          the policy again";
            Problem::new(StatusCode::PRECONDITION_FAILED, detail)
        }
        Rejected::Invalid(mistakes) => {
            let errors = mistakes.iter().map(|it| json!(it)).collect();
            let first = mistakes.first().map_or("the change has mistakes", |it| &*it.message);
            Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, first) }
        }
        Rejected::Full(why) => Problem::conflict(why),
        Rejected::Away(why) => Problem::unavailable(format!(
            "{why}; the changes that are known stay in force, and this one may have been made"
        )),
    }
}
