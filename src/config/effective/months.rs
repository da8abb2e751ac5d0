//! What a limit per month implies.

use serde_json::{Map, Value};
use tollgate_core::policy::spec::LimitSpec;

use crate::config::scalar::Allowance;

/// The fields that a policy with a limit per month has, although these `fields` lack them, with
/// their values. Empty for all other sections.
pub fn implied(fields: &Map<String, Value>, expanded: &Value) -> Vec<(&'static str, &'static str)> {
    // Only policies have both of these.
    let is_policy = fields.contains_key("key") && fields.contains_key("limit");
    if !is_policy || !is_monthly(expanded) {
        return Vec::new();
    }
    let implied = [("algorithm", "fixed_window"), ("calendar", "UTC")];
    implied.into_iter().filter(|(name, _)| !fields.contains_key(*name)).collect()
}

/// Whether the limit that decides the window of a policy is one of a month.
fn is_monthly(policy: &Value) -> bool {
    let limit = |value: &Value| value.as_str()?.parse::<Allowance>().ok()?.0;
    let of_plans = || policy["plans"]["limits"].as_object()?.values().find_map(limit);
    match limit(&policy["limit"]).or_else(of_plans) {
        Some(LimitSpec::Rate(quota)) => quota.is_monthly(),
        _ => false,
    }
}
