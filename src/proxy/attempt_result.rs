//! The result of one attempt: a response, or an error that says how far the request
//! came.

use http::{Extensions, HeaderName, HeaderValue, Method, Request, Response, Uri};
use hyper::body::Incoming;

use super::body::{BodyCopy, RequestBody};
use super::endpoint::Connection;
use super::fault::Fault;
use super::fields_copy::{BETWEEN_FIELDS, FieldsCopy};
use super::settings::RetryCause;

/// The response of an endpoint.
pub(super) struct EndpointResponse {
    pub(super) connection: Connection,
    pub(super) response: Response<Incoming>,
    /// The request, if it can be sent again.
    pub(super) copy: Option<RequestCopy>,
}

/// An attempt without a usable response.
pub(super) struct AttemptError {
    pub(super) fault: Fault,
    /// The request, if it can be sent again.
    pub(super) request: Option<Box<Request<RequestBody>>>,
    pub(super) reach: Reach,
    pub(super) is_idempotent: bool,
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// No byte of it was sent.
    Unsent,
    /// The endpoint says that it has not processed the request.
    Unprocessed,
    /// The connection ended without a response.
    Unanswered,
    /// There was a response, or it may still come.
    Answered,
}

impl Reach {
    pub(super) fn of(fault: Fault, is_unsent: bool) -> Self {
        match fault {
            _ if is_unsent => Self::Unsent,
            Fault::Unprocessed => Self::Unprocessed,
            Fault::Closed | Fault::ClosedWithOthers | Fault::Internal => Self::Unanswered,
            _ => Self::Answered,
        }
    }

    /// The cause by which a route may allow a retry; none if routes do not decide it.
    pub(super) fn cause(self) -> Option<RetryCause> {
        match self {
            Self::Unsent | Self::Unprocessed => Some(RetryCause::Connect),
            Self::Unanswered => Some(RetryCause::Reset),
            Self::Answered => None,
        }
    }
}

impl AttemptError {
    /// The status of the response is a cause for a retry, so the response was dropped.
    pub(super) fn dropped_response(request: Box<Request<RequestBody>>) -> Self {
        let (fault, reach) = (Fault::Closed, Reach::Answered);
        Self { fault, request: Some(request), reach, is_idempotent: true }
    }
}

/// What is needed to send a request again.
#[derive(Debug)]
pub(super) struct RequestCopy {
    method: Method,
    uri: Uri,
    headers: FieldsCopy,
    /// The callback for `100 Continue`, if the body waits for one.
    extensions: Extensions,
    body: BodyCopy,
}

impl RequestCopy {
    /// A copy, if the body can be sent again.
    pub(super) fn of(request: &Request<RequestBody>) -> Option<Self> {
        let extensions = request.body().expectation().map(|_| request.extensions().clone());
        Some(Self {
            body: request.body().copy()?,
            extensions: extensions.unwrap_or_default(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: FieldsCopy::of(request.headers()),
        })
    }

    /// See [`head_bytes`].
    pub(super) fn head_bytes(&self) -> usize {
        target_bytes(&self.uri) + self.headers.bytes()
    }

    /// The request again, if its body is still available.
    pub(super) fn request(&self) -> Option<Box<Request<RequestBody>>> {
        let mut request = Box::new(Request::new(self.body.body()?));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.fields();
        request.extensions_mut().clone_from(&self.extensions);
        Some(request)
    }
}

/// About the bytes of the head of a request in HTTP/1.1: its target and its fields.
pub(super) fn head_bytes(request: &Request<RequestBody>) -> usize {
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + BETWEEN_FIELDS
    };
    target_bytes(request.uri()) + request.headers().iter().map(field).sum::<usize>()
}

fn target_bytes(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |target| target.as_str().len())
}
