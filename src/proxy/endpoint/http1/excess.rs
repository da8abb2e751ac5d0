//! Bytes that an endpoint sends behind its responses.
//!
//! Such bytes would be taken for the response to the next request on the connection, which may be
//! of another client. An endpoint that was seen to send them may do so again, a moment later than
//! its response.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::telemetry::{UpstreamTraffic, Warnings};

/// How long an endpoint that has sent such bytes is suspected of sending more.
const SUSPICION: Duration = Duration::from_secs(60);

/// What is known of the bytes that one endpoint sends behind its responses.
#[derive(Debug)]
pub struct Excess {
    upstream: Box<str>,
    address: Box<str>,
    traffic: UpstreamTraffic,
    suspected_until: Cell<Option<Instant>>,
    warnings: Warnings,
}

impl Excess {
    /// For the endpoint at this address of an upstream.
    pub fn new(upstream: &str, address: &str, traffic: &UpstreamTraffic) -> Self {
        let upstream = upstream.into();
        let address = address.into();
        let traffic = traffic.clone();
        let suspected_until = Cell::new(None);
        let warnings = Warnings::default();
        Self { upstream, address, traffic, suspected_until, warnings }
    }

    /// Such bytes were found at `now`, and their connection is closed. The log does not warn of each
    /// connection, because clients can cause many: the metric counts them.
    pub fn found(&self, now: Instant) {
        self.suspected_until.set(Some(now + SUSPICION));
        self.traffic.excess();
        if self.warnings.is_due(now) {
            warn!(
                upstream = %self.upstream,
                address = %self.address,
                "an endpoint has sent bytes behind the end of a response, which another client \
                 could have got as its response: mend the endpoint (a body after HEAD, 204 or 304, \
                 or more bytes than Content-Length says); its connections wait a second between \
                 two requests"
            );
        }
    }

    /// Whether the endpoint may send further such bytes, at `now`.
    pub fn is_suspected(&self, now: Instant) -> bool {
        self.suspected_until.get().is_some_and(|until| now < until)
    }
}
