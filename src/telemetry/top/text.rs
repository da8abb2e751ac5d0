//! What the lists tell of a client's key.

use tollgate_core::api_keys::KeyId;

use crate::telemetry::WholeKey;

/// The key of a client for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientText {
    /// Enough to recognise the client, and not enough to act as that client.
    pub shown: Box<str>,
    /// The plan whose limit it had used most of. None: the policy's own limit, or one of its own.
    pub plan: Option<Box<str>>,
    /// The API key of its request with the largest use. None: it had none, or it is not known.
    pub api_key: Option<KeyId>,
    /// The whole key. None: it is not kept.
    pub whole: Option<WholeKey>,
}

/// Without a plan, an API key and the whole key.
impl<T: Into<Box<str>>> From<T> for ClientText {
    fn from(shown: T) -> Self {
        Self { shown: shown.into(), plan: None, api_key: None, whole: None }
    }
}
