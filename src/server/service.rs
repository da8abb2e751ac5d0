//! What the server needs from the service that answers requests.

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower::Service;

use super::state::ClientBody;

/// A service that answers the requests of one connection. Implemented for every `tower`
/// service of this form.
///
/// It must be ready at any time: it is called without `poll_ready`, so that no request waits
/// outside of it. A service that has too much to do answers that.
pub trait RequestService:
    Service<
        Request<ClientBody>,
        Response = Response<<Self as RequestService>::Body>,
        Error = Infallible,
    > + Clone
    + 'static
{
    /// The body of its responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + 'static;
}

impl<S, B> RequestService for S
where
    S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + 'static,
{
    type Body = B;
}
