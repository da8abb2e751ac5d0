//! The result of one attempt: a response, or an error that says how far the request
//! came.

use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};

use super::body::{BodyCopy, RequestBody};
use super::endpoint::Connection;
use super::fault::Fault;
use super::fields_copy::{BETWEEN_FIELDS, FieldsCopy};
use super::settings::RetryCause;

/// The response of an endpoint.
pub struct EndpointResponse {
    pub connection: Connection,
    pub response: Response<()>,
    /// The request, if it can be sent again.
    pub copy: Option<RequestCopy>,
}

/// An attempt without a usable response.
pub struct AttemptError {
    pub fault: Fault,
    /// The request, if it can be sent again.
    pub request: Option<Box<Request<RequestBody>>>,
    pub reach: Reach,
    pub is_idempotent: bool,
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
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
    pub fn of(fault: Fault, is_unsent: bool) -> Self {
        match fault {
            _ if is_unsent => Self::Unsent,
            Fault::Unprocessed => Self::Unprocessed,
            Fault::Closed | Fault::ClosedWithOthers | Fault::Internal => Self::Unanswered,
            _ => Self::Answered,
        }
    }

    /// The cause by which a route may allow a retry; none if routes do not decide it.
    pub fn cause(self) -> Option<RetryCause> {
        match self {
            Self::Unsent | Self::Unprocessed => Some(RetryCause::Connect),
            Self::Unanswered => Some(RetryCause::Reset),
            Self::Answered => None,
        }
    }
}

impl AttemptError {
    /// Whether the endpoint may process the request.
    pub fn may_be_processed(&self) -> bool {
        match self.reach {
            Reach::Unsent | Reach::Unprocessed => false,
            Reach::Unanswered | Reach::Answered => self.fault != Fault::Unsendable,
        }
    }

    /// The status of the response is a cause for a retry, so the response was dropped.
    pub fn dropped_response(request: Box<Request<RequestBody>>) -> Self {
        let fault = Fault::Closed;
        let reach = Reach::Answered;
        Self { fault, request: Some(request), reach, is_idempotent: true }
    }
}

/// What is needed to send a request again.
#[derive(Debug)]
pub struct RequestCopy {
    pub head: HeadCopy,
    pub body: BodyCopy,
}

impl RequestCopy {
    /// Whether the request can be sent again: its body is still available.
    pub fn is_whole(&self) -> bool {
        self.body.is_whole()
    }

    /// The request again, if its body is still available.
    pub fn into_request(self) -> Option<Box<Request<RequestBody>>> {
        let body = self.body.body()?;
        Some(match self.head {
            HeadCopy::Kept(mut request) => {
                *request.body_mut() = body;
                request
            }
            HeadCopy::Copied(copied) => {
                let Copied { method, uri, headers } = *copied;
                let mut request = Box::new(Request::new(body));
                (*request.method_mut(), *request.uri_mut()) = (method, uri);
                *request.headers_mut() = headers.fields();
                request
            }
        })
    }
}

/// The head of a request that was sent.
#[derive(Debug)]
pub enum HeadCopy {
    /// The request, which has lost its body.
    Kept(Box<Request<RequestBody>>),
    /// A copy. Boxed, so that requests over HTTP/1 reserve no memory for it.
    Copied(Box<Copied>),
}

/// A copy of the head of a request.
#[derive(Debug)]
pub struct Copied {
    method: Method,
    uri: Uri,
    headers: FieldsCopy,
}

impl HeadCopy {
    /// A copy of the head of `request`.
    pub fn of(request: &Request<RequestBody>) -> Self {
        let headers = FieldsCopy::of(request.headers());
        let method = request.method().clone();
        let uri = request.uri().clone();
        Self::Copied(Box::new(Copied { method, uri, headers }))
    }

    /// About its bytes in HTTP/1.1: its target and its fields.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Kept(request) => {
                let field = |(name, value): (&HeaderName, &HeaderValue)| {
                    name.as_str().len() + value.len() + BETWEEN_FIELDS
                };
                target_bytes(request.uri()) + request.headers().iter().map(field).sum::<usize>()
            }
            Self::Copied(copied) => target_bytes(&copied.uri) + copied.headers.bytes(),
        }
    }
}

fn target_bytes(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |target| target.as_str().len())
}
