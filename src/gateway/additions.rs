//! What is remembered of few requests until they have a response.

use http::HeaderValue;
use tokio::time::Instant;
use tollgate_core::policy::BodyContent;

/// What few responses need besides what all of them have.
#[derive(Debug, Default)]
pub struct Additions {
    /// The origin whose scripts may read it.
    pub allowed_origin: Option<HeaderValue>,
    /// Cookies that an authorizer gives the client.
    pub cookies: Vec<HeaderValue>,
    /// By when the response must come, if its time has begun before the request is dispatched.
    pub deadline: Option<Instant>,
    /// What is in the body of the request, if it was read.
    pub content: Option<BodyContent>,
    /// What was done to the body so that the answer states its tokens.
    pub asked: Option<Asked>,
}

/// What was done to the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How many bytes longer it is now.
    pub added: i64,
}
