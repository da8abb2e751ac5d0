//! The fallback of a route: a second upstream for requests whose first one fails.
//!
//! A request goes to the fallback once, after its last attempt at the first upstream, and only if
//! it may be sent again: no byte of it was sent, or its method is idempotent or among those that
//! the route retries, and its body is still there. A request that was sent takes from the retry
//! budget of the first upstream, as its retries do.

use std::cell::RefCell;

use http::{Request, StatusCode};

use super::body::RequestBody;

/// When a request goes to a second upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackSettings {
    /// The index of the second upstream.
    pub upstream: usize,
    /// The causes.
    pub on: Vec<FallbackCause>,
}

/// Why a request goes to a second upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackCause {
    /// No connection to an endpoint could be opened.
    Connect,
    /// The connection ended before a response came.
    Reset,
    /// The response had this status.
    Status(StatusCode),
}

impl FallbackCause {
    /// Its name in the configuration and in metrics.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::Status(status) => status.as_str(),
        }
    }
}

/// The fallback of one request.
#[derive(Debug)]
pub struct Fallback<'s> {
    settings: &'s FallbackSettings,
    left: RefCell<Option<Left>>,
}

/// A request that its first upstream has failed.
#[derive(Debug)]
pub struct Left {
    pub request: Box<Request<RequestBody>>,
    /// Whether the fields about the client are among its fields.
    pub names_client: bool,
}

impl<'s> Fallback<'s> {
    /// The fallback of a request that was not left to it yet.
    pub fn new(settings: &'s FallbackSettings) -> Self {
        Self { settings, left: RefCell::default() }
    }

    /// Whether the route names this cause.
    pub fn covers(&self, cause: FallbackCause) -> bool {
        self.settings.on.contains(&cause)
    }

    /// Leaves a request to the second upstream.
    pub fn leave(&self, request: Box<Request<RequestBody>>, names_client: bool) {
        self.left.replace(Some(Left { request, names_client }));
    }

    /// The request, if it was left.
    pub fn take(&self) -> Option<Left> {
        self.left.take()
    }
}
