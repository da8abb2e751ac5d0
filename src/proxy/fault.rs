//! What can go wrong with an attempt at an endpoint, and which side has caused it.
//!
//! Only faults that an endpoint has caused itself count against its health. Faults that
//! a request alone can cause do not: otherwise a client could take a healthy endpoint
//! out of service.

use std::error::Error;
use std::io;

use h2::Reason;

use crate::message::{Blame, Failure};

/// What went wrong with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process is out of file descriptors or memory.
    Exhausted,
    /// All connections carry as many requests as they may.
    TooManyStreams,
    /// All connections are in use, and as many requests wait for one as may wait.
    QueueFull,
    /// No connection became free in time.
    QueueTimeout,
    /// No connection could be opened.
    Unreachable,
    /// No connection could be opened in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Untrusted,
    /// The client asks for a WebSocket, and the endpoint supports only HTTP/2.
    NoTunnel,
    /// The client asks for a WebSocket, and there was no readable response.
    Handshake(Failure),
    /// The client's body broke off, came too late, or is too large.
    Body(Failure),
    /// The HTTP library does not send a request with these fields.
    Unsendable,
    /// The endpoint says that it has not processed the request (RFC 9113, section 8.7).
    Unprocessed,
    /// The endpoint does not accept this request.
    Rejected,
    /// The endpoint has reset the stream.
    Reset,
    /// The connection has ended without a response.
    Closed,
    /// The connection has ended without a response, and the end was already counted for
    /// another request of the connection.
    ClosedWithOthers,
    /// There was no response in time.
    Timeout,
    /// The response is not HTTP.
    Unreadable,
    /// The head of the response has too many fields or bytes. A head of more than twice as many bytes
    /// over HTTP/2 is [`Fault::ResponseRejected`].
    HeadTooLarge,
    /// The HTTP/2 library rejects the response: its head has too many bytes, or it is malformed. The
    /// library does not distinguish the two.
    ResponseRejected,
    /// The task of the connection has ended.
    Internal,
}

impl Fault {
    /// The failure that the client is told.
    pub fn failure(self) -> Failure {
        match self {
            Self::Exhausted => Failure::Exhausted,
            Self::TooManyStreams => Failure::UpstreamBusy,
            Self::QueueFull => Failure::UpstreamQueueFull,
            Self::QueueTimeout => Failure::UpstreamQueueTimeout,
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
            Self::HeadTooLarge => Failure::UpstreamHeadTooLarge,
            Self::Unreadable | Self::ResponseRejected => Failure::UpstreamInvalid,
        }
    }

    /// The side that has caused it: the client, if a request alone can cause it.
    pub fn blame(self) -> Blame {
        match self {
            // An endpoint that refuses a stream, or closes a connection gracefully, is
            // healthy.
            Self::Exhausted
            | Self::TooManyStreams
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::Unprocessed
            | Self::Internal => Blame::Gateway,
            // A response can be too large because it repeats parts of the request.
            Self::NoTunnel
            | Self::Handshake(_)
            | Self::Body(_)
            | Self::Unsendable
            | Self::Rejected
            | Self::HeadTooLarge
            | Self::ResponseRejected => Blame::Client,
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
    pub fn counts(self) -> bool {
        self.blame() == Blame::Upstream && self != Self::ClosedWithOthers
    }

    /// Whether the HTTP/2 library resets the stream when it reports this fault.
    pub fn resets_stream(self) -> bool {
        self == Self::ResponseRejected
    }

    /// The same fault of a request for a WebSocket: an endpoint need not support them.
    pub fn in_handshake(self) -> Self {
        match self {
            Self::Rejected | Self::Reset | Self::Closed | Self::Timeout | Self::Unreadable => {
                Self::Handshake(self.failure())
            }
            other => other,
        }
    }

    /// The same fault of a request whose head is so large that an endpoint may reject it.
    pub fn with_large_head(self) -> Self {
        match self {
            Self::Reset | Self::Closed | Self::ClosedWithOthers => Self::Rejected,
            other => other,
        }
    }

    /// The fault that an error of the HTTP/2 library means.
    pub fn of(error: &hyper::Error) -> Self {
        if let Some(error) = source::<h2::Error>(error) {
            return Self::of_http2(error);
        }
        let has_ended = error.is_closed() || error.is_canceled() || is_reset(error);
        if error.is_user() && !has_ended { Self::Internal } else { Self::Closed }
    }

    fn of_http2(error: &h2::Error) -> Self {
        let is_remote = error.is_remote();
        let is_library = error.is_library();
        match error.reason() {
            // Streams above the last one that a GOAWAY names. The others continue.
            _ if error.is_go_away() && is_remote => Self::Unprocessed,
            Some(reason) if error.is_reset() && is_remote => Self::of_reset(reason),
            Some(_) if error.is_reset() && is_library => Self::ResponseRejected,
            Some(_) if error.is_go_away() && is_library => Self::Closed,
            // The gateway has reset the stream.
            Some(_) => Self::Internal,
            None if error.is_io() => Self::Closed,
            // The library calls this a user error.
            None => Self::Unsendable,
        }
    }

    /// The fault that the code of a reset stream means.
    fn of_reset(reason: Reason) -> Self {
        match reason {
            Reason::REFUSED_STREAM => Self::Unprocessed,
            // These codes concern the request, or the rate of requests.
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

/// A connection is reset if it was closed while bytes were still on their way to it.
fn is_reset(error: &hyper::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    source::<io::Error>(error)
        .is_some_and(|error| matches!(error.kind(), ConnectionReset | BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::Fault::*;
    use super::*;

    /// All faults. The compiler reports a fault that is missing in the match.
    fn all() -> Vec<Fault> {
        let all = vec![
            Exhausted,
            TooManyStreams,
            QueueFull,
            QueueTimeout,
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
            HeadTooLarge,
            ResponseRejected,
            Internal,
        ];
        for fault in &all {
            match fault {
                Exhausted | TooManyStreams | QueueFull | QueueTimeout => {}
                Unreachable | ConnectTimeout | Untrusted => {}
                NoTunnel | Handshake(_) | Body(_) | Unsendable | Unprocessed | Rejected => {}
                Reset | Closed | ClosedWithOthers | Timeout | Unreadable => {}
                HeadTooLarge | ResponseRejected | Internal => {}
            }
        }
        all
    }

    #[test]
    fn only_faults_that_an_endpoint_causes_itself_count_against_it() {
        let counted: Vec<_> = all().into_iter().filter(|fault| fault.counts()).collect();
        let own = [Unreachable, ConnectTimeout, Untrusted, Reset, Closed, Timeout, Unreadable];
        assert_eq!(counted, own);
    }

    #[test]
    fn after_a_websocket_handshake_only_connection_faults_count() {
        for fault in all() {
            let fault = fault.in_handshake();
            let is_connect = matches!(fault, Unreachable | ConnectTimeout | Untrusted);
            assert_eq!(fault.counts(), is_connect, "{fault:?}");
        }
    }

    #[test]
    fn a_connection_that_ends_after_a_large_head_does_not_count() {
        for fault in all() {
            let is_end = matches!(fault, Reset | Closed);
            assert_eq!(fault.with_large_head().counts(), fault.counts() && !is_end, "{fault:?}");
        }
    }

    #[test]
    fn the_code_of_a_reset_says_whether_it_concerns_the_request() {
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
