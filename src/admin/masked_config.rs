//! A configuration without its secrets.

use std::sync::Arc;

use serde_json::Value;

/// A configuration without its secrets, which can be compared with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaskedConfig {
    /// As it is written.
    pub written: Arc<Value>,
    /// The same with keyed digests in the places of secrets.
    pub identity: Arc<Value>,
    /// A keyed digest of `identity`: it changes with every secret. Each process has its own key.
    pub keyed_digest: String,
}
