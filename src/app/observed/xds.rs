//! The stream to the server of the rate limit service, and what was loaded.

use crate::check::XdsCondition;
use crate::telemetry::{Samples, families};

/// Shows the stream, if there is one, and how many configurations were loaded, and failed to load:
/// `reloads` of this node, and responses of the server.
pub fn collect(xds: Option<&XdsCondition>, reloads: [u64; 2], samples: &mut Samples) {
    let seen = xds.map(XdsCondition::seen);
    let [taken, rejected] = seen.map_or([0; 2], |seen| [seen.taken, seen.rejected]);
    let [loaded, failed] = reloads;
    samples.set_whole(&families::RATE_LIMIT_CONFIG_SUCCESS, &[], loaded + taken);
    samples.set_whole(&families::RATE_LIMIT_CONFIG_ERROR, &[], failed + rejected);
    let (Some(xds), Some(seen)) = (xds, seen) else { return };
    let server = [xds.server()];
    samples.set_whole(&families::XDS_CONNECTED, &server, u64::from(seen.is_connected));
    if let Some(age) = seen.age {
        samples.set_whole(&families::XDS_AGE, &server, age.as_secs());
    }
    if let Some(was_taken) = seen.was_last_taken {
        samples.set_whole(&families::XDS_LAST_TAKEN, &server, u64::from(was_taken));
    }
}
