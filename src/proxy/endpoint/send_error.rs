//! The error of a request that has got no response.

use http::Request;

use crate::proxy::body::RequestBody;
use crate::proxy::fault::Fault;

/// A request has got no response.
#[derive(Debug)]
pub(in crate::proxy) struct SendError {
    pub(in crate::proxy) fault: Fault,
    /// The request, if it is still there. It has lost its body if a part was sent.
    pub(in crate::proxy) request: Option<Box<Request<RequestBody>>>,
    /// Whether no byte of it was sent.
    pub(in crate::proxy) is_unsent: bool,
}
