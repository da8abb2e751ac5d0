//! `max_connections`: how many connections the process may have to each endpoint of an upstream, and
//! the queue of the requests that wait for one.
//!
//! A [`ConnectionPermit`] belongs to a socket: it is taken before the socket is opened, and given
//! back after it is closed, wherever the connection goes meanwhile. So there are never more
//! connections than permits, idle ones and ones that are being opened included. Health checks have
//! connections of their own, which do not count.
//!
//! A request waits in one queue for all endpoints of the upstream that it may use; see
//! [`FairQueue`]. These rules hold:
//!
//! - A request waits only if no endpoint that it may use has a permit left. So a new request may take
//!   a permit that is left: it overtakes none.
//! - A connection that becomes free goes to the next request of its worker that has its turn. If none
//!   has, it is closed, because a socket belongs to the runtime of its worker, and the next request
//!   of another worker gets its permit.
//! - A connection that is idle while a request waits is closed for it, on whatever worker it is.
//! - A request that waits for a connection has none. So requests never wait for each other.

mod entry;
mod fair_queue;
mod holder;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::oneshot::{Receiver, channel};

pub use entry::{Place, Wanted};
use fair_queue::FairQueue;
pub use holder::Holder;

/// What a request in the queue gets.
pub type Grant = entry::Grant<ConnectionPermit>;
type Entry = entry::Entry<ConnectionPermit>;
type Next = entry::Next<ConnectionPermit>;

/// How many connections there may be, and how requests wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Connections to each endpoint, over all workers.
    pub max: usize,
    /// Requests that may wait, over all workers.
    pub queue_length: usize,
    /// How long one request may wait.
    pub queue_timeout: Duration,
}

/// The connections to the endpoints of an upstream, over all workers.
#[derive(Debug)]
pub struct ConnectionLimit {
    state: Mutex<State>,
    /// The requests in the queue. Written with the lock, and read without.
    waiting: AtomicUsize,
    last_ticket: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// That of the settings, which grows with every change of them.
    version: u64,
    max: usize,
    queue_length: usize,
    queue: FairQueue<IpAddr, Entry>,
    /// By the identity of the endpoint.
    endpoints: HashMap<u64, Slots>,
    holders: Vec<Weak<Holder>>,
}

/// The connections to one endpoint.
#[derive(Debug)]
struct Slots {
    open: usize,
    /// Whether a connection takes no more requests, and is closed after its last one. Until a
    /// connection is closed, no further one is given up in this way.
    is_promised: bool,
    /// Whether requests that wait may get a connection to it.
    is_in_service: bool,
}

impl Slots {
    const UNUSED: Self = Self { open: 0, is_promised: false, is_in_service: false };
}

/// What the limit shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections to all endpoints.
    pub open: usize,
    /// Requests that wait.
    pub waiting: usize,
}

/// There are as many requests in the queue as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl ConnectionLimit {
    /// A limit for endpoints to which there is no connection.
    pub fn new(settings: ConnectionSettings) -> Arc<Self> {
        let state = State {
            version: 0,
            max: settings.max,
            queue_length: settings.queue_length,
            queue: FairQueue::default(),
            endpoints: HashMap::new(),
            holders: Vec::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            last_ticket: AtomicU64::new(0),
        })
    }

    /// Changes the limit to settings of this version, unless it has them already. Connections that
    /// are open stay, and count.
    pub fn change(self: &Arc<Self>, version: u64, settings: ConnectionSettings) {
        let state = &mut *self.state.lock();
        if version <= state.version {
            return;
        }
        state.version = version;
        state.max = settings.max;
        state.queue_length = settings.queue_length;
        self.grant_all(state);
    }

    /// Sets which endpoints there are, by their identities, and which of them are in service. The
    /// others get no requests from the queue. A worker that still has settings before `version`
    /// changes nothing.
    pub fn set_endpoints(
        self: &Arc<Self>,
        version: u64,
        endpoints: impl Iterator<Item = (u64, bool)>,
    ) {
        let state = &mut *self.state.lock();
        if version < state.version {
            return;
        }
        state.endpoints.values_mut().for_each(|slots| slots.is_in_service = false);
        for (endpoint, is_in_service) in endpoints {
            let slots = state.endpoints.entry(endpoint).or_insert(Slots::UNUSED);
            slots.is_in_service |= is_in_service;
        }
        state.endpoints.retain(|_, slots| slots.is_in_service || slots.open > 0);
        state.forget_failures();
        self.grant_all(state);
    }

    /// The present numbers.
    pub fn counts(&self) -> ConnectionCounts {
        let state = self.state.lock();
        ConnectionCounts {
            open: state.endpoints.values().map(|slots| slots.open).sum(),
            waiting: state.queue.len(),
        }
    }

    /// Whether a request waits.
    pub fn is_awaited(&self) -> bool {
        // Sequentially consistent, as is the number of idle connections of a holder: a request that
        // begins to wait and a connection that becomes idle see each other.
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Whether a permit for this endpoint is left.
    pub fn has_permit(&self, endpoint: u64) -> bool {
        let state = self.state.lock();
        state.endpoints.get(&endpoint).is_none_or(|slots| slots.open < state.max)
    }

    /// A permit for a connection to this endpoint, if one is left.
    pub fn try_permit(self: &Arc<Self>, endpoint: u64) -> Option<ConnectionPermit> {
        let state = &mut *self.state.lock();
        let slots = state.endpoints.entry(endpoint).or_insert(Slots::UNUSED);
        (slots.open < state.max).then(|| {
            slots.open += 1;
            ConnectionPermit { limit: Some(Arc::clone(self)), endpoint }
        })
    }

    /// A request begins to wait. If a permit is left for it, it has it at once. Idle connections are
    /// asked to close for it.
    ///
    /// # Errors
    /// If the queue is full.
    pub fn enter(
        self: &Arc<Self>,
        place: &mut Place,
        wanted: Wanted,
        room: u64,
    ) -> Result<Waiter, QueueFull> {
        let ticket = *place
            .ticket
            .get_or_insert_with(|| self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = channel();
        let waiter = Waiter {
            limit: Arc::clone(self),
            client: place.client,
            ticket,
            receiver,
            has_left: false,
        };
        let entry = Entry { wanted, room, sender };
        let state = &mut *self.state.lock();
        let max = state.max;
        let mut endpoints = state.endpoints.iter();
        let is_free = |endpoint: &u64, slots: &Slots| {
            slots.is_in_service && slots.open < max && entry.accepts(*endpoint)
        };
        if let Some(free) = endpoints.find_map(|(it, slots)| is_free(it, slots).then_some(*it)) {
            self.grant(state, free, entry);
            return Ok(waiter);
        }
        if state.queue.len() >= state.queue_length {
            // The waiter is dropped after the lock.
            return Err(QueueFull);
        }
        state.queue.push(place.client, ticket, entry);
        self.show_waiting(state);
        state.ask_holder();
        Ok(waiter)
    }

    /// Takes out of the queue the request that is to get a connection of the worker with this room, if a request of
    /// the same worker has its turn. Requests that need a new connection do not get it.
    pub fn next_in_room(&self, endpoint: u64, room: u64) -> Option<Next> {
        let state = &mut *self.state.lock();
        // After the number was lowered, a connection that is too many is closed.
        let open = state.endpoints.get(&endpoint).map_or(0, |slots| slots.open);
        if open > state.max {
            return None;
        }
        let accepts = |it: &Entry| it.room == room && !it.wanted.is_new && it.accepts(endpoint);
        let taken = state.queue.take_in_turn(accepts)?;
        self.show_waiting(state);
        Some(Next { ticket: taken.ticket, sender: taken.item.sender })
    }

    /// Whether a connection to this endpoint is to be given up for a request that waits.
    pub fn wants(&self, endpoint: u64) -> bool {
        if !self.is_awaited() {
            return false;
        }
        self.state.lock().wants(endpoint)
    }

    /// Asks another holder of idle connections, because the one that was asked has none left.
    pub fn ask_again(&self) {
        if self.is_awaited() {
            self.state.lock().ask_holder();
        }
    }

    /// Adds a holder of idle connections.
    pub fn add_holder(&self, holder: &Arc<Holder>) {
        let holders = &mut self.state.lock().holders;
        holders.retain(|it| it.strong_count() > 0);
        holders.push(Arc::downgrade(holder));
    }

    /// A connection to this endpoint takes no more requests, and is closed after its last one.
    pub fn promise(&self, endpoint: u64) {
        if let Some(slots) = self.state.lock().endpoints.get_mut(&endpoint) {
            slots.is_promised = true;
        }
    }

    /// A request leaves the queue. Returns whether it was there.
    fn leave(&self, client: IpAddr, ticket: u64) -> bool {
        let state = &mut *self.state.lock();
        let removed = state.queue.remove(client, ticket);
        self.show_waiting(state);
        removed.is_some()
    }

    /// A connection to this endpoint is closed, or was not opened.
    fn release(self: &Arc<Self>, endpoint: u64) {
        let state = &mut *self.state.lock();
        let mut was_promised = false;
        if let Some(slots) = state.endpoints.get_mut(&endpoint) {
            slots.open = slots.open.saturating_sub(1);
            was_promised = std::mem::take(&mut slots.is_promised);
        }
        self.grant_to_waiting(state, endpoint);
        if was_promised {
            state.ask_holder();
        }
        let is_unused = |it: &Slots| it.open == 0 && !it.is_in_service;
        if state.endpoints.get(&endpoint).is_some_and(is_unused) {
            state.endpoints.remove(&endpoint);
        }
    }

    fn grant_all(self: &Arc<Self>, state: &mut State) {
        let endpoints: Vec<u64> = state.endpoints.keys().copied().collect();
        endpoints.into_iter().for_each(|endpoint| self.grant_to_waiting(state, endpoint));
    }

    /// Grants the permits that are left for an endpoint.
    fn grant_to_waiting(self: &Arc<Self>, state: &mut State, endpoint: u64) {
        while state.has_room_in_service(endpoint) {
            let Some(next) = state.queue.take(|it| it.accepts(endpoint)) else { return };
            self.show_waiting(state);
            self.grant(state, endpoint, next.item);
        }
    }

    fn grant(self: &Arc<Self>, state: &mut State, endpoint: u64, entry: Entry) {
        let permit = ConnectionPermit { limit: Some(Arc::clone(self)), endpoint };
        // The waiter leaves the queue before it drops its side, so it is still there.
        match entry.sender.send(Grant::Permit(permit)) {
            Ok(()) => {
                let slots = state.endpoints.entry(endpoint).or_insert(Slots::UNUSED);
                slots.open += 1;
            }
            Err(Grant::Permit(mut unused)) => unused.limit = None,
            Err(Grant::HandedOver) => {}
        }
    }

    fn show_waiting(&self, state: &State) {
        self.waiting.store(state.queue.len(), Ordering::SeqCst);
    }
}

impl State {
    /// A request that has failed at all endpoints in service may use any of them again.
    fn forget_failures(&mut self) {
        let in_service = self.endpoints.iter().filter(|(_, slots)| slots.is_in_service);
        let in_service: SmallVec<[u64; 8]> = in_service.map(|(endpoint, _)| *endpoint).collect();
        for entry in self.queue.items_mut() {
            let except = &mut entry.wanted.except;
            if in_service.iter().all(|endpoint| except.contains(endpoint)) {
                except.clear();
            }
        }
    }

    fn has_room_in_service(&self, endpoint: u64) -> bool {
        let slots = self.endpoints.get(&endpoint);
        slots.is_some_and(|slots| slots.is_in_service && slots.open < self.max)
    }

    /// Whether a request waits for the endpoint, and no connection to it is about to be closed.
    fn wants(&self, endpoint: u64) -> bool {
        let Some(slots) = self.endpoints.get(&endpoint) else { return false };
        slots.is_in_service && !slots.is_promised && self.queue.any(|it| it.accepts(endpoint))
    }

    /// Asks the holder with the most connections that it could give up to give one up.
    fn ask_holder(&self) {
        if self.queue.len() == 0 {
            return;
        }
        let holders = self.holders.iter().filter_map(Weak::upgrade);
        let useful = holders.filter(|it| it.available() > 0 && self.wants(it.endpoint()));
        if let Some(holder) = useful.max_by_key(|it| it.available()) {
            holder.ask();
        }
    }
}

/// One of the connections that there may be to an endpoint. Dropping it gives it back, and lets the
/// next request have it.
#[derive(Debug)]
pub struct ConnectionPermit {
    /// None: it was never granted.
    limit: Option<Arc<ConnectionLimit>>,
    endpoint: u64,
}

impl ConnectionPermit {
    /// The identity of its endpoint.
    pub const fn endpoint(&self) -> u64 {
        self.endpoint
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        if let Some(limit) = self.limit.take() {
            limit.release(self.endpoint);
        }
    }
}

/// The side of the request. Dropping it leaves the queue, and gives back what was granted meanwhile.
#[derive(Debug)]
pub struct Waiter {
    limit: Arc<ConnectionLimit>,
    client: IpAddr,
    ticket: u64,
    receiver: Receiver<Grant>,
    /// Whether it is not in the queue any more.
    has_left: bool,
}

impl Waiter {
    /// Its number.
    pub const fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Waits for its turn. None: the queue has ended.
    pub async fn granted(&mut self) -> Option<Grant> {
        let granted = (&mut self.receiver).await.ok();
        self.has_left = true;
        granted
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.has_left && !self.limit.leave(self.client, self.ticket) {
            // It was granted before, and what is granted is dropped here, without the lock.
            drop(self.receiver.try_recv());
        }
    }
}
