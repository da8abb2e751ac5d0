//! HTTP/2: a connection carries many requests at once, each on a stream of its
//! own.

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

use super::Unanswered;
use crate::proxy::RequestBody;
use crate::proxy::fault::Fault;
use crate::time::monotonic;
use cancels::Cancels;
pub(super) use pool::Pool;
use upload::{OnThisWorker, StreamedBody, Upload};

/// Requests on one connection, at most. Others open another connection.
const MAX_STREAMS: u32 = 100;
/// What an endpoint may send on one stream before the client has taken it.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// What it may send on all streams of a connection: clients that do not read fill
/// the windows of their own streams, and leave those of all others.
const CONNECTION_WINDOW_BYTES: u32 = MAX_STREAMS * STREAM_WINDOW_BYTES;
/// What we hold of an upload that the endpoint is not ready for.
const MAX_SEND_BYTES: usize = 64 * 1024;
/// Bytes of a response's fields, or of its trailers.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// Streams that are remembered after they were reset: what the endpoint has sent before
/// it knew is let pass.
const MAX_RESET_STREAMS: usize = 1000;
/// How long nothing may come while an answer is awaited, until it is asked
/// whether somebody is still there.
const PING_AFTER: Duration = Duration::from_secs(20);
/// How long that answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection. It ends when nobody holds it and its last stream has ended.
pub(in crate::proxy) struct Connection {
    sender: SendRequest<StreamedBody>,
    executor: OnThisWorker,
    streams: Cell<usize>,
    /// Streams that the endpoint allows at once, which may change at any time.
    max_streams: Box<dyn Fn() -> usize>,
    /// When the last stream ended.
    idle_since: Cell<Instant>,
    cancels: RefCell<Cancels>,
    /// Whether it takes no more requests.
    is_retired: Cell<bool>,
    /// Whether its end has been noticed by one of its requests.
    is_lost: Cell<bool>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("streams", &self.streams).finish_non_exhaustive()
    }
}

impl Connection {
    /// Speaks HTTP/2 over `stream`, in tasks of its own on this worker, as soon as the
    /// endpoint has said how many streams it allows: what is opened before may be
    /// refused.
    ///
    /// # Errors
    /// If the other side does not speak HTTP/2.
    pub(super) async fn over<T>(stream: T) -> Result<Self, Fault>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let executor = OnThisWorker::default();
        let (sender, connection) = Builder::new(executor.clone())
            .timer(TokioTimer::new())
            .initial_max_send_streams(0)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(MAX_SEND_BYTES)
            .max_header_list_size(MAX_HEAD_BYTES)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            // It would end the connection for all, and clients can bring it about.
            .max_local_error_reset_streams(None)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Fault::Unreachable)?;
        let connection = Rc::new(RefCell::new(connection));
        // The task alone holds it: when it has ended, whoever asks must see that.
        let asked = Rc::downgrade(&connection);
        let max_streams = Box::new(move || {
            asked.upgrade().map_or(0, |connection| connection.borrow().current_max_send_streams())
        });
        // Its errors reach whoever waits for a response on it.
        executor.run(poll_fn(move |cx| Pin::new(&mut *connection.borrow_mut()).poll(cx)));
        while max_streams() == 0 {
            if sender.is_closed() {
                return Err(Fault::Unreachable);
            }
            executor.hears().await;
        }
        let now = monotonic();
        Ok(Self {
            sender,
            executor,
            streams: Cell::new(0),
            max_streams,
            idle_since: Cell::new(now),
            cancels: RefCell::new(Cancels::new(now)),
            is_retired: Cell::new(false),
            is_lost: Cell::new(false),
        })
    }
}

/// A stream of a connection, for one request. What has not ended of the request
/// and its response ends with this value.
#[derive(Debug)]
pub(in crate::proxy) struct Stream {
    connection: Rc<Connection>,
    /// The request's body on its way.
    upload: Upload,
    /// Whether there is something of the request or its response that would have to
    /// be cut off.
    is_awaited: bool,
}

impl Stream {
    pub(super) fn of(connection: Rc<Connection>) -> Self {
        connection.streams.set(connection.streams.get() + 1);
        Self { connection, upload: Upload::default(), is_awaited: false }
    }

    /// Sends a request. To drop the future, and then the stream, is to cancel it.
    ///
    /// # Errors
    /// If there is no response; then the request, if nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let Connection { sender, executor, .. } = &*self.connection;
        let progress = request.body().progress();
        let (upload, body) = StreamedBody::of(request, executor);
        self.upload = upload;
        self.is_awaited = true;
        let answer = sender.clone().try_send_request(body).await;
        // The library cuts off a stream whose body breaks, or whose answer it refuses;
        // other failures are the endpoint's word.
        self.is_awaited = match &answer {
            Ok(_) => true,
            Err(_) if progress.is_some_and(|progress| progress.fault().is_some()) => true,
            Err(error) => Fault::of(error.error()).is_cut_off(),
        };
        answer.map_err(|mut error| {
            let request = error.take_message().map(|request| request.map(StreamedBody::into_inner));
            Unanswered { error: error.into_error(), request }
        })
    }

    /// The response has been read to its end.
    pub(in crate::proxy) fn end(mut self) {
        self.is_awaited = false;
    }

    /// Whether the end of the connection has not been noticed before.
    pub(super) fn is_first_to_notice(&self) -> bool {
        !self.connection.is_lost.replace(true)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // An answer that is complete needs no more of the request; without one the
        // request is cancelled.
        let is_cut = self.upload.stop();
        let connection = &self.connection;
        let now = monotonic();
        if (is_cut || self.is_awaited) && connection.cancels.borrow_mut().are_too_many(now) {
            connection.is_retired.set(true);
        }
        connection.streams.set(connection.streams.get() - 1);
        connection.idle_since.set(now);
    }
}

/// Makes a request one of HTTP/2: host and scheme are part of the target, and
/// nothing is said about the connection (RFC 9113, sections 8.2.2 and 8.3.1). A
/// request that names no host is for `authority`.
pub(super) fn prepare(request: &mut Request<RequestBody>, authority: &HeaderValue, scheme: Scheme) {
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(TRANSFER_ENCODING);
    if let Some(expectation) = request.body().expectation() {
        // The library does not tell of a 100 that comes over HTTP/2.
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
    use super::super::http1;
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

    /// A request that was not sent may go to an endpoint that speaks HTTP/1.1.
    #[test]
    fn a_request_can_be_made_one_of_http_1_again() {
        let authority = HeaderValue::from_static("10.0.0.1:80");
        let mut request = request("/a?b", Some("a.test"));
        prepare(&mut request, &authority, Scheme::HTTP);
        http1::prepare(&mut request, &authority);
        assert_eq!(request.uri(), "/a?b");
        assert_eq!(request.headers()[HOST], "a.test");
    }
}
