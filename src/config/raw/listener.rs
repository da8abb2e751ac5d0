//! `listeners`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::Field;
use crate::config::scalar::{ListenAddress, Period, Size};

/// An address to listen on, and the bounds of its connections.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "listener")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawListener {
    /// IP address and port; the same may appear once.
    pub(in crate::config) address: Field<ListenAddress>,
    /// Connections open at once. Default: 10000.
    #[serde(default)]
    pub(in crate::config) max_connections: Field<u64>,
    /// How long a client may take.
    #[serde(default)]
    pub(in crate::config) timeouts: Field<RawListenerTimeouts>,
    /// Request line and header fields together. Default: 32KiB.
    #[serde(default)]
    pub(in crate::config) max_head_size: Field<Size>,
    /// The target in the request line. Default and at most: 65534.
    #[serde(default)]
    pub(in crate::config) max_target_size: Field<Size>,
    /// Header fields of one request. Default: 100.
    #[serde(default)]
    pub(in crate::config) max_headers: Field<u64>,
}

/// How long a client may take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "listener timeouts")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawListenerTimeouts {
    /// For the head of a request. Default: 10s.
    #[serde(default)]
    pub(in crate::config) request_head: Field<Period>,
    /// Between two pieces of a body. Default: 60s.
    #[serde(default)]
    pub(in crate::config) request_body: Field<Period>,
    /// Between a response and the next request. Default: 75s.
    #[serde(default)]
    pub(in crate::config) keep_alive: Field<Period>,
}
