//! The error of a request that has got no response.

use http::Request;

use crate::proxy::body::RequestBody;
use crate::proxy::fault::Fault;

/// A request has got no response.
#[derive(Debug)]
pub struct SendError {
    pub fault: Fault,
    /// The request, if it is still there. It has lost its body if a part was sent.
    pub request: Option<Box<Request<RequestBody>>>,
    /// Whether no byte of it was sent.
    pub is_unsent: bool,
}
