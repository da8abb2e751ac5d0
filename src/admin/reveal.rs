//! Whole keys, which are kept and shown only if `admin.reveal_keys` is true.

use http::StatusCode;
use serde_json::json;

use super::audit::Change;
use super::call::Call;
use super::cluster::is_cluster;
use super::node::View;
use super::problem::Problem;

/// Whether whole keys may be shown.
///
/// # Errors
/// 403, if the configuration does not allow it, and 400, if those of all nodes are asked for.
pub fn check(view: &View, call: &Call) -> Result<(), Problem> {
    if !view.settings.reveal_keys {
        let detail = "whole keys are not kept: admin.reveal_keys is not true in the file";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    if is_cluster(call) {
        let detail = "whole keys are not published to other nodes: ask each node, without \
                      scope=cluster";
        return Err(Problem::bad_request(detail));
    }
    Ok(())
}

/// What the audit log says of whole keys that are shown: this many.
pub fn shown(call: &Call, count: usize, key_id: Option<String>) -> Change {
    let policy = call.policy().map(str::to_owned);
    Change { policy, key_id, after: json!({ "whole_keys": count }), ..Change::default() }
}
