//! The connections to one endpoint that carry requests.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::{Connection, MAX_STREAMS, Stream};

/// Connections to one endpoint, by one worker.
const MAX_CONNECTIONS: usize = 64;

/// The connections to one endpoint.
#[derive(Debug)]
pub(in crate::proxy::endpoint) struct Pool {
    idle_timeout: Duration,
    connections: RefCell<Vec<Rc<Connection>>>,
}

impl Pool {
    pub(in crate::proxy::endpoint) fn new(idle_timeout: Duration) -> Self {
        Self { idle_timeout, connections: RefCell::default() }
    }

    /// A stream of a connection that has room for one more.
    pub(in crate::proxy::endpoint) fn stream(&self) -> Option<Stream> {
        self.close_expired();
        let connections = self.connections.borrow();
        let has_room = |it: &&Rc<Connection>| it.has_own_room() && it.streams.get() < it.allowed();
        connections.iter().find(has_room).map(|connection| Stream::of(Rc::clone(connection)))
    }

    /// A stream of one of the least busy connections, where it waits until the
    /// endpoint allows one more.
    pub(in crate::proxy::endpoint) fn waiting_stream(&self) -> Option<Stream> {
        let connections = self.connections.borrow();
        let is_of_use = |it: &&Rc<Connection>| it.has_own_room() && it.allowed() > 0;
        let least_busy = connections.iter().filter(is_of_use).min_by_key(|it| it.streams.get());
        least_busy.map(|connection| Stream::of(Rc::clone(connection)))
    }

    /// Whether there may be no more connections.
    pub(in crate::proxy::endpoint) fn is_full(&self) -> bool {
        self.connections.borrow().len() >= MAX_CONNECTIONS
    }

    /// Adds a connection, if there may be one more.
    pub(in crate::proxy::endpoint) fn add(&self, connection: Rc<Connection>) {
        if !self.is_full() {
            self.connections.borrow_mut().push(connection);
        }
    }

    /// Lets go of the connections that have ended or are retired, and closes those
    /// that have been idle for too long.
    pub(in crate::proxy::endpoint) fn close_expired(&self) {
        let is_wanted = |it: &Rc<Connection>| {
            let is_idle = it.streams.get() == 0;
            let has_expired = is_idle && it.idle_since.get().elapsed() >= self.idle_timeout;
            !it.sender.is_closed() && !it.is_retired.get() && !has_expired
        };
        self.connections.borrow_mut().retain(is_wanted);
    }
}

impl Connection {
    /// Streams that the endpoint allows at once.
    fn allowed(&self) -> usize {
        (self.max_streams)()
    }

    /// Whether the window of the connection has room for one more stream.
    fn has_own_room(&self) -> bool {
        u32::try_from(self.streams.get()).is_ok_and(|streams| streams < MAX_STREAMS)
    }
}
