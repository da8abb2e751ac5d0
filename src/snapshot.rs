//! What one request sees: everything that a reload replaces, in one piece.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use crate::decision::HeaderWriter;
use crate::message::{FieldEdits, Redirect, Rewrite};
use crate::proxy::{RetrySettings, RouteTimeouts, UpstreamShared};
use crate::routes::Rules;

/// What one request sees, and all workers share.
#[derive(Debug)]
pub struct Snapshot {
    /// Which route and which policies.
    pub rules: Rules,
    /// What becomes of the requests of each route, by the route's index.
    pub routes: Vec<Handling>,
    /// The upstreams by their index.
    pub upstreams: Vec<Arc<UpstreamShared>>,
    /// What clients are told about their limits.
    pub headers: HeaderWriter,
    /// Whether the gateway's own answers are problem+json or plain text.
    pub problem_json: bool,
}

/// What becomes of the requests of one route.
#[derive(Clone, Debug)]
pub struct Handling {
    /// What becomes of those that are admitted.
    pub action: Action,
    /// How long one may take.
    pub timeouts: RouteTimeouts,
    /// When a request is sent again; none: never.
    pub retries: Option<RetrySettings>,
    /// The largest request body in bytes; none: no bound.
    pub max_body_bytes: Option<u64>,
    /// What is changed in messages; boxed, as most routes change nothing.
    pub changes: Option<Box<Changes>>,
}

/// What a route changes in messages on their way.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The request's target.
    pub rewrite: Rewrite,
    /// The request's fields, as the upstream gets them: what the gateway itself
    /// says about the client can be replaced, too.
    pub request: FieldEdits,
    /// The response's fields, whoever answers. What clients are told about their
    /// limits and the request's id are written later, and so cannot be removed.
    pub response: FieldEdits,
}

/// What becomes of an admitted request.
#[derive(Clone, Debug)]
pub enum Action {
    /// It is forwarded to the upstream with this index.
    Forward(usize),
    /// It is answered here.
    Respond(FixedResponse),
    /// It is led elsewhere.
    Redirect(Redirect),
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

impl FixedResponse {
    /// The response.
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, self.content_type.clone());
        response
    }
}
