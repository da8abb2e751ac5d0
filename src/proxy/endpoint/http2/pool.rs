//! The connections to one endpoint that carry requests.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::bounds::MAX_STREAMS;
use super::{Connection, Stream};

/// The most connections of one worker to one endpoint.
const MAX_CONNECTIONS: usize = 64;

/// The connections to one endpoint.
#[derive(Debug)]
pub struct Pool {
    idle_timeout: Duration,
    connections: RefCell<Vec<Rc<Connection>>>,
}

impl Pool {
    pub fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, connections: RefCell::default() }
    }

    /// A stream on a connection with room for one more.
    pub fn stream(&self) -> Option<Stream> {
        self.close_expired();
        let connections = self.connections.borrow();
        let has_room = |it: &&Rc<Connection>| it.has_own_room() && it.streams.get() < it.allowed();
        connections.iter().find(has_room).map(|connection| Stream::of(Rc::clone(connection)))
    }

    /// A stream on the connection with the fewest streams, where it waits until the
    /// endpoint allows one more.
    pub fn waiting_stream(&self) -> Option<Stream> {
        let connections = self.connections.borrow();
        let is_usable = |it: &&Rc<Connection>| it.has_own_room() && it.allowed() > 0;
        let least_busy = connections.iter().filter(is_usable).min_by_key(|it| it.streams.get());
        least_busy.map(|connection| Stream::of(Rc::clone(connection)))
    }

    /// Whether a connection has room for one more stream.
    pub fn has_room(&self) -> bool {
        let has_room = |it: &Rc<Connection>| {
            it.is_open() && it.has_own_room() && it.streams.get() < it.allowed()
        };
        self.connections.borrow().iter().any(has_room)
    }

    /// Connections that could be given up: a request on each of them has ended.
    pub fn available(&self) -> usize {
        let is_available = |it: &&Rc<Connection>| it.is_open() && it.is_used.get();
        self.connections.borrow().iter().filter(is_available).count()
    }

    /// Lets the connection with the fewest streams take no more requests: it is closed after its last
    /// one. Returns whether there was one.
    pub fn give_up(&self) -> bool {
        let given_up = {
            let connections = self.connections.borrow();
            let available = connections.iter().filter(|it| it.is_open() && it.is_used.get());
            available.min_by_key(|it| it.streams.get()).cloned()
        };
        let Some(connection) = given_up else { return false };
        connection.is_retired.set(true);
        self.close_expired();
        true
    }

    /// Whether the endpoint has as many connections as it may have.
    pub fn is_full(&self) -> bool {
        self.connections.borrow().len() >= MAX_CONNECTIONS
    }

    /// Adds a connection, unless the pool is full.
    pub fn add(&self, connection: Rc<Connection>) {
        if !self.is_full() {
            self.connections.borrow_mut().push(connection);
        }
    }

    /// Drops connections that have ended, are retired, or have been idle for too long.
    pub fn close_expired(&self) {
        let is_kept = |it: &Rc<Connection>| {
            let is_idle = it.streams.get() == 0;
            let has_expired = is_idle && it.idle_since.get().elapsed() >= self.idle_timeout;
            it.is_open() && !has_expired
        };
        self.connections.borrow_mut().retain(is_kept);
    }
}

impl Connection {
    /// Whether it takes more requests.
    fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.is_retired.get()
    }

    /// Streams that the endpoint allows at once.
    fn allowed(&self) -> usize {
        (self.max_streams)()
    }

    /// Whether the gateway's own bounds allow one more stream.
    fn has_own_room(&self) -> bool {
        u32::try_from(self.streams.get()).is_ok_and(|streams| streams < MAX_STREAMS)
    }
}
