//! Questions to an authorizer over HTTP or gRPC, and its answers: what is asked about a request,
//! what is taken from the answer, and for which questions an answer is used. Pure.

mod answer;
mod check;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod kept;
mod question;
mod reuse;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::uri::PathAndQuery;

pub use answer::{Answered, Taken};
pub use check::{CheckFault, Checked, PATH as CHECK_PATH, check_request, checked};
pub use kept::{KeptAnswers, MAX_KEPT_BYTES};
pub use question::{ORIGINAL_FIELDS, Origin, Question, QuestionKey, question};
pub use reuse::Reuse;

/// A server that is asked whether a request may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizerSettings {
    /// Its name.
    pub name: Arc<str>,
    /// The index of its upstream.
    pub upstream: usize,
    /// The target of a question: as written over HTTP, and [`CHECK_PATH`] over gRPC.
    pub target: PathAndQuery,
    /// Whether it is asked over gRPC.
    pub is_grpc: bool,
    /// The fields of a request that a question contains. None: all end-to-end fields.
    pub send: Option<Vec<HeaderName>>,
    /// The fields of an answer that the request gets.
    pub take: Vec<HeaderName>,
    /// The longest time until a whole answer.
    pub timeout: Duration,
    /// Whether requests pass if there is no answer.
    pub allows_on_failure: bool,
    /// The most bytes of the body of an answer.
    pub max_response_bytes: usize,
    /// Which answers are kept. None: none.
    pub cache: Option<AnswerCacheSettings>,
}

impl AuthorizerSettings {
    /// The names of fields that only the gateway and the authorizer write.
    pub fn guarded_names(&self) -> impl Iterator<Item = HeaderName> {
        self.take.iter().chain(&ORIGINAL_FIELDS).cloned()
    }
}

/// Which answers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerCacheSettings {
    /// The longest time for which an answer holds.
    pub time: Duration,
    /// The most answers that are kept.
    pub max: usize,
    /// The parts of the request, besides the fields that are sent, for which an answer holds.
    pub by: Vec<AnswerPart>,
}

/// A part of a request for which an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPart {
    /// The method.
    Method,
    /// The host.
    Host,
    /// The path and the query.
    Target,
}
