//! One row for each word of envoyproxy/ratelimit.

use crate::table::{Row, harmless, needless, read, severe};

/// The words of a file.
pub const FILE: &[Row] = &[read("domain"), read("descriptors")];

/// The words of a descriptor.
pub const DESCRIPTOR: &[Row] = &[
    read("key"),
    read("value"),
    read("rate_limit"),
    read("descriptors"),
    read("shadow_mode"),
    harmless("quota_mode", "see envoy.quota of envoy_config"),
    needless("detailed_metric", "see docs/metrics.md"),
    needless("value_to_metric", "see docs/metrics.md"),
    severe("share_threshold", "see envoy_config"),
    harmless("metadata", "see envoy.metadata of envoy_config"),
];

/// The words of a limit.
pub const RATE_LIMIT: &[Row] = &[
    read("unit"),
    read("requests_per_unit"),
    read("unlimited"),
    needless("name", "policies have names of their own"),
    severe("replaces", "see envoy_config"),
];
