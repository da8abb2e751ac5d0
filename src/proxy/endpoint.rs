//! One endpoint as one worker sees it: its idle connections and its load.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::uri::Authority;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::timeout;

use super::upstream::Place;
use super::{RequestBody, UpstreamSettings};
use crate::message::Failure;
use crate::time::monotonic;

/// Bytes of a response's head that are read before it is given up.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A connection, which ends with this value: a rest of an upload that nobody
/// waits for is not sent.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One endpoint as one worker sees it.
#[derive(Debug)]
pub(super) struct Endpoint {
    address: Address,
    /// `host:port`, for the Host field of a request that has none.
    pub(super) authority: HeaderValue,
    connect_timeout: Duration,
    max_idle: usize,
    idle_timeout: Duration,
    /// The most recently used at the end: it is the least likely to be stale.
    idle: RefCell<VecDeque<Idle>>,
    in_flight: Cell<usize>,
}

#[derive(Debug)]
enum Address {
    Socket(SocketAddr),
    /// Looked up each time a connection is opened.
    Name(String),
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

impl Endpoint {
    pub(super) fn new(authority: &Authority, settings: &UpstreamSettings) -> Self {
        let name = authority.as_str().to_owned();
        Self {
            authority: HeaderValue::from_str(&name).expect("an authority is visible ASCII"),
            address: name.parse().map_or(Address::Name(name), Address::Socket),
            connect_timeout: settings.connect_timeout,
            max_idle: settings.max_idle,
            idle_timeout: settings.idle_timeout,
            idle: RefCell::default(),
            in_flight: Cell::new(0),
        }
    }

    /// Requests in flight, from this worker.
    pub(super) fn load(&self) -> usize {
        self.in_flight.get()
    }

    /// An idle connection that still stands, as far as can be told.
    pub(super) fn reuse(&self) -> Option<Connection> {
        self.close_expired();
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { connection, .. }) = idle.pop_back() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for another request, if it can take one.
    fn keep(&self, connection: Connection) {
        if !connection.sender.is_ready() {
            return;
        }
        self.close_expired();
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.max_idle {
            idle.pop_front();
        }
        if self.max_idle > 0 {
            idle.push_back(Idle { connection, since: monotonic() });
        }
    }

    /// Closes the connections that have been idle for too long.
    pub(super) fn close_expired(&self) {
        let mut idle = self.idle.borrow_mut();
        while idle.front().is_some_and(|oldest| oldest.since.elapsed() >= self.idle_timeout) {
            idle.pop_front();
        }
    }

    /// Opens a connection, which lives in a task of its own on this worker.
    ///
    /// # Errors
    /// If none can be opened, or not in time.
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        let connecting = async {
            match &self.address {
                Address::Socket(address) => TcpStream::connect(address).await,
                Address::Name(name) => TcpStream::connect(name).await,
            }
        };
        let stream = timeout(self.connect_timeout, connecting)
            .await
            .map_err(|_| Failure::UpstreamConnectTimeout)?
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|_| Failure::UpstreamUnreachable)?;
        let (sender, connection) = http1::Builder::new()
            .title_case_headers(true)
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure::UpstreamUnreachable)?;
        // Its errors reach whoever waits for a response on it.
        let task = spawn_local(connection).abort_handle();
        Ok(Connection { sender, task })
    }
}

/// A request in flight to an endpoint.
#[derive(Debug)]
pub(super) struct Lease {
    endpoint: Rc<Endpoint>,
    /// The place in the upstream that the request takes, given up with it.
    _place: Option<Place>,
}

impl Lease {
    pub(super) fn new(endpoint: Rc<Endpoint>, place: Option<Place>) -> Self {
        endpoint.in_flight.set(endpoint.in_flight.get() + 1);
        Self { endpoint, _place: place }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The response has been read to its end: its connection can serve again.
    pub(super) fn end(self, connection: Connection) {
        self.endpoint.keep(connection);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.endpoint.in_flight.set(self.endpoint.in_flight.get() - 1);
    }
}
