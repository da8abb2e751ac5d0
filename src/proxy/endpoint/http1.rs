//! HTTP/1.1: a connection carries one request at a time, and is idle in between.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{AbortHandle, spawn_local};
use tollgate_limiter::time::monotonic;

use super::driver::{Driver, Wakes};
use super::send_error::SendError;
use crate::proxy::body::RequestBody;

/// The largest head of a response in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A connection. It is closed when this value is dropped, even in the middle of an
/// upload: its request is cancelled or has its response.
#[derive(Debug)]
pub(in crate::proxy) struct Connection {
    sender: SendRequest<RequestBody>,
    wakes: Wakes,
    task: AbortHandle,
}

impl Connection {
    /// An HTTP/1.1 connection over `stream`, driven by its own task on this worker.
    ///
    /// # Errors
    /// If the stream has ended.
    pub(super) async fn over<T>(stream: T) -> hyper::Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            Builder::new().max_buf_size(MAX_HEAD_BYTES).handshake(TokioIo::new(stream)).await?;
        let wakes = Wakes::default();
        let driver = Driver::new(connection.with_upgrades(), wakes.clone());
        // The request that waits for a response gets the connection's errors.
        let task = spawn_local(driver).abort_handle();
        Ok(Self { sender, wakes, task })
    }

    /// Sends a request. Dropping the future cancels it.
    ///
    /// # Errors
    /// If there is no response.
    pub(super) async fn send(
        &mut self,
        request: Box<Request<RequestBody>>,
    ) -> Result<Response<Incoming>, SendError> {
        self.sender.try_send_request(*request).await.map_err(|mut error| {
            let request = error.take_message().map(Box::new);
            SendError { error: error.into_error(), request }
        })
    }

    /// The wake-ups of its task.
    pub(super) const fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Converts a request to HTTP/1.1: the target is a path and the host is a field
/// (RFC 9112, section 3.2). A request that names no host is for `authority`.
pub(super) fn prepare(request: &mut Request<RequestBody>, authority: &HeaderValue) {
    *request.version_mut() = Version::HTTP_11;
    if let Some(named) = request.uri().authority() {
        let named = HeaderValue::from_str(named.as_str());
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        if let Ok(host) = named {
            request.headers_mut().entry(HOST).or_insert(host);
        }
    }
    request.headers_mut().entry(HOST).or_insert_with(|| authority.clone());
    let is_framed = |fields: &HeaderMap| {
        fields.contains_key(CONTENT_LENGTH) || fields.contains_key(TRANSFER_ENCODING)
    };
    if request.body().progress().is_some() && !is_framed(request.headers()) {
        // It came over HTTP/2, where a body needs neither field. Without one of them
        // the library sends a GET without its body.
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(TRANSFER_ENCODING, chunked);
    }
    if let Some(expectation) = request.body().expectation() {
        // The client's own `Expect` was removed: it applies to the gateway alone.
        match expectation.is_waiting() {
            true => {
                let value = HeaderValue::from_static("100-continue");
                request.headers_mut().insert(EXPECT, value);
            }
            false => drop(request.headers_mut().remove(EXPECT)),
        }
    }
}

/// Idle connections.
#[derive(Debug)]
pub(super) struct Pool {
    max_idle: usize,
    idle_timeout: Duration,
    /// The most recently used is last: it is the least likely to be closed.
    idle: RefCell<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(max_idle: usize, idle_timeout: Duration) -> Self {
        Self { max_idle, idle_timeout, idle: RefCell::default() }
    }

    /// An idle connection that is not known to be closed at `now`.
    pub(super) fn reuse(&self, now: Instant) -> Option<Connection> {
        self.close_expired(now);
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { connection, .. }) = idle.pop_back() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for another request, if it can carry one.
    pub(super) fn keep(&self, connection: Connection) {
        if !connection.sender.is_ready() {
            return;
        }
        let since = monotonic();
        self.close_expired(since);
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.max_idle {
            idle.pop_front();
        }
        if self.max_idle > 0 {
            idle.push_back(Idle { connection, since });
        }
    }

    /// Closes connections that have been idle for too long at `now`.
    pub(super) fn close_expired(&self, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        let is_old = |it: &Idle| now.saturating_duration_since(it.since) >= self.idle_timeout;
        while idle.front().is_some_and(is_old) {
            idle.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_a_path_and_the_host_is_a_field() {
        let authority = HeaderValue::from_static("10.0.0.1:80");
        for (target, host, expected) in [
            ("/a?b", Some("a.test"), ("/a?b", "a.test")),
            ("http://a.test:81/a", None, ("/a", "a.test:81")),
            ("http://a.test", Some("a.test"), ("/", "a.test")),
            ("/", None, ("/", "10.0.0.1:80")),
            ("*", None, ("*", "10.0.0.1:80")),
        ] {
            let mut request = Request::new(RequestBody::EMPTY);
            *request.uri_mut() = target.parse().unwrap();
            request.headers_mut().extend(host.map(|host| (HOST, HeaderValue::from_static(host))));
            prepare(&mut request, &authority);
            assert_eq!(request.version(), Version::HTTP_11);
            assert_eq!((&*request.uri().to_string(), expected.1), (expected.0, &*text(&request)));
        }
    }

    fn text(request: &Request<RequestBody>) -> String {
        request.headers()[HOST].to_str().unwrap().to_owned()
    }
}
