//! What is wrong with the server that gives the limits of the rate limit service.

use super::rule::{Bound, Rule};

/// There is no connection to the server.
pub const XDS_AWAY: Rule = Rule {
    code: "xds_away",
    alert: Some("TollgateXdsAway"),
    over: None,
    bound: Bound::Equals(0.0),
    values: |it| it.window.gauges.xds_connected.clone(),
    text: |_, server, _| {
        format!(
            "there is no connection to the xDS server {server}: the limits stay as they were, or \
             calls fail if it has not told any"
        )
    },
    advice: "the log has the cause; the node connects again by itself",
};

/// The last response of the server has mistakes.
pub const XDS_REJECTED: Rule = Rule {
    code: "xds_rejected",
    alert: Some("TollgateXdsRejected"),
    over: None,
    bound: Bound::Equals(0.0),
    values: |it| it.window.gauges.xds_last_taken.clone(),
    text: |_, server, _| {
        format!("the limits of the xDS server {server} have mistakes: the limits before stay")
    },
    advice: "the log has the mistakes, and the server was told them: correct its configuration",
};
