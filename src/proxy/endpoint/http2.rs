//! HTTP/2: a connection carries many requests at once, each on a stream of its
//! own.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::header::{EXPECT, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri, Version};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;

use crate::proxy::RequestBody;
use crate::time::monotonic;

/// Connections to one endpoint, by one worker. When all are full, requests wait
/// for a stream.
const MAX_CONNECTIONS: usize = 8;
/// What an endpoint may send on one stream before we have read it.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// What it may send on all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What we hold of an upload that the endpoint is not ready for.
const MAX_SEND_BYTES: usize = 64 * 1024;
/// Bytes of a response's fields, or of its trailers.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// How long nothing may come while an answer is awaited, until it is asked
/// whether somebody is still there.
const PING_AFTER: Duration = Duration::from_secs(20);
/// How long that answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection. It ends when nobody holds it and its last stream has ended.
pub(in crate::proxy) struct Connection {
    sender: SendRequest<RequestBody>,
    streams: Cell<usize>,
    /// Streams that the endpoint allows at once, which may change at any time.
    max_streams: Box<dyn Fn() -> usize>,
    /// When the last stream ended.
    idle_since: Cell<Instant>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("streams", &self.streams).finish_non_exhaustive()
    }
}

/// Tasks of a connection stay on its worker.
#[derive(Clone, Copy, Debug)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

impl Connection {
    /// Speaks HTTP/2 over `stream`, in tasks of its own on this worker.
    ///
    /// # Errors
    /// If the stream has ended.
    pub(super) async fn over<T>(stream: T) -> hyper::Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (sender, connection) = Builder::new(Local)
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(MAX_SEND_BYTES)
            .max_header_list_size(MAX_HEAD_BYTES)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(stream))
            .await?;
        let connection = Rc::new(RefCell::new(connection));
        // The task alone holds it: when it has ended, whoever asks must see that.
        let asked = Rc::downgrade(&connection);
        let max_streams = Box::new(move || {
            asked.upgrade().map_or(0, |connection| connection.borrow().current_max_send_streams())
        });
        // Its errors reach whoever waits for a response on it.
        spawn_local(poll_fn(move |cx| Pin::new(&mut *connection.borrow_mut()).poll(cx)));
        let idle_since = Cell::new(monotonic());
        Ok(Self { sender, streams: Cell::new(0), max_streams, idle_since })
    }
}

/// A stream of a connection, for one request.
#[derive(Debug)]
pub(in crate::proxy) struct Stream {
    connection: Rc<Connection>,
}

impl Stream {
    pub(super) fn of(connection: Rc<Connection>) -> Self {
        connection.streams.set(connection.streams.get() + 1);
        Self { connection }
    }

    pub(super) fn sender(&self) -> SendRequest<RequestBody> {
        self.connection.sender.clone()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.streams.set(self.connection.streams.get() - 1);
        self.connection.idle_since.set(monotonic());
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

/// The connections to one endpoint.
#[derive(Debug)]
pub(super) struct Pool {
    idle_timeout: Duration,
    connections: RefCell<Vec<Rc<Connection>>>,
}

impl Pool {
    pub(super) fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, connections: RefCell::default() }
    }

    /// A stream of a connection that has room for one more. If there may be no
    /// more connections, it is one of the least busy, and waits there.
    pub(super) fn stream(&self) -> Option<Stream> {
        self.close_expired();
        let connections = self.connections.borrow();
        let has_room = |it: &&Rc<Connection>| it.streams.get() < (it.max_streams)();
        let roomy = connections.iter().find(has_room);
        let least_busy = || match connections.len() {
            0..MAX_CONNECTIONS => None,
            _ => connections.iter().min_by_key(|it| it.streams.get()),
        };
        roomy.or_else(least_busy).map(|connection| Stream::of(Rc::clone(connection)))
    }

    /// Adds a connection, if there may be one more.
    pub(super) fn add(&self, connection: Rc<Connection>) {
        let mut connections = self.connections.borrow_mut();
        if connections.len() < MAX_CONNECTIONS {
            connections.push(connection);
        }
    }

    /// Lets go of the connections that have ended, and closes those that have
    /// been idle for too long.
    pub(super) fn close_expired(&self) {
        let is_wanted = |it: &Rc<Connection>| {
            let is_idle = it.streams.get() == 0;
            let has_expired = is_idle && it.idle_since.get().elapsed() >= self.idle_timeout;
            !it.sender.is_closed() && !has_expired
        };
        self.connections.borrow_mut().retain(is_wanted);
    }
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
