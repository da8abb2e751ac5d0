//! The responses to requests that are not admitted: problem+json (RFC 9457), text, a page for
//! browsers, the form of a well-known API, an error of JSON-RPC, or the status of a gRPC call. The
//! gateway and the layer of the library write them with this module. Pure.

mod api;
pub mod grpc;
mod page;
mod problem;
mod rpc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Response};
use memchr::{memchr2_iter, memmem};

pub use self::api::{ApiForm, RETRY_FIELDS};
pub use self::problem::Problem;
pub use self::rpc::ToolErrors;

use self::grpc::Code;
use crate::policy::TokenFault;
use crate::request::Fields;

/// What the response to a request without a key says.
pub const NO_KEY: &str = "this route asks for a key that the request does not have";
/// What the response to a request says that no store judges.
pub const NOT_JUDGED: &str = "this request cannot be judged at the moment";

/// The formats that a service offers beside text and gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Text only.
    Text,
    /// `application/problem+json`.
    Problem,
    /// `application/problem+json`, and pages for browsers.
    ProblemAndPage,
}

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `application/problem+json`.
    Problem,
    /// `text/plain`.
    Text,
    /// `text/html`, for a person in front of a browser.
    Page,
    /// `application/json` in the form of an API.
    Api(ApiForm),
    /// `application/grpc`: the HTTP status is 200, and the gRPC status is a field.
    Grpc,
}

/// Whether a line of `Accept` names JSON, or all types among which it is.
fn accepts_json(types: &[u8]) -> bool {
    memchr2_iter(b'*', b'j', types).any(|at| {
        let (before, rest) = types.split_at(at);
        let is_range = rest[0] == b'*' && before.ends_with(b"application/");
        is_range || rest.starts_with(b"*/*") || rest.starts_with(b"json")
    })
}

/// Whether a line of `Accept` names JSON itself.
fn names_json(types: &[u8]) -> bool {
    memmem::find(types, b"json").is_some()
}

/// Whether a line of `Accept` is that of a browser that shows a page: Chromium, Firefox and Safari begin
/// it so. Programs that want HTML do not name XHTML.
fn is_of_browser(types: &[u8]) -> bool {
    types.starts_with(b"text/html,application/xhtml+xml")
}

impl ErrorFormat {
    /// The format for a request: gRPC for a gRPC call, else problem+json, unless the service offers
    /// text only, a browser is to show the response as a page, or the client accepts other types
    /// but not JSON.
    pub fn choose(offer: Offer, method: &Method, fields: Fields<'_>) -> Self {
        if grpc::is_call(method, fields) {
            return Self::Grpc;
        }
        Self::of_http(offer, fields)
    }

    /// The same for a request that is no gRPC call, or is not answered as one.
    pub fn of_http(offer: Offer, fields: Fields<'_>) -> Self {
        if offer == Offer::Text {
            return Self::Text;
        }
        let mut accepted = fields.get_all(&ACCEPT).map(HeaderValue::as_bytes).peekable();
        let mut takes_json = accepted.peek().is_none();
        let mut is_browser = false;
        for types in accepted {
            takes_json |= accepts_json(types);
            is_browser |= is_of_browser(types);
        }
        let is_page = is_browser
            && offer == Offer::ProblemAndPage
            && !fields.get_all(&ACCEPT).any(|it| names_json(it.as_bytes()));
        match (is_page, takes_json) {
            (true, _) => Self::Page,
            (false, true) => Self::Problem,
            (false, false) => Self::Text,
        }
    }

    /// The response about a problem. `code` is the status of a gRPC call. `table` gives the
    /// empty table for the fields of the response. A gRPC call does not need it.
    pub fn response(
        self,
        problem: &Problem<'_>,
        code: Code,
        table: impl FnOnce() -> HeaderMap,
    ) -> Response<Bytes> {
        let mut status = problem.status;
        let (content_type, body) = match self {
            Self::Problem => {
                (HeaderValue::from_static("application/problem+json"), problem.to_json())
            }
            Self::Text => (
                HeaderValue::from_static("text/plain; charset=utf-8"),
                format!("{}: {}\n", problem.title, problem.detail).into(),
            ),
            Self::Page => {
                (HeaderValue::from_static("text/html; charset=utf-8"), page::page(problem).into())
            }
            Self::Api(form) => {
                let (answered, body) = form.answer(problem);
                status = answered;
                (HeaderValue::from_static("application/json"), body)
            }
            Self::Grpc => {
                let message = format!("{}: {}", problem.title, problem.detail);
                return grpc::trailers_only(code, &message, problem.retry_after_ms);
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = table();
        if !response.body().is_empty() {
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        if self == Self::Page {
            let policy = HeaderValue::from_static(page::CONTENT_SECURITY_POLICY);
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        }
        if let Self::Api(form) = self {
            form.add_fields(problem, response.headers_mut());
        }
        response
    }
}

/// The challenge of a 401 (RFC 6750, section 3). It names an error only if there was a token.
pub fn challenge(realm: Option<&str>, fault: TokenFault) -> HeaderValue {
    let realm = realm.map(|realm| format!(" realm=\"{realm}\""));
    let error = match fault {
        TokenFault::Missing => None,
        TokenFault::Invalid | TokenFault::TooLong => Some(" error=\"invalid_token\"".to_owned()),
    };
    let parts: Vec<String> = realm.into_iter().chain(error).collect();
    HeaderValue::try_from(format!("Bearer{}", parts.join(",")))
        .expect("a realm is visible ASCII without quotes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_the_realm_and_the_error_of_a_token() {
        for (realm, fault, expected) in [
            (None, TokenFault::Missing, "Bearer"),
            (None, TokenFault::Invalid, "Bearer error=\"invalid_token\""),
            (Some("gateway"), TokenFault::Missing, "Bearer realm=\"gateway\""),
            (
                Some("gateway"),
                TokenFault::TooLong,
                "Bearer realm=\"gateway\", error=\"invalid_token\"",
            ),
        ] {
            assert_eq!(challenge(realm, fault), expected);
        }
    }
}
