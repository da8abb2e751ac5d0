//! What is asked of servers.

use std::time::Duration;

/// What a probe asks.
#[derive(Clone, Copy, Debug)]
pub struct ProbeScope {
    /// The longest time of the questions to one server. It is half of it more if the server does
    /// not answer.
    pub limit: Duration,
    /// Whether the servers have API keys, too, for which operators need further commands.
    pub with_api_keys: bool,
}
