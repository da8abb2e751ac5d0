//! Requests that a route hands over to another one.

use std::sync::Arc;

use super::{Decision, Outcome};
use crate::policy::Policy;
use crate::routes::Overflow;

impl Overflow {
    /// Whether only its policies refuse the request.
    pub fn takes(&self, decision: &Decision<&Arc<Policy>>) -> bool {
        matches!(decision.outcome, Outcome::Refuse(_))
            && decision.reports.iter().filter(|it| it.refuses()).all(|it| self.has(it.policy))
    }
}
