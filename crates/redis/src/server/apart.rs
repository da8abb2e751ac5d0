//! One server, or several independent servers, with the same number of links to each.
//!
//! The number of links can change. New links are used when they are connected. Then a key can
//! belong to another link, and its calls on the old link have been sent before.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::join_all;
use tokio::task::{JoinHandle, spawn_local};

use super::super::connect::Target;
use super::super::link::Link;
use super::super::live_settings::LiveSettings;
use super::super::outages::Outages;
use super::super::slots;
use super::super::transport::AnyTransport;
use super::destination::Destination;
use super::rendezvous::Rendezvous;

/// One worker's links to servers that are independent of each other.
#[derive(Debug)]
pub(super) struct Apart {
    shared: Rc<Shared>,
    /// A link to a replica of the server, for reads.
    replica: Option<Rc<Link>>,
    follower: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    live: LiveSettings,
    transport: AnyTransport,
    outages: Outages,
    targets: Vec<Target>,
    pool: RefCell<Pool>,
    /// Selects the server of a key if there are several.
    shards: Option<Rendezvous>,
}

#[derive(Debug)]
struct Pool {
    /// The same number of links for each server, in the order of the servers.
    links: Vec<Rc<Link>>,
    /// The number of links to each server, at least 1.
    each: u16,
}

impl Apart {
    /// Begins to connect to these servers, of which `shards` selects one.
    pub(super) fn new(
        live: &LiveSettings,
        transport: AnyTransport,
        outages: &Outages,
        targets: Vec<Target>,
        shards: Option<Rendezvous>,
    ) -> Self {
        let shared = Shared {
            live: live.clone(),
            transport,
            outages: outages.clone(),
            targets,
            pool: RefCell::new(Pool { links: Vec::new(), each: 1 }),
            shards,
        };
        let pool = shared.resized(live.peek().connections.get());
        shared.pool.replace(pool);
        let shared = Rc::new(shared);
        let follower = spawn_local(Rc::clone(&shared).follow());
        Self { shared, replica: None, follower }
    }

    /// The same servers, with a link to a replica of the only one.
    pub(super) fn with_replica(mut self, replica: Link) -> Self {
        self.replica = Some(Rc::new(replica));
        self
    }

    /// The link to a replica of the server, for reads.
    pub(super) fn replica(&self) -> Option<Rc<Link>> {
        self.replica.clone()
    }

    pub(super) fn destination(&self, key: &[u8]) -> Destination {
        let server = self.shared.shards.as_ref().map_or(0, |shards| shards.index(key));
        let server = u16::try_from(server).unwrap_or(u16::MAX);
        let pool = self.shared.pool.borrow();
        let slot = slots::slot(key);
        let destination = Destination { server, connection: slot % pool.each, slot: 0 };
        let has_slots = pool.link(destination).is_some_and(|link| link.has_slots());
        Destination { slot: if has_slots { slot } else { 0 }, ..destination }
    }

    pub(super) fn link(&self, destination: Destination) -> Option<Rc<Link>> {
        self.shared.pool.borrow().link(destination).cloned()
    }

    pub(super) fn links(&self) -> Vec<Rc<Link>> {
        self.shared.pool.borrow().links.clone()
    }

    /// Whether all servers answer. Each refusal asks this.
    pub(super) fn is_up(&self) -> bool {
        self.shared.pool.borrow().links.iter().all(|link| link.is_up())
    }

    /// One link to each server.
    pub(super) fn one_link_each(&self) -> Vec<Rc<Link>> {
        let pool = self.shared.pool.borrow();
        pool.links.iter().step_by(pool.each.into()).cloned().collect()
    }

    /// One link to each server, beginning with the server of `key`.
    pub(super) fn copies(&self, key: &[u8]) -> Vec<Rc<Link>> {
        let links = self.one_link_each();
        let order = self.shared.shards.as_ref().map_or_else(|| vec![0], |shards| shards.order(key));
        order.into_iter().filter_map(|server| links.get(server).cloned()).collect()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl Shared {
    /// Adopts the number of links of the settings whenever it changes.
    async fn follow(self: Rc<Self>) {
        let mut live = self.live.clone();
        loop {
            let each = live.current().connections.get();
            if each != self.pool.borrow().each {
                let pool = self.resized(each);
                // No call must wait for a new connection.
                join_all(pool.links.iter().map(|link| link.settled())).await;
                self.pool.replace(pool);
            }
            live.changed().await;
        }
    }

    /// The links that there are, and new ones, or fewer.
    fn resized(&self, each: u16) -> Pool {
        let pool = self.pool.borrow();
        let mut links = Vec::with_capacity(self.targets.len() * usize::from(each));
        for (server, target) in self.targets.iter().enumerate() {
            let old = pool.links.iter().skip(server * usize::from(pool.each));
            let old = old.take(pool.each.min(each).into()).cloned();
            let open = || {
                let live = self.live.clone();
                Rc::new(Link::new(live, self.transport, target.clone(), &self.outages))
            };
            let new = std::iter::repeat_with(open);
            links.extend(old.chain(new).take(each.into()));
        }
        Pool { links, each }
    }
}

impl Pool {
    fn link(&self, Destination { server, connection, .. }: Destination) -> Option<&Rc<Link>> {
        let connection = usize::from(connection % self.each);
        self.links.get(usize::from(server) * usize::from(self.each) + connection)
    }
}
