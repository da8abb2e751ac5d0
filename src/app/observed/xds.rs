//! The stream to the server of the rate limit service, and what was loaded.

use std::sync::Arc;

use crate::check::XdsCondition;
use crate::telemetry::{Samples, families};

/// The stream, if there is one, and the streams before it.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    current: Option<Arc<XdsCondition>>,
    /// How many responses those before it have taken, and rejected: a counter never falls.
    ended: [u64; 2],
}

impl Streams {
    /// The stream is this one now.
    pub fn set(&mut self, xds: Option<Arc<XdsCondition>>) {
        let both = self.current.as_ref().zip(xds.as_ref());
        if !both.is_some_and(|(old, new)| Arc::ptr_eq(old, new)) {
            self.ended = self.responses();
        }
        self.current = xds;
    }

    /// How many responses were taken, and rejected.
    fn responses(&self) -> [u64; 2] {
        let [taken, rejected] = self.ended;
        let seen = self.current.as_ref().map(|xds| xds.seen());
        seen.map_or(self.ended, |seen| [taken + seen.taken, rejected + seen.rejected])
    }

    /// Shows the stream, and how many configurations were loaded, and failed to load: `reloads` of
    /// this node, and responses of servers.
    pub fn collect(&self, reloads: [u64; 2], samples: &mut Samples) {
        let [taken, rejected] = self.responses();
        let [loaded, failed] = reloads;
        samples.set_whole(&families::RATE_LIMIT_CONFIG_SUCCESS, &[], loaded + taken);
        samples.set_whole(&families::RATE_LIMIT_CONFIG_ERROR, &[], failed + rejected);
        let Some(xds) = &self.current else { return };
        let seen = xds.seen();
        let server = [xds.server()];
        samples.set_whole(&families::XDS_CONNECTED, &server, u64::from(seen.is_connected));
        if let Some(age) = seen.age {
            samples.set_whole(&families::XDS_AGE, &server, age.as_secs());
        }
        if let Some(was_taken) = seen.was_last_taken {
            samples.set_whole(&families::XDS_LAST_TAKEN, &server, u64::from(was_taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the sum began again at 0 with another server.
    #[test]
    fn the_responses_of_all_streams_are_counted() {
        let [one, other] =
            ["one", "other"].map(|server| Arc::new(XdsCondition::new(server.to_owned())));
        let mut streams = Streams::default();
        streams.set(Some(Arc::clone(&one)));
        one.taken();
        one.taken();
        one.rejected();
        streams.set(Some(one));
        assert_eq!(streams.responses(), [2, 1]);
        streams.set(Some(Arc::clone(&other)));
        other.taken();
        assert_eq!(streams.responses(), [3, 1]);
        for _ in 0..2 {
            streams.set(None);
            assert_eq!(streams.responses(), [3, 1]);
        }
    }
}
