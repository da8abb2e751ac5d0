//! The answers about changes of policies that are not made.

use http::StatusCode;

use super::audit::Change;
use super::problem::Problem;
use crate::patches::{Done, Rejected};

/// The answer about a change that is not made, or may have been. `change` is the change for the audit
/// log.
pub fn problem(rejected: Rejected, policy: &str, change: impl FnOnce(Done) -> Change) -> Problem {
    match rejected {
        Rejected::UnknownPolicy => Problem::not_found(format!("there is no policy {policy:?}")),
        Rejected::UnknownList => Problem::not_found(format!("there is no access list {policy:?}")),
        Rejected::Nothing => Problem::not_found("there is none that could be removed"),
        Rejected::Stale => {
            let detail = "its definition or its changes are not those of If-Match any more; look \
                          at it again";
            Problem::new(StatusCode::PRECONDITION_FAILED, detail)
        }
        Rejected::Invalid(mistakes) => {
            let first = mistakes.first().map(|it| it.message.clone());
            let first = first.unwrap_or_else(|| "the change has mistakes".to_owned());
            let errors = mistakes.into_iter().map(Into::into).collect();
            Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, first) }
        }
        Rejected::Full(why) => Problem::conflict(why),
        Rejected::Away(why) => Problem::unavailable(format!(
            "{why}; the changes that are known stay in force, and this one is not made"
        )),
        Rejected::Unanswered(why, sent) => Problem::unavailable(format!(
            "{why}; the changes that are known stay in force, and this one may have been made"
        ))
        .after(change(*sent)),
    }
}
