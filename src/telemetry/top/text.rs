//! What the lists tell of a client's key.

use crate::telemetry::WholeKey;

/// The key of a client for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientText {
    /// Enough to recognise the client, and not enough to act as that client.
    pub shown: Box<str>,
    /// The plan whose limit it had used most of. None: the policy's own limit, or one of its own.
    pub plan: Option<Box<str>>,
    /// The whole key. None: it is not kept.
    pub whole: Option<WholeKey>,
}

/// Without a plan and the whole key.
impl<T: Into<Box<str>>> From<T> for ClientText {
    fn from(shown: T) -> Self {
        Self { shown: shown.into(), plan: None, whole: None }
    }
}
