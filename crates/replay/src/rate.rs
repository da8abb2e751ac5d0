//! The limit of a policy as text.

use tollgate_core::policy::Policy;
use tollgate_core::time::Span;

/// The limit as the configuration writes it: `100/1m`, `20` if it has no window, or `unlimited`.
pub(super) fn limit_of(policy: &Policy) -> String {
    let algorithm = &policy.algorithm;
    match algorithm.window() {
        _ if policy.is_unlimited => "unlimited".to_owned(),
        Span::ZERO => algorithm.limit().to_string(),
        window => format!("{}/{window}", algorithm.limit()),
    }
}
