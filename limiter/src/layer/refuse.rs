//! The responses to requests that are not admitted.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use tollgate_core::algorithm::Retry;
use tollgate_core::decision;
use tollgate_core::policy::TokenFault;
use tollgate_core::refusal::grpc::Code;
use tollgate_core::refusal::{ErrorFormat, NO_KEY, NOT_JUDGED, Offer, Problem, challenge};
use tollgate_core::request::Fields;

use crate::library::{Decision, Missing, Outcome};

/// Makes the response to a request that is not admitted. The layer adds the fields about limits.
///
/// A function of the same form is one, see [`RateLimitLayer::refuse`](crate::RateLimitLayer::refuse).
///
/// ```
/// use bytes::Bytes;
/// use http::request::Parts;
/// use http::{Response, StatusCode};
/// use tollgate_limiter::{Decision, Outcome, Refuse};
///
/// #[derive(Clone)]
/// struct Short;
///
/// impl Refuse for Short {
///     fn refuse(&self, _head: &Parts, decision: &Decision) -> Response<Bytes> {
///         let mut response = Response::new(Bytes::new());
///         *response.status_mut() = match decision.outcome() {
///             Outcome::Refuse { .. } => StatusCode::TOO_MANY_REQUESTS,
///             _ => StatusCode::SERVICE_UNAVAILABLE,
///         };
///         response
///     }
/// }
/// ```
pub trait Refuse: Clone {
    /// The response to the request with this head. For an example see [`Refuse`].
    fn refuse(&self, head: &Parts, decision: &Decision) -> Response<Bytes>;
}

impl<F> Refuse for F
where
    F: Fn(&Parts, &Decision) -> Response<Bytes> + Clone,
{
    fn refuse(&self, head: &Parts, decision: &Decision) -> Response<Bytes> {
        self(head, decision)
    }
}

/// Refuses requests as a gateway does: with `application/problem+json` (RFC 9457), with text for
/// clients that do not accept JSON, and trailers-only for calls of gRPC.
///
/// | outcome | status | gRPC |
/// |---|---|---|
/// | beyond a limit | 429 | 8 |
/// | not available | 503 | 14 |
/// | no key, a limit of its key that cannot be counted, or a model without a price | 403 | 7 |
/// | no valid token | 401 | 16 |
/// | can be read in two ways | 400 | 13 |
/// | the address of the peer is not known | 500 | 13 |
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Policy, RateLimitLayer, Refusal};
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
/// let layer = RateLimitLayer::new(&limiter, [limiter.policy("p")?]).refuse(Refusal::default());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Refusal {}

impl Refuse for Refusal {
    fn refuse(&self, head: &Parts, decision: &Decision) -> Response<Bytes> {
        let fields = Fields::of(&head.headers);
        let format = ErrorFormat::choose(Offer::Problem, &head.method, fields);
        let policies = violated(decision);
        let (problem, code) = problem(decision, &policies);
        let mut response = format.response(&problem, code, HeaderMap::new);
        if let Some(fault) = token_fault(decision) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge(None, fault));
        }
        response
    }
}

/// What the response says, and the status of a gRPC call. `policies` refuse the request.
fn problem<'a>(decision: &Decision, policies: &'a [&'a str]) -> (Problem<'a>, Code) {
    let (status, source, detail, code): (_, _, Cow<'static, str>, _) =
        match (decision.outcome(), decision.missing()) {
            (Outcome::Refuse { .. }, _) => {
                let wait = match decision.judged().outcome {
                    decision::Outcome::Refuse(Retry::After(wait)) => Some(wait),
                    _ => None,
                };
                let problem = Problem::beyond_a_limit(policies, wait, None);
                return (problem, Code::ResourceExhausted);
            }
            (Outcome::KeyMissing, Some(Missing::Peer)) => {
                let detail = "the address of the client is not known".into();
                (StatusCode::INTERNAL_SERVER_ERROR, "gateway", detail, Code::Internal)
            }
            (Outcome::KeyMissing, Some(Missing::Ambiguous)) => {
                let detail = "the request can be read in two ways".into();
                (StatusCode::BAD_REQUEST, "client", detail, Code::Internal)
            }
            (Outcome::KeyMissing, Some(Missing::UnfitLimit)) => {
                let detail = "the limit of this API key cannot be counted: its operator must \
                              correct it";
                (StatusCode::FORBIDDEN, "client", detail.into(), Code::PermissionDenied)
            }
            (Outcome::KeyMissing, Some(Missing::UnpricedModel)) => {
                let detail = "the model of this request has no price here".into();
                (StatusCode::FORBIDDEN, "client", detail, Code::PermissionDenied)
            }
            (Outcome::KeyMissing, _) => match token_fault(decision) {
                Some(fault) => {
                    let detail = fault.to_string().into();
                    (StatusCode::UNAUTHORIZED, "client", detail, Code::Unauthenticated)
                }
                None => (StatusCode::FORBIDDEN, "client", NO_KEY.into(), Code::PermissionDenied),
            },
            (Outcome::Unavailable | Outcome::Admit { .. }, _) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                (status, "gateway", NOT_JUDGED.into(), Code::Unavailable)
            }
        };
    (Problem::of_status(status, source, detail, None), code)
}

/// The fault of the bearer token, if only a token is missing.
fn token_fault(decision: &Decision) -> Option<TokenFault> {
    match decision.missing()? {
        Missing::Token => Some(TokenFault::Missing),
        Missing::ValidToken => Some(TokenFault::Invalid),
        _ => None,
    }
}

/// The names of all policies that refuse the request, the binding one first.
fn violated(decision: &Decision) -> Vec<&str> {
    let judged = decision.judged();
    let binding = judged.binding().map(|report| &*report.policy.name);
    let others = judged.violated().map(|policy| &*policy.name);
    binding.into_iter().chain(others.filter(|name| Some(*name) != binding)).collect()
}
