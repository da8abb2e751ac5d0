//! Requests that a route hands over to another one.

use std::sync::Arc;

use super::{Decision, Outcome};
use crate::policy::Policy;
use crate::routes::Overflow;

impl Overflow {
    /// The index of the route that judges the request once more. None: it is not refused, or not by
    /// the policies of the overflow alone.
    pub fn route_after(&self, decision: &Decision<&Arc<Policy>>) -> Option<usize> {
        let is_refused = matches!(decision.outcome, Outcome::Refuse(_));
        let mut refusing = decision.reports.iter().filter(|it| it.refuses());
        (is_refused && refusing.all(|it| self.has(it.policy))).then_some(self.route)
    }
}
