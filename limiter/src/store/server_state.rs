//! What is known of a server of a store, for metrics.

/// A server of the store, as one worker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Its address.
    pub server: String,
    /// Whether the worker does not ask it, because it has failed repeatedly.
    pub is_breaker_open: bool,
    /// Batches of calls with a reply, over the present connections.
    pub answered: u64,
    /// Batches of calls that failed, over the present connections.
    pub failed: u64,
}
