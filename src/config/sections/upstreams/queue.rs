//! `max_connections` and `queue` of an upstream: how many connections there are to an endpoint, and
//! which requests wait for one.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::time::Span;

use crate::config::field::Field;
use crate::config::scalar::Period;
use crate::config::sections::context::Context;
use crate::proxy::ConnectionSettings;

/// One address does not have more ports for connections to one endpoint.
pub const MAX_CONNECTIONS: u64 = 65_535;
/// Each request that waits holds a connection of its client.
const LENGTH: RangeInclusive<u64> = 1..=65_535;
const TIMEOUT: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(600);

const DEFAULT_LENGTH: usize = 1000;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// Requests that wait for a connection to an endpoint. Clients take turns.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "queue", default)]
#[schemars(deny_unknown_fields)]
pub struct RawQueue {
    /// The most requests that wait at once. Further requests get 503.
    #[schemars(extend("default" = 1000))]
    #[schemars(example = 200)]
    #[schemars(range(min = *LENGTH.start(), max = *LENGTH.end()))]
    length: Field<u64>,
    /// The longest time that a request waits. Then it gets 503.
    #[schemars(extend("default" = "1s"))]
    #[schemars(example = &"5s")]
    timeout: Field<Period>,
}

/// The bound of the connections to an upstream with this number of endpoints and this bound of
/// requests in progress.
pub fn compile(
    max: &Field<u64>,
    queue: &Field<RawQueue>,
    endpoints: usize,
    max_in_flight: Option<usize>,
    cx: &Context<'_>,
) -> Option<ConnectionSettings> {
    let written = queue.given();
    if let Some(written) = written.filter(|_| max.is_absent()) {
        let message = "\"queue\" needs \"max_connections\": without it, no request waits";
        cx.error(written.span, message, "like max_connections: 100");
    }
    let queue = queue.value();
    let length = queue.and_then(|it| cx.number(&it.length, "length", LENGTH));
    let timeout = queue.and_then(|it| cx.duration(&it.timeout, "timeout", TIMEOUT));
    let max: usize = cx.number(max, "max_connections", 1..=MAX_CONNECTIONS)?;
    if let (Some(written), Some(most)) = (written, max_in_flight)
        && most <= max.saturating_mul(endpoints)
    {
        let message = "no request waits in this queue: \"max_in_flight\" admits no more requests \
                       than \"max_connections\" allows connections";
        cx.warning(written.span, message, "raise max_in_flight, or leave out the queue");
    }
    Some(ConnectionSettings {
        max,
        queue_length: length.unwrap_or(DEFAULT_LENGTH),
        queue_timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from),
    })
}
