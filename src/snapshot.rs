//! What one request sees: everything that a reload replaces, in one piece.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::proxy::RouteTimeouts;
use crate::rules;

/// A route: which requests, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Route {
    /// Which requests, and by which policies they are judged.
    pub rule: rules::Route,
    /// What becomes of those that are admitted.
    pub action: Action,
    /// How long the upstream may take.
    pub timeouts: RouteTimeouts,
    /// The largest request body in bytes; none: no bound.
    pub max_body_bytes: Option<u64>,
}

/// What becomes of an admitted request.
#[derive(Clone, Debug)]
pub enum Action {
    /// It is forwarded to the upstream with this index.
    Forward(usize),
    /// It is answered here.
    Respond(FixedResponse),
}

/// A response that never changes.
#[derive(Clone, Debug)]
pub struct FixedResponse {
    /// Its status.
    pub status: StatusCode,
    /// `Content-Type` of the body.
    pub content_type: HeaderValue,
    /// The body.
    pub body: Bytes,
}
