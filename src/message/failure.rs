//! What can go wrong with a request, other than exceeding a limit.
//!
//! This is the only list of causes and statuses. Clients read the texts: they name the
//! part that failed, and contain no addresses and no internals.

use http::StatusCode;

use tollgate_core::policy::{AuthFault, AuthRefusal, DenialAnswer, TokenFault};
use tollgate_core::refusal::grpc::Code;
use tollgate_core::refusal::{NO_KEY, NOT_JUDGED};
use tollgate_core::request::{Ambiguity, ContentFault, Malformed};

use super::question::{BadQuestion, QuestionParts};

/// The most fields of a response of an upstream.
pub const MAX_RESPONSE_FIELDS: usize = 256;
/// The largest head of a response of an upstream in bytes, and the largest trailers.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 64 * 1024;

/// The word for a response body of an upstream that is larger than its route allows.
pub const RESPONSE_TOO_LARGE: &str = "upstream_response_too_large";

/// What a client is told if no route matches. A route that an access list hides is told the same.
const NO_ROUTE: &str = "no route matches the host, path and method of this request";

/// The side that has caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The client or its request.
    Client,
    /// The gateway.
    Gateway,
    /// The upstream.
    Upstream,
}

impl Blame {
    /// The value of `source` in a response.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Upstream => "upstream",
        }
    }
}

/// Why a request got no response from its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The request has no clear meaning, or more than one.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguity),
    /// The bytes are not a valid request, or the request is too large or too late.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Another proxy asks about a request, and does not describe it.
    #[error(transparent)]
    Question(#[from] BadQuestion),
    /// An `Expect` other than `100-continue` (RFC 9110, section 10.1.1).
    #[error("the request expects what the gateway does not know; it knows 100-continue")]
    Expectation,
    /// The method is CONNECT.
    #[error("the gateway does not open tunnels")]
    Tunnel,
    /// The method is TRACE (RFC 9110, section 9.3.8), whose response would show a client
    /// the fields that the gateway adds.
    #[error("the gateway does not serve TRACE")]
    Trace,
    /// No route matches.
    #[error("{NO_ROUTE}")]
    NoRoute,
    /// An access list denies the request.
    #[error("{}", denial_text(*.0))]
    Denied(DenialAnswer),
    /// A preflight asks for what the route does not allow to scripts of its origin.
    #[error("this route does not allow what the preflight asks for")]
    PreflightDenied,
    /// A policy demands a key that the request does not have.
    #[error("{NO_KEY}")]
    KeyMissing,
    /// A policy counts money, and the model of the request has no price.
    #[error("the model of this request has no price here")]
    ModelUnpriced,
    /// The limit of the API key is not in the units of its policy.
    #[error("the limit of this API key cannot be counted: its operator must correct it")]
    KeyLimitUnfit,
    /// A policy demands a valid bearer token.
    #[error(transparent)]
    Unauthorized(#[from] TokenFault),
    /// The request lacks a right credential.
    #[error("{}", .0.fault)]
    Unauthenticated(AuthRefusal),
    /// Backends may read another value in the body than the one by which a limit counts.
    #[error("the body of this request {0}")]
    BodyAmbiguous(ContentFault),
    /// A limit counts by a value in the body, and the body is compressed in another way.
    #[error("the request's body is in a coding in which the gateway cannot read it")]
    BodyCoding,
    /// The bodies that are being read take all the memory that they may take.
    #[error("too many requests with a body are in progress")]
    BodyMemory,
    /// The body is larger than the route allows.
    #[error("the request's body is larger than this route allows")]
    BodyTooLarge,
    /// The body stopped arriving.
    #[error("the request's body stopped arriving")]
    BodyTimeout,
    /// The client's side of the connection ended while its body was read.
    #[error("the request's body could not be read to its end")]
    BodyBroken,
    /// The HTTP library does not send some fields or trailers of the request.
    #[error("the request has fields that cannot be passed on")]
    Unsendable,
    /// The queue of delayed requests is full.
    #[error("too many requests are waiting for their turn")]
    QueueFull,
    /// The store cannot be reached, and a policy refuses requests meanwhile.
    #[error("{NOT_JUDGED}")]
    StoreAway,
    /// The keys that verify the token have not been fetched yet, and a policy demands a
    /// valid token.
    #[error("the credential of this request cannot be verified at the moment")]
    KeysAway,
    /// The authorizer of the route gives no answer.
    #[error("it cannot be found out at the moment whether this request may pass")]
    AuthorizerAway,
    /// The gateway is out of file descriptors or memory.
    #[error("the gateway has no room for another connection at the moment")]
    Exhausted,
    /// The upstream has as many requests in flight as it may have.
    #[error("the upstream is busy")]
    UpstreamBusy,
    /// All connections to the upstream are in use, and as many requests wait for one as may wait.
    #[error("all connections to the upstream are in use, and too many requests wait for one")]
    UpstreamQueueFull,
    /// No connection to the upstream became free in time.
    #[error("no connection to the upstream became free in time")]
    UpstreamQueueTimeout,
    /// The upstream's name has no address.
    #[error("the upstream's address is not known")]
    UpstreamUnresolved,
    /// The TLS handshake with the upstream failed.
    #[error("the upstream could not be trusted")]
    UpstreamUntrusted,
    /// No connection to the upstream could be opened.
    #[error("the upstream cannot be reached")]
    UpstreamUnreachable,
    /// No connection to the upstream could be opened in time.
    #[error("the upstream did not accept a connection in time")]
    UpstreamConnectTimeout,
    /// The upstream did not respond in time.
    #[error("the upstream did not answer in time")]
    UpstreamTimeout,
    /// The connection to the upstream ended before a response came.
    #[error("the upstream closed the connection before it had answered")]
    UpstreamClosed,
    /// The upstream supports only HTTP/2, over which the gateway opens no tunnel. Or it answers a
    /// request for a WebSocket with a success that opens none, which a client of HTTP/2 would take
    /// for an open one (RFC 8441, section 5).
    #[error("the upstream opens no WebSocket: it speaks no HTTP/1.1, or its status is not 101")]
    UpstreamNoTunnel,
    /// The whole request took longer than its route allows.
    #[error("the request took longer than this route allows")]
    RequestTimeout,
    /// The head of the upstream's response has more fields or bytes than the gateway reads.
    #[error(
        "the upstream's answer has more than {MAX_RESPONSE_FIELDS} fields or {} KiB of them",
        MAX_RESPONSE_HEAD_BYTES / 1024
    )]
    UpstreamHeadTooLarge,
    /// The upstream announces a response body that is larger than the route allows.
    #[error("the upstream's answer is larger than this route allows")]
    UpstreamResponseTooLarge,
    /// The upstream's response is not valid HTTP.
    #[error("the upstream's answer could not be understood")]
    UpstreamInvalid,
}

impl Failure {
    /// Whether a request is not forwarded because there is no room for it at the moment.
    pub const fn is_lack_of_room(self) -> bool {
        matches!(
            self,
            Self::Exhausted
                | Self::UpstreamBusy
                | Self::UpstreamQueueFull
                | Self::UpstreamQueueTimeout
        )
    }

    /// The status of a gRPC call: the one to which clients map the HTTP status
    /// (`doc/http-grpc-status-mapping.md`), or a more precise one.
    pub const fn code(self) -> Code {
        match self {
            Self::Malformed(_)
            | Self::Ambiguous(_)
            | Self::Question(_)
            | Self::Expectation
            | Self::BodyAmbiguous(_)
            | Self::BodyCoding
            | Self::BodyBroken
            | Self::Unsendable => Code::Internal,
            Self::KeyMissing
            | Self::ModelUnpriced
            | Self::KeyLimitUnfit
            | Self::PreflightDenied
            | Self::Denied(DenialAnswer::Forbidden) => Code::PermissionDenied,
            Self::Unauthorized(_) => Code::Unauthenticated,
            Self::Unauthenticated(refusal) => code_of(refusal),
            Self::NoRoute | Self::Denied(DenialAnswer::NotFound) | Self::Tunnel | Self::Trace => {
                Code::Unimplemented
            }
            // Servers of gRPC use this code for a message that is too large.
            Self::BodyTooLarge | Self::UpstreamResponseTooLarge => Code::ResourceExhausted,
            // Not `Unavailable`, which says that another attempt is safe: the upstream may
            // have processed the call.
            Self::UpstreamTimeout | Self::RequestTimeout => Code::DeadlineExceeded,
            Self::BodyTimeout
            | Self::BodyMemory
            | Self::QueueFull
            | Self::StoreAway
            | Self::KeysAway
            | Self::Denied(DenialAnswer::Unavailable(_))
            | Self::AuthorizerAway
            | Self::Exhausted
            | Self::UpstreamBusy
            | Self::UpstreamQueueFull
            | Self::UpstreamQueueTimeout
            | Self::UpstreamUnresolved
            | Self::UpstreamUntrusted
            | Self::UpstreamUnreachable
            | Self::UpstreamConnectTimeout
            | Self::UpstreamClosed
            | Self::UpstreamNoTunnel
            | Self::UpstreamHeadTooLarge
            | Self::UpstreamInvalid => Code::Unavailable,
        }
    }

    /// The same failure of a request that a question describes. It names the part of the
    /// question that causes it, if a single one does.
    pub fn in_question(self, parts: QuestionParts) -> Self {
        let Self::Ambiguous(ambiguity) = self else { return self };
        let question = |field| BadQuestion { field, fault: ambiguity.into() };
        parts.part(ambiguity).map_or(self, |field| question(field).into())
    }

    /// The status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Malformed(malformed) => status_of(malformed),
            Self::Ambiguous(_)
            | Self::Question(_)
            | Self::BodyAmbiguous(_)
            | Self::BodyBroken
            | Self::Unsendable => StatusCode::BAD_REQUEST,
            Self::BodyCoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::KeyMissing
            | Self::ModelUnpriced
            | Self::KeyLimitUnfit
            | Self::PreflightDenied
            | Self::Denied(DenialAnswer::Forbidden) => StatusCode::FORBIDDEN,
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::Unauthenticated(refusal) => status_of_refusal(refusal),
            Self::NoRoute | Self::Denied(DenialAnswer::NotFound) => StatusCode::NOT_FOUND,
            Self::Tunnel | Self::Trace => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UpstreamUnresolved
            | Self::UpstreamUntrusted
            | Self::UpstreamUnreachable
            | Self::UpstreamClosed
            | Self::UpstreamNoTunnel
            | Self::UpstreamHeadTooLarge
            | Self::UpstreamResponseTooLarge
            | Self::UpstreamInvalid => StatusCode::BAD_GATEWAY,
            Self::BodyMemory
            | Self::QueueFull
            | Self::StoreAway
            | Self::KeysAway
            | Self::Denied(DenialAnswer::Unavailable(_))
            | Self::AuthorizerAway
            | Self::Exhausted
            | Self::UpstreamBusy
            | Self::UpstreamQueueFull
            | Self::UpstreamQueueTimeout => StatusCode::SERVICE_UNAVAILABLE,
            Self::UpstreamConnectTimeout | Self::UpstreamTimeout | Self::RequestTimeout => {
                StatusCode::GATEWAY_TIMEOUT
            }
        }
    }

    /// The side that has caused it.
    pub const fn blame(self) -> Blame {
        match self {
            Self::Malformed(_)
            | Self::Ambiguous(_)
            | Self::Question(_)
            | Self::Expectation
            | Self::Tunnel
            | Self::Trace
            | Self::KeyMissing
            | Self::ModelUnpriced
            | Self::KeyLimitUnfit
            | Self::Denied(DenialAnswer::Forbidden)
            | Self::PreflightDenied
            | Self::Unauthorized(_)
            | Self::Unauthenticated(_)
            | Self::BodyAmbiguous(_)
            | Self::BodyCoding
            | Self::BodyTooLarge
            | Self::BodyTimeout
            | Self::BodyBroken
            | Self::Unsendable => Blame::Client,
            // The gateway ends the request, whichever side was slow.
            Self::NoRoute
            | Self::Denied(DenialAnswer::NotFound | DenialAnswer::Unavailable(_))
            | Self::BodyMemory
            | Self::QueueFull
            | Self::StoreAway
            | Self::KeysAway
            | Self::AuthorizerAway
            | Self::Exhausted
            | Self::RequestTimeout => Blame::Gateway,
            Self::UpstreamBusy
            | Self::UpstreamQueueFull
            | Self::UpstreamQueueTimeout
            | Self::UpstreamUnresolved
            | Self::UpstreamUntrusted
            | Self::UpstreamUnreachable
            | Self::UpstreamConnectTimeout
            | Self::UpstreamTimeout
            | Self::UpstreamClosed
            | Self::UpstreamNoTunnel
            | Self::UpstreamHeadTooLarge
            | Self::UpstreamResponseTooLarge
            | Self::UpstreamInvalid => Blame::Upstream,
        }
    }

    /// Whether the client's connection must end: its further bytes cannot be trusted, or
    /// the client is still sending a body that will not be read.
    pub const fn ends_connection(self) -> bool {
        matches!(
            self,
            Self::Malformed(_)
                | Self::Ambiguous(_)
                | Self::Expectation
                | Self::Tunnel
                | Self::BodyTooLarge
                | Self::BodyTimeout
                | Self::BodyBroken
                | Self::Unsendable
                | Self::RequestTimeout
        )
    }

    /// One word for logs and metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Ambiguous(_) => "ambiguous",
            Self::Question(question) => question.fault.reason(),
            Self::Expectation => "expectation",
            Self::Tunnel => "tunnel",
            Self::Trace => "trace",
            Self::NoRoute => "no_route",
            Self::Denied(_) => "denied",
            Self::KeyMissing => "key_missing",
            Self::ModelUnpriced => "model_unpriced",
            Self::KeyLimitUnfit => "key_limit_unfit",
            Self::PreflightDenied => "preflight_denied",
            Self::Unauthorized(TokenFault::Missing) => "token_missing",
            Self::Unauthorized(TokenFault::Invalid) => "token_invalid",
            Self::Unauthorized(TokenFault::TooLong) => "token_too_long",
            Self::Unauthenticated(refusal) => refusal.fault.word(),
            Self::BodyAmbiguous(_) => "body_ambiguous",
            Self::BodyCoding => "body_coding",
            Self::BodyMemory => "body_memory",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyTimeout => "body_timeout",
            Self::BodyBroken => "body_broken",
            Self::Unsendable => "unsendable",
            Self::QueueFull => "queue_full",
            Self::StoreAway => "store_away",
            Self::KeysAway => "keys_away",
            Self::AuthorizerAway => "authorizer_away",
            Self::Exhausted => "exhausted",
            Self::UpstreamBusy => "upstream_busy",
            Self::UpstreamQueueFull => "upstream_queue_full",
            Self::UpstreamQueueTimeout => "upstream_queue_timeout",
            Self::UpstreamUnresolved => "upstream_unresolved",
            Self::UpstreamUntrusted => "upstream_untrusted",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamConnectTimeout => "upstream_connect_timeout",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::UpstreamClosed => "upstream_closed",
            Self::UpstreamNoTunnel => "upstream_no_tunnel",
            Self::RequestTimeout => "request_timeout",
            Self::UpstreamHeadTooLarge => "upstream_head_too_large",
            Self::UpstreamResponseTooLarge => RESPONSE_TOO_LARGE,
            Self::UpstreamInvalid => "upstream_invalid",
        }
    }
}

/// What a client is told of a denial. If the status is 404, the text does not tell that there is a
/// route.
const fn denial_text(answer: DenialAnswer) -> &'static str {
    match answer {
        DenialAnswer::Forbidden => "this route does not allow this request",
        DenialAnswer::NotFound => NO_ROUTE,
        DenialAnswer::Unavailable(_) => "this route is out of service at the moment",
    }
}

/// The status of a request without a right credential. Without a challenge that would
/// help, it is not 401.
const fn status_of_refusal(refusal: AuthRefusal) -> StatusCode {
    match refusal.fault {
        AuthFault::TooManyFailures(_) => StatusCode::TOO_MANY_REQUESTS,
        AuthFault::KeysAway | AuthFault::TokensAway | AuthFault::PasswordsBusy => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        AuthFault::Ambiguous => StatusCode::BAD_REQUEST,
        _ if refusal.is_unauthorized() => StatusCode::UNAUTHORIZED,
        _ => StatusCode::FORBIDDEN,
    }
}

/// The code of a gRPC call with this status.
const fn code_of(refusal: AuthRefusal) -> Code {
    match status_of_refusal(refusal) {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// Bounds and versions have their own statuses. All others are a bad request.
const fn status_of(malformed: Malformed) -> StatusCode {
    match malformed {
        Malformed::HeadTooLarge | Malformed::TooManyFields => {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        }
        Malformed::TargetTooLong => StatusCode::URI_TOO_LONG,
        Malformed::HeadTooLate => StatusCode::REQUEST_TIMEOUT,
        Malformed::BadVersion => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        _ => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_code_that_says_whether_another_attempt_is_safe() {
        let cases = [
            (Failure::NoRoute, Code::Unimplemented),
            (Failure::KeyMissing, Code::PermissionDenied),
            (Failure::ModelUnpriced, Code::PermissionDenied),
            (Failure::KeyLimitUnfit, Code::PermissionDenied),
            (Failure::Denied(DenialAnswer::Forbidden), Code::PermissionDenied),
            (Failure::Denied(DenialAnswer::NotFound), Code::Unimplemented),
            (Failure::Denied(DenialAnswer::Unavailable(None)), Code::Unavailable),
            (Failure::Unauthorized(TokenFault::Missing), Code::Unauthenticated),
            (Failure::BodyTooLarge, Code::ResourceExhausted),
            (Failure::BodyBroken, Code::Internal),
            (Failure::BodyTimeout, Code::Unavailable),
            (Failure::UpstreamBusy, Code::Unavailable),
            (Failure::UpstreamQueueFull, Code::Unavailable),
            (Failure::UpstreamClosed, Code::Unavailable),
            (Failure::UpstreamConnectTimeout, Code::Unavailable),
            (Failure::UpstreamTimeout, Code::DeadlineExceeded),
        ];
        for (failure, code) in cases {
            assert_eq!(failure.code(), code, "{failure:?}");
        }
    }

    /// A client must not learn from the response that there is a route.
    #[test]
    fn a_hidden_route_is_told_as_no_route() {
        let hidden = Failure::Denied(DenialAnswer::NotFound);
        let missing = Failure::NoRoute;
        assert_eq!(hidden.to_string(), missing.to_string());
        assert_eq!((hidden.status(), hidden.code()), (missing.status(), missing.code()));
        assert_eq!(hidden.blame(), missing.blame());
        assert_eq!(hidden.ends_connection(), missing.ends_connection());
        assert_ne!(hidden.reason(), missing.reason(), "operators see the difference");
    }
}
