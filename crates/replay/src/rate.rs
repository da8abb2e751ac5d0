//! The limit of a policy as text.

use tollgate_core::policy::Policy;

/// The limit as the configuration writes it: `100/1m`, `20` if it has no window, or `unlimited`.
pub(super) fn limit_of(policy: &Policy) -> String {
    if policy.is_unlimited { "unlimited".to_owned() } else { policy.algorithm.written() }
}
