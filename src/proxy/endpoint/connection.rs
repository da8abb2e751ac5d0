//! A connection as one request uses it, of either version of HTTP.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::connect::NewConnection;
use super::http1::{self, BrokenBody};
use super::http2;
use super::send_error::SendError;
use super::send_options::SendOptions;
use crate::proxy::body::RequestBody;
use crate::proxy::endpoint_shared::{EndpointShared, Protocol};
use crate::server::TunnelEnd;

/// A connection for one request.
#[derive(Debug)]
pub enum Connection {
    /// A connection that the request has for itself. Boxed, because the future of a request
    /// contains it several times.
    Http1(Box<http1::Connection>),
    /// A stream on a connection that is shared with other requests, and the body of its
    /// response.
    Http2(http2::Stream, Option<Incoming>),
}

/// A request has its response.
pub struct Sent {
    pub response: Response<()>,
    /// The request without its body, if the connection has left it.
    pub request: Option<Box<Request<RequestBody>>>,
}

impl From<NewConnection> for Connection {
    fn from(connection: NewConnection) -> Self {
        match connection {
            NewConnection::Http1(connection) => Self::Http1(connection),
            NewConnection::Http2(connection) => Self::from(http2::Stream::of(Rc::new(connection))),
        }
    }
}

impl From<http2::Stream> for Connection {
    fn from(stream: http2::Stream) -> Self {
        Self::Http2(stream, None)
    }
}

impl Connection {
    pub fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(..))
    }

    /// Whether nothing has come on an idle connection, not even its end, as the system says.
    /// Connections of HTTP/2 are not asked: bytes of other requests come on them.
    pub fn is_socket_empty(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_socket_empty(),
            Self::Http2(..) => true,
        }
    }

    /// Sends a request to `endpoint`. Dropping the future, and then the connection, cancels the
    /// request.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(
        &mut self,
        mut request: Box<Request<RequestBody>>,
        endpoint: &EndpointShared,
        options: SendOptions<'_>,
    ) -> Result<Sent, SendError> {
        match self {
            Self::Http1(connection) => {
                let sent = connection.send(request, &endpoint.authority, options).await;
                sent.map(|(response, request)| Sent { response, request: Some(request) })
            }
            Self::Http2(stream, body) => {
                let scheme = match endpoint.protocol {
                    Protocol::Tls { .. } => Scheme::HTTPS,
                    Protocol::Http1 | Protocol::Http2 => Scheme::HTTP,
                };
                http2::prepare(&mut request, &endpoint.authority, scheme);
                let (head, incoming) = stream.send(request).await?.into_parts();
                *body = Some(incoming);
                Ok(Sent { response: Response::from_parts(head, ()), request: None })
            }
        }
    }

    /// The connection after its protocol has changed, if that is possible.
    pub fn into_tunnel(self) -> Option<TunnelEnd> {
        match self {
            Self::Http1(connection) => connection.into_tunnel(),
            Self::Http2(..) => None,
        }
    }
}

/// The body of the latest response.
impl Body for Connection {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        match self.get_mut() {
            Self::Http1(connection) => connection.poll_frame(cx),
            Self::Http2(_, Some(body)) => {
                let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
                let is_broken = match &frame {
                    // The library takes a reset without an error for the end of the body, also if
                    // END_STREAM has not come before it (RFC 9113, section 8.1).
                    None => !body.is_end_stream(),
                    Some(Ok(frame)) => {
                        frame.trailers_ref().is_some_and(|it| !http2::RESPONSE.admit(it))
                    }
                    Some(Err(_)) => true,
                };
                Poll::Ready(match is_broken {
                    true => Some(Err(BrokenBody)),
                    false => frame.map(|frame| frame.map_err(|_| BrokenBody)),
                })
            }
            Self::Http2(_, None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_end_stream(),
            Self::Http2(_, body) => body.as_ref().is_none_or(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(connection) => connection.size_hint(),
            Self::Http2(_, body) => {
                body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
            }
        }
    }
}
