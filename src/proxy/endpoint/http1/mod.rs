//! HTTP/1.1: a connection carries one request at a time, and is idle in between.
//!
//! The request that uses a connection drives it: no task and no queue stands between the two.

mod decoder;
mod excess;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod head;
mod idle_bound;
mod incoming;
mod pool;
mod request;
#[cfg(test)]
mod tests;
mod upload;
mod wire;

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};

use super::send_error::SendError;
use super::send_options::SendOptions;
use super::stream::Stream;
use crate::proxy::body::{Expectation, RequestBody};
use crate::proxy::fault::Fault;
use crate::proxy::interim::InterimRelay;
use crate::server::TunnelEnd;
pub use decoder::BrokenBody;
use decoder::Decoder;
pub use excess::Excess;
use head::{Framing, Head, framing, parse};
pub use idle_bound::IdleBound;
pub use idle_bound::IdleRoom;
use incoming::{Behind, Incoming};
pub use pool::Pool;
use upload::{Progress, RestTask, Upload};
use wire::Wire;

/// A connection. It is closed when this value is dropped, even in the middle of an
/// upload: its request is cancelled or has its response.
#[derive(Debug)]
pub struct Connection {
    incoming: Incoming,
    /// The body of the response.
    decoder: Decoder,
    /// Whether it can carry another request after the current one.
    is_reusable: bool,
    /// Whether the endpoint may send a body that the response must not have: its head announces it.
    may_be_followed: bool,
    /// Sends the rest of a request whose response has begun.
    rest: Option<RestTask>,
}

/// What is known of the request that is being sent.
struct Sending<'a> {
    method: &'a Method,
    expectation: Option<Expectation>,
    interim: Option<&'a InterimRelay>,
}

impl Connection {
    /// An HTTP/1.1 connection over `stream`.
    pub fn over(stream: Stream) -> Box<Self> {
        Box::new(Self {
            incoming: Incoming::new(Wire::new(stream)),
            decoder: Decoder::ENDED,
            is_reusable: true,
            may_be_followed: false,
            rest: None,
        })
    }

    /// Sends a request, and returns its response and the request without its body. A request
    /// that names no host is for `authority`. Dropping the future cancels the request.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(
        &mut self,
        mut request: Box<Request<RequestBody>>,
        authority: &HeaderValue,
        SendOptions { interim, forwarding }: SendOptions<'_>,
    ) -> Result<(Response<()>, Box<Request<RequestBody>>), SendError> {
        let wire = self.incoming.wire();
        let framing = {
            let text = &mut wire.output.borrow_mut().text;
            request::write(&request, authority, forwarding, text)
        };
        let body = std::mem::replace(request.body_mut(), RequestBody::EMPTY);
        let expectation = body.expectation();
        let sending = Sending { method: request.method(), expectation, interim };
        let mut upload = Upload::new(wire, framing, body);
        self.is_reusable = false;
        let sent = poll_fn(|cx| self.poll_response(cx, &mut upload, &sending)).await;
        match sent {
            Ok(response) => {
                self.is_reusable &= upload.progress() != Progress::Broken;
                match upload.progress() {
                    Progress::Begun => self.rest = Some(RestTask::new(upload)),
                    Progress::Unsent | Progress::Complete | Progress::Broken => {}
                }
                Ok((response, request))
            }
            Err(fault) => {
                let is_unsent = upload.progress() == Progress::Unsent;
                if is_unsent {
                    *request.body_mut() = upload.into_body();
                }
                Err(SendError { fault, request: Some(request), is_unsent })
            }
        }
    }

    /// Sends what can be sent, and reads until the head of the response is complete.
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        upload: &mut Upload<RequestBody>,
        sending: &Sending<'_>,
    ) -> Poll<Result<Response<()>, Fault>> {
        if let Poll::Ready(sent) = upload.poll(cx) {
            sent.map_err(Fault::Body)?;
            if upload.progress() == Progress::Unsent {
                return Poll::Ready(Err(Fault::Closed));
            }
            // After a broken upload there may be a response that says why.
        }
        loop {
            while let Some(head) = self.take_head()? {
                let response = &head.response;
                if !response.status().is_informational()
                    || response.status() == StatusCode::SWITCHING_PROTOCOLS
                {
                    return Poll::Ready(self.begin(head, sending.method));
                }
                sending.receive(response);
            }
            let has_more = ready!(self.incoming.poll_more(cx)).unwrap_or(false);
            // What comes before the request is no response to it.
            if !has_more || !self.incoming.wire().output.borrow().is_begun {
                return Poll::Ready(Err(Fault::Closed));
            }
        }
    }

    /// Takes the head of a response out of the bytes that have come.
    fn take_head(&mut self) -> Result<Option<Head>, Fault> {
        let unused = self.incoming.unused();
        if unused.is_empty() {
            return Ok(None);
        }
        Ok(parse(unused)?.map(|(head, length)| {
            unused.advance(length);
            head
        }))
    }

    /// Begins a final response.
    fn begin(&mut self, head: Head, method: &Method) -> Result<Response<()>, Fault> {
        let Head { mut response, keeps_alive } = head;
        let framing = framing(&mut response, method)?;
        self.may_be_followed = matches!(framing, Framing::Without { is_announced: true });
        self.decoder = Decoder::new(framing);
        self.is_reusable = keeps_alive;
        Ok(response)
    }

    /// Reads the next frame of the body of the response.
    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        loop {
            if let Some(frame) = self.decoder.next(self.incoming.unused())? {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.decoder.has_ended() {
                return Poll::Ready(None);
            }
            match ready!(self.incoming.poll_piece(cx, self.decoder.size_hint().upper())) {
                Ok(true) => {}
                Ok(false) => {
                    self.is_reusable = false;
                    self.decoder.close()?;
                }
                Err(_) => return Poll::Ready(Some(Err(BrokenBody))),
            }
        }
    }

    /// Whether the body of the response was read to its end.
    pub fn is_end_stream(&self) -> bool {
        self.decoder.has_ended()
    }

    pub fn size_hint(&self) -> SizeHint {
        self.decoder.size_hint()
    }

    /// Whether it can carry another request: its last request and response are complete.
    fn can_be_reused(&mut self) -> bool {
        if let Some(mut rest) = self.rest.take() {
            self.is_reusable &= rest.is_complete();
        }
        self.is_reusable && self.decoder.has_ended()
    }

    /// What has come behind the last response, as far as the runtime knows.
    fn behind(&mut self) -> Behind {
        self.incoming.behind()
    }

    /// See [`Incoming::is_socket_empty`].
    pub fn is_socket_empty(&self) -> bool {
        self.incoming.is_socket_empty()
    }

    /// The connection after its protocol has changed. None if its request is still being sent.
    pub fn into_tunnel(self) -> Option<TunnelEnd> {
        let (stream, early) = self.incoming.into_parts()?;
        Some(TunnelEnd::new(stream, early))
    }
}

impl Sending<'_> {
    /// An interim response has come.
    fn receive(&self, response: &Response<()>) {
        if response.status() == StatusCode::CONTINUE
            && let Some(expectation) = &self.expectation
        {
            expectation.meet();
        }
        if let Some(interim) = self.interim {
            interim.send(response);
        }
    }
}
