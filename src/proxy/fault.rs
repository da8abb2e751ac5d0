//! What can go wrong with an attempt at an endpoint, and whose doing it is.
//!
//! An endpoint is judged by what it did itself. Whatever a request alone can bring
//! about says nothing about the endpoint: a client could otherwise take a healthy
//! one out of service.

use std::error::Error;
use std::io;

use h2::Reason;

use crate::message::{Blame, Failure};

/// What went wrong with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process is out of files or memory.
    Exhausted,
    /// As many requests are on the connections as may be.
    Crowded,
    /// No connection could be opened.
    Unreachable,
    /// No connection could be opened in time.
    ConnectTimeout,
    /// TLS failed.
    Untrusted,
    /// The client asks for a WebSocket, and the endpoint speaks only HTTP/2.
    NoTunnel,
    /// The client asks for a WebSocket, and there was no answer that could be read.
    Handshake(Failure),
    /// The client's body broke, came too late, or is too large.
    Body(Failure),
    /// The HTTP library does not send a request with these fields.
    Unsendable,
    /// The endpoint says that it has processed nothing (RFC 9113, section 8.7).
    Unprocessed,
    /// The endpoint does not accept the request as it is.
    Rejected,
    /// The endpoint has reset the stream.
    Reset,
    /// The connection has ended without an answer.
    Closed,
    /// The same; it has been counted for another request of the connection.
    ClosedWithOthers,
    /// There was no answer in time.
    Timeout,
    /// The answer is no HTTP.
    Unreadable,
    /// The head of the answer is larger than is read; over HTTP/2, where the library
    /// does not tell them apart, also an answer that is malformed in another way.
    AnswerRefused,
    /// The task of the connection is gone.
    Internal,
}

impl Fault {
    /// What the client is told.
    pub(super) fn failure(self) -> Failure {
        match self {
            Self::Exhausted => Failure::Exhausted,
            Self::Crowded => Failure::UpstreamBusy,
            Self::Unreachable => Failure::UpstreamUnreachable,
            Self::ConnectTimeout => Failure::UpstreamConnectTimeout,
            Self::Untrusted => Failure::UpstreamUntrusted,
            Self::NoTunnel => Failure::UpstreamNoTunnel,
            Self::Handshake(failure) | Self::Body(failure) => failure,
            Self::Unsendable => Failure::Unsendable,
            Self::Unprocessed
            | Self::Rejected
            | Self::Reset
            | Self::Closed
            | Self::ClosedWithOthers
            | Self::Internal => Failure::UpstreamClosed,
            Self::Timeout => Failure::UpstreamTimeout,
            Self::Unreadable | Self::AnswerRefused => Failure::UpstreamInvalid,
        }
    }

    /// Whose doing it is, or can be: where a request can bring it about, the
    /// client's.
    pub(super) fn blame(self) -> Blame {
        match self {
            // An endpoint that refuses a stream, or ends a connection in order, is
            // well: it is the gateway that has to go elsewhere.
            Self::Exhausted | Self::Crowded | Self::Unprocessed | Self::Internal => Blame::Gateway,
            // An answer can be large because it repeats what was asked.
            Self::NoTunnel
            | Self::Handshake(_)
            | Self::Body(_)
            | Self::Unsendable
            | Self::Rejected
            | Self::AnswerRefused => Blame::Client,
            Self::Unreachable
            | Self::ConnectTimeout
            | Self::Untrusted
            | Self::Reset
            | Self::Closed
            | Self::ClosedWithOthers
            | Self::Timeout
            | Self::Unreadable => Blame::Upstream,
        }
    }

    /// Whether it counts against the endpoint.
    pub(super) fn counts(self) -> bool {
        self.blame() == Blame::Upstream && self != Self::ClosedWithOthers
    }

    /// Whether the HTTP/2 library has reset the stream for it.
    pub(super) fn is_cut_off(self) -> bool {
        self == Self::AnswerRefused
    }

    /// The fault of a request for a WebSocket: an endpoint need not know what that is.
    pub(super) fn of_handshake(self) -> Self {
        match self {
            Self::Rejected | Self::Reset | Self::Closed | Self::Timeout | Self::Unreadable => {
                Self::Handshake(self.failure())
            }
            other => other,
        }
    }

    /// The fault of a request whose head is so large that an endpoint may not take it.
    pub(super) fn of_large_head(self) -> Self {
        match self {
            Self::Reset | Self::Closed | Self::ClosedWithOthers => Self::Rejected,
            other => other,
        }
    }

    /// What the HTTP library's error is about.
    pub(super) fn of(error: &hyper::Error) -> Self {
        if let Some(error) = source::<h2::Error>(error) {
            return Self::of_http2(error);
        }
        let has_ended = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
        match error {
            _ if has_ended || is_reset(error) => Self::Closed,
            _ if error.is_parse_too_large() => Self::AnswerRefused,
            _ if error.is_parse() => Self::Unreadable,
            _ if error.is_user() => Self::Internal,
            _ => Self::Closed,
        }
    }

    fn of_http2(error: &h2::Error) -> Self {
        let (is_remote, is_library) = (error.is_remote(), error.is_library());
        match error.reason() {
            // Streams above the last one that a GOAWAY names; others go on.
            _ if error.is_go_away() && is_remote => Self::Unprocessed,
            Some(reason) if error.is_reset() && is_remote => Self::of_reset(reason),
            Some(_) if error.is_reset() && is_library => Self::AnswerRefused,
            Some(_) if error.is_go_away() && is_library => Self::Closed,
            // What this side has reset.
            Some(_) => Self::Internal,
            None if error.is_io() => Self::Closed,
            // What the library calls an error of its user.
            None => Self::Unsendable,
        }
    }

    /// What the endpoint says of the stream that it resets.
    fn of_reset(reason: Reason) -> Self {
        match reason {
            Reason::REFUSED_STREAM => Self::Unprocessed,
            // It is about what was asked, or how often.
            Reason::PROTOCOL_ERROR
            | Reason::FLOW_CONTROL_ERROR
            | Reason::FRAME_SIZE_ERROR
            | Reason::COMPRESSION_ERROR
            | Reason::ENHANCE_YOUR_CALM
            | Reason::HTTP_1_1_REQUIRED => Self::Rejected,
            _ => Self::Reset,
        }
    }
}

fn source<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    error.source()?.downcast_ref()
}

/// A connection closed while bytes were still on their way to it is reset.
fn is_reset(error: &hyper::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    source::<io::Error>(error)
        .is_some_and(|error| matches!(error.kind(), ConnectionReset | BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::Fault::*;
    use super::*;

    /// All there are: the compiler asks for what is not among them.
    fn all() -> Vec<Fault> {
        let all = vec![
            Exhausted,
            Crowded,
            Unreachable,
            ConnectTimeout,
            Untrusted,
            NoTunnel,
            Handshake(Failure::UpstreamClosed),
            Body(Failure::BodyTimeout),
            Unsendable,
            Unprocessed,
            Rejected,
            Reset,
            Closed,
            ClosedWithOthers,
            Timeout,
            Unreadable,
            AnswerRefused,
            Internal,
        ];
        for fault in &all {
            match fault {
                Exhausted | Crowded | Unreachable | ConnectTimeout | Untrusted | NoTunnel => {}
                Handshake(_) | Body(_) | Unsendable | Unprocessed | Rejected | Reset => {}
                Closed | ClosedWithOthers | Timeout | Unreadable | AnswerRefused | Internal => {}
            }
        }
        all
    }

    #[test]
    fn only_what_an_endpoint_does_itself_counts_against_it() {
        let counted: Vec<_> = all().into_iter().filter(|fault| fault.counts()).collect();
        let own = [Unreachable, ConnectTimeout, Untrusted, Reset, Closed, Timeout, Unreadable];
        assert_eq!(counted, own);
    }

    #[test]
    fn nothing_that_follows_a_handshake_counts() {
        for fault in all() {
            let fault = fault.of_handshake();
            let is_connect = matches!(fault, Unreachable | ConnectTimeout | Untrusted);
            assert_eq!(fault.counts(), is_connect, "{fault:?}");
        }
    }

    #[test]
    fn an_end_that_follows_a_large_head_does_not_count() {
        for fault in all() {
            let is_end = matches!(fault, Reset | Closed);
            assert_eq!(fault.of_large_head().counts(), fault.counts() && !is_end, "{fault:?}");
        }
    }

    #[test]
    fn a_reset_says_whether_it_is_about_the_request() {
        for (reason, fault) in [
            (Reason::NO_ERROR, Reset),
            (Reason::PROTOCOL_ERROR, Rejected),
            (Reason::INTERNAL_ERROR, Reset),
            (Reason::FLOW_CONTROL_ERROR, Rejected),
            (Reason::SETTINGS_TIMEOUT, Reset),
            (Reason::STREAM_CLOSED, Reset),
            (Reason::FRAME_SIZE_ERROR, Rejected),
            (Reason::REFUSED_STREAM, Unprocessed),
            (Reason::CANCEL, Reset),
            (Reason::COMPRESSION_ERROR, Rejected),
            (Reason::CONNECT_ERROR, Reset),
            (Reason::ENHANCE_YOUR_CALM, Rejected),
            (Reason::INADEQUATE_SECURITY, Reset),
            (Reason::HTTP_1_1_REQUIRED, Rejected),
        ] {
            assert_eq!(Fault::of_reset(reason), fault, "{reason:?}");
        }
    }
}
