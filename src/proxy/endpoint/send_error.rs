//! The error of a request that has got no response.

use http::Request;

use crate::proxy::body::RequestBody;

/// A request has got no response.
#[derive(Debug)]
pub(in crate::proxy) struct SendError {
    pub(in crate::proxy) error: hyper::Error,
    /// The request, if no byte of it was sent.
    pub(in crate::proxy) request: Option<Box<Request<RequestBody>>>,
}
