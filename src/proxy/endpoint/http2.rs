//! HTTP/2: a connection carries many requests at once, each on its own stream.

mod bounds;
mod cancels;
mod pool;
mod upload;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::header::{EXPECT, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_core::time::monotonic;

use super::send_error::SendError;
use crate::io::Coalesced;
use crate::proxy::body::RequestBody;
use crate::proxy::fault::Fault;
pub use bounds::RESPONSE;
use bounds::{
    CONNECTION_WINDOW_BYTES, LIBRARY_HEAD_BYTES, MAX_RESET_STREAMS, MAX_SEND_BYTES,
    STREAM_WINDOW_BYTES,
};
use cancels::CancelCount;
pub use pool::Pool;
use upload::{LocalExecutor, StreamedBody, UploadTask};

/// Silence after which an endpoint that owes a response is sent a PING.
const PING_AFTER: Duration = Duration::from_secs(20);
/// How long the answer to a PING may take.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection. It is closed when it has been dropped and its last stream has ended.
pub struct Connection {
    sender: SendRequest<StreamedBody>,
    executor: LocalExecutor,
    streams: Cell<usize>,
    /// Streams that the endpoint allows at once, which may change at any time.
    max_streams: Box<dyn Fn() -> usize>,
    /// When the last stream ended.
    idle_since: Cell<Instant>,
    cancels: RefCell<CancelCount>,
    /// Whether it takes no more requests.
    is_retired: Cell<bool>,
    /// Whether a request on it has ended. Before that it is not given up for another worker, so that
    /// the request that has opened it can use it.
    is_used: Cell<bool>,
    /// Whether one of its requests has noticed its end.
    is_lost: Cell<bool>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("streams", &self.streams).finish_non_exhaustive()
    }
}

impl Connection {
    /// An HTTP/2 connection over `stream`, driven by its own tasks on this worker.
    /// Returns when the endpoint has said how many streams it allows: it may refuse
    /// streams that are opened before.
    ///
    /// # Errors
    /// If the endpoint does not speak HTTP/2.
    pub async fn over<T>(stream: T) -> Result<Self, Fault>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let stream = Coalesced::new(stream);
        let executor = LocalExecutor::of(stream.clone());
        let (sender, connection) = Builder::new(executor.clone())
            .timer(TokioTimer::new())
            .initial_max_send_streams(0)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(MAX_SEND_BYTES)
            .max_header_list_size(LIBRARY_HEAD_BYTES)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            // The limit would end the connection for all, and clients can cause it.
            .max_local_error_reset_streams(None)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Fault::Unreachable)?;
        let connection = Rc::new(RefCell::new(connection));
        // Only the task owns the connection, so that its end is visible here.
        let weak = Rc::downgrade(&connection);
        let max_streams = Box::new(move || {
            weak.upgrade().map_or(0, |connection| connection.borrow().current_max_send_streams())
        });
        // The request that waits for a response gets the connection's errors.
        executor.run(poll_fn(move |cx| Pin::new(&mut *connection.borrow_mut()).poll(cx)));
        while max_streams() == 0 {
            if sender.is_closed() {
                return Err(Fault::Unreachable);
            }
            executor.activity().await;
        }
        let now = monotonic();
        Ok(Self {
            sender,
            executor,
            streams: Cell::new(0),
            max_streams,
            idle_since: Cell::new(now),
            cancels: RefCell::new(CancelCount::new(now)),
            is_retired: Cell::new(false),
            is_used: Cell::new(false),
            is_lost: Cell::new(false),
        })
    }
}

/// A stream of a connection, for one request. Dropping it cancels the request and its
/// response if they have not ended.
#[derive(Debug)]
pub struct Stream {
    connection: Rc<Connection>,
    /// The task that sends the request's body.
    upload: UploadTask,
    /// Whether dropping this value resets the stream.
    is_open: bool,
}

impl Stream {
    pub fn of(connection: Rc<Connection>) -> Self {
        connection.streams.set(connection.streams.get() + 1);
        Self { connection, upload: UploadTask::default(), is_open: false }
    }

    /// Sends a request. Dropping the future, and then the stream, cancels it.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(
        &mut self,
        request: Box<Request<RequestBody>>,
    ) -> Result<Response<Incoming>, SendError> {
        let Connection { sender, executor, .. } = &*self.connection;
        let progress = request.body().progress();
        let (upload, body) = StreamedBody::of(*request, executor);
        self.upload = upload;
        self.is_open = true;
        let sent = sender.clone().try_send_request(body).await;
        if let Ok(response) = &sent
            && !RESPONSE.admit(response.headers())
        {
            let fault = Fault::HeadTooLarge;
            return Err(SendError { fault, is_unsent: false, request: None });
        }
        // The library resets the stream if its body breaks or if it rejects the response.
        // Other failures come from the endpoint.
        self.is_open = match &sent {
            Ok(_) => true,
            Err(_) if progress.is_some_and(|progress| progress.fault().is_some()) => true,
            Err(error) => Fault::of(error.error()).resets_stream(),
        };
        sent.map_err(|mut error| {
            let request = error.take_message();
            let request = request.map(|it| Box::new(it.map(StreamedBody::into_inner)));
            let fault = match Fault::of(&error.into_error()) {
                Fault::Closed if self.is_noticed() => Fault::ClosedWithOthers,
                fault => fault,
            };
            SendError { fault, is_unsent: request.is_some(), request }
        })
    }

    /// The response has been read to its end.
    pub fn end(mut self) {
        self.is_open = false;
    }

    /// Whether another request has noticed the end of the connection before this one, which
    /// notices it now.
    fn is_noticed(&self) -> bool {
        self.connection.is_lost.replace(true)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.is_used.set(true);
        // The rest of the upload is not needed: the response is complete, or the request
        // is cancelled.
        let is_upload_stopped = self.upload.stop();
        let connection = &self.connection;
        let now = monotonic();
        if (is_upload_stopped || self.is_open) && connection.cancels.borrow_mut().add(now) {
            connection.is_retired.set(true);
        }
        connection.streams.set(connection.streams.get() - 1);
        connection.idle_since.set(now);
    }
}

/// Converts a request to HTTP/2: host and scheme are part of the target, and there are
/// no fields about the connection (RFC 9113, sections 8.2.2 and 8.3.1). A request that
/// names no host is for `authority`.
pub fn prepare(request: &mut Request<RequestBody>, authority: &HeaderValue, scheme: Scheme) {
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(TRANSFER_ENCODING);
    if let Some(expectation) = request.body().expectation() {
        // The library does not report a `100 Continue` that comes over HTTP/2.
        request.headers_mut().remove(EXPECT);
        expectation.meet();
    }
    let host = request.headers_mut().remove(HOST);
    let named = host.as_ref().and_then(parsed).or_else(|| request.uri().authority().cloned());
    let mut parts = Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = named.or_else(|| parsed(authority));
    let path = request.uri().path_and_query().cloned();
    parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

fn parsed(host: &HeaderValue) -> Option<Authority> {
    Authority::try_from(host.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &'static str, host: Option<&'static str>) -> Request<RequestBody> {
        let mut request = Request::new(RequestBody::EMPTY);
        *request.uri_mut() = target.parse().unwrap();
        request.headers_mut().extend(host.map(|host| (HOST, HeaderValue::from_static(host))));
        request
    }

    #[test]
    fn scheme_and_host_are_part_of_the_target() {
        let authority = HeaderValue::from_static("10.0.0.1:80");
        for (target, host, expected) in [
            ("/a?b", Some("a.test"), ("a.test", "/a?b")),
            ("http://a.test:81/a", None, ("a.test:81", "/a")),
            ("/", None, ("10.0.0.1:80", "/")),
            ("/", Some(""), ("10.0.0.1:80", "/")),
            ("*", Some("a.test"), ("a.test", "*")),
        ] {
            let mut request = request(target, host);
            request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            prepare(&mut request, &authority, Scheme::HTTPS);
            let uri = request.uri();
            let named = uri.authority().map(Authority::as_str);
            assert_eq!(
                (named, uri.path_and_query().map(PathAndQuery::as_str)),
                (Some(expected.0), Some(expected.1))
            );
            assert_eq!((uri.scheme(), request.version()), (Some(&Scheme::HTTPS), Version::HTTP_2));
            assert!(request.headers().is_empty());
        }
    }
}
