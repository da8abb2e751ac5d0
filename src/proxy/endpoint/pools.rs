//! The connections of one worker to one endpoint.
//!
//! If the connections are bounded, they are given up for requests that wait, on this worker and on
//! others.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tokio::task::spawn_local;
use tollgate_core::time::monotonic;

use super::bounded::Bounded;
use super::connect::NewConnection;
use super::room::HandedOver;
use super::{http1, http2};

/// The connections that carry requests, or could.
#[derive(Debug)]
pub struct Pools {
    pub http1: http1::Pool,
    pub http2: http2::Pool,
    /// Whether the endpoint is known to speak HTTP/2.
    pub is_http2: Cell<bool>,
    /// What bounds the connections, if there is a bound.
    pub bounded: Option<Box<Bounded>>,
}

impl Pools {
    /// Adds a new connection for the next request.
    pub fn add(self: &Rc<Self>, connection: NewConnection) {
        match connection {
            NewConnection::Http1(connection) => {
                self.is_http2.set(false);
                self.http1.keep(connection);
            }
            NewConnection::Http2(connection) => {
                self.add_http2(Rc::new(connection));
            }
        }
    }

    /// Adds a new connection for several requests.
    pub fn add_http2(self: &Rc<Self>, connection: Rc<http2::Connection>) {
        self.is_http2.set(true);
        self.http2.add(connection);
        if let Some(bounded) = &self.bounded {
            self.watch(bounded);
            bounded.room.shared_opened();
        }
    }

    /// A request has ended, so that its connection may be idle.
    #[cold]
    pub fn has_free(self: &Rc<Self>, bounded: &Bounded) {
        self.show(bounded);
        self.watch(bounded);
        if bounded.limit.is_awaited() {
            self.give_up(bounded);
        }
    }

    /// Lets a task give up connections when other workers ask for them.
    pub fn watch(self: &Rc<Self>, bounded: &Bounded) {
        if !bounded.is_watched.replace(true) {
            let holder = Arc::clone(&bounded.holder);
            let pools = Rc::downgrade(self);
            spawn_local(async move {
                loop {
                    holder.asked().await;
                    let Some(pools) = Weak::upgrade(&pools) else { return };
                    if let Some(bounded) = &pools.bounded {
                        pools.give_up(bounded);
                        bounded.limit.ask_again();
                    }
                }
            });
        }
    }

    /// Shows other workers how many connections could be given up.
    pub fn show(&self, bounded: &Bounded) {
        bounded.holder.show(self.http1.count() + self.http2.available());
    }

    /// Gives up connections for requests that wait: hands them over, closes them, or lets them take
    /// no more requests.
    fn give_up(&self, bounded: &Bounded) {
        let Bounded { limit, room, .. } = bounded;
        let endpoint = bounded.endpoint();
        while limit.wants(endpoint) {
            if let Some(connection) = self.http1.reuse(monotonic()) {
                match limit.next_in_room(endpoint, room.id()) {
                    None => drop(connection),
                    Some(next) => {
                        room.hand_over(next.ticket, HandedOver { endpoint, connection });
                        next.grant_handed_over();
                    }
                }
            } else if self.http1.close_one() {
                // It has rested, and its permit is granted.
            } else if self.http2.give_up() {
                limit.promise(endpoint);
            } else {
                break;
            }
        }
        self.show(bounded);
    }
}
