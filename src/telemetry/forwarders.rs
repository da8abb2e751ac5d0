//! Peers that name clients in a forwarding field, and are not trusted.
//!
//! Such a peer is a proxy that the configuration lacks, and then all its clients count as one; or
//! it is a client that forges the field. Each worker has a table of its own. It keeps 64 peers at
//! most, and of each 100 clients at most, for two periods. If there are more peers, one
//! with the fewest requests gives way, because a proxy sends more requests than a client. A request
//! without a forwarding field costs nothing here, and any other one the lock of the table, which
//! only the control thread takes besides.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::policy::Unbelieved;

use super::metrics::{Counter, Samples, Source, WorkerMetrics, families};

/// The most peers of a table.
const MAX_PEERS: usize = 64;
/// The most clients that are counted of one peer.
pub const MAX_CLIENTS: usize = 100;
/// A peer that names so many clients is told of.
const LEAST_CLIENTS: usize = 2;

/// The tables of all workers.
#[derive(Debug, Default)]
pub struct Forwarders(Mutex<Vec<Arc<Mutex<Table>>>>);

/// The table of one worker.
#[derive(Debug)]
pub struct WorkerForwarders {
    table: Arc<Mutex<Table>>,
    requests: Counter,
}

/// A peer that names several clients, and is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarder {
    /// The address of the peer.
    pub peer: IpAddr,
    /// The name of the field, as it is usually written.
    pub field: &'static str,
    /// The different clients that it names, [`MAX_CLIENTS`] at most.
    pub clients: usize,
}

/// What is known of peers: in this period, and in the one before.
#[derive(Debug, Default)]
struct Table {
    now: Peers,
    before: Peers,
}

type Peers = HashMap<IpAddr, Named>;

/// What a peer names.
#[derive(Clone, Debug)]
struct Named {
    field: &'static str,
    clients: BTreeSet<IpAddr>,
    requests: u64,
}

impl Forwarders {
    /// The peers that name several clients, by their addresses.
    pub fn all(&self) -> Vec<Forwarder> {
        let mut peers = Peers::new();
        for table in self.0.lock().clone() {
            let table = table.lock();
            for (peer, named) in table.now.iter().chain(&table.before) {
                match peers.get_mut(peer) {
                    Some(known) => known.clients.extend(&named.clients),
                    None => {
                        peers.insert(*peer, named.clone());
                    }
                }
            }
        }
        let several = peers.into_iter().filter(|(_, named)| named.clients.len() >= LEAST_CLIENTS);
        let mut all: Vec<Forwarder> = several
            .map(|(peer, Named { field, clients, .. })| Forwarder {
                peer,
                field,
                clients: clients.len().min(MAX_CLIENTS),
            })
            .collect();
        all.sort_by_key(|it| it.peer);
        all
    }

    /// Begins another period, and forgets the one before the last.
    pub fn rotate(&self) {
        for table in self.0.lock().clone() {
            let mut table = table.lock();
            table.before = mem::take(&mut table.now);
        }
    }

    /// Forgets all peers, because others may be trusted now.
    pub fn clear(&self) {
        for table in self.0.lock().clone() {
            *table.lock() = Table::default();
        }
    }
}

impl fmt::Display for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, field, clients } = self;
        let or_more = if *clients >= MAX_CLIENTS { " or more" } else { "" };
        write!(
            f,
            "requests from {peer} name {clients}{or_more} clients in {field}, which is not \
             believed: name it in client.trusted_proxies"
        )
    }
}

impl Source for Forwarders {
    fn collect(&self, samples: &mut Samples) {
        let most = self.all().into_iter().map(|it| it.clients).max().unwrap_or_default();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        samples.set_whole(&families::UNBELIEVED_CLIENTS, &[], most);
    }
}

impl WorkerForwarders {
    /// The table of one more worker.
    pub fn new(forwarders: &Forwarders, metrics: &WorkerMetrics) -> Self {
        let table = Arc::<Mutex<Table>>::default();
        forwarders.0.lock().push(Arc::clone(&table));
        Self { table, requests: metrics.counter(&families::UNBELIEVED_REQUESTS, &[]) }
    }

    /// A request names a client that is not believed.
    #[cold]
    pub fn observe(&self, unbelieved: &Unbelieved) {
        self.requests.increment();
        self.table.lock().observe(unbelieved);
    }
}

impl Table {
    fn observe(&mut self, &Unbelieved { peer, field, client }: &Unbelieved) {
        if !self.now.contains_key(&peer) && self.now.len() >= MAX_PEERS {
            let least = self.now.iter().min_by_key(|(_, named)| named.requests);
            if let Some(least) = least.map(|(peer, _)| *peer) {
                self.now.remove(&least);
            }
        }
        let first = || Named { field, clients: BTreeSet::new(), requests: 0 };
        let named = self.now.entry(peer).or_insert_with(first);
        named.requests = named.requests.saturating_add(1);
        if named.clients.len() < MAX_CLIENTS {
            named.clients.insert(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    fn unbelieved(peer: u32, client: u32) -> Unbelieved {
        let [peer, client] = [peer, client].map(|it| IpAddr::from(it.to_be_bytes()));
        Unbelieved { peer, field: "X-Forwarded-For", client }
    }

    #[test]
    fn the_clients_of_a_peer_are_counted_over_all_workers() {
        let metrics = Metrics::new(100);
        let forwarders = Forwarders::default();
        let workers = [(), ()].map(|()| WorkerForwarders::new(&forwarders, &metrics.worker()));
        workers[0].observe(&unbelieved(1, 7));
        workers[0].observe(&unbelieved(1, 7));
        assert_eq!(forwarders.all(), [], "one client may be the peer itself");
        workers[1].observe(&unbelieved(1, 8));
        workers[1].observe(&unbelieved(2, 8));
        let peer = unbelieved(1, 0).peer;
        let expected = Forwarder { peer, field: "X-Forwarded-For", clients: 2 };
        assert_eq!(forwarders.all(), [expected]);
        assert_eq!(metrics.counts(&families::UNBELIEVED_REQUESTS, None)[0].1, 4);
        forwarders.clear();
        assert_eq!(forwarders.all(), []);
    }

    #[test]
    fn peers_and_clients_are_bounded_and_a_proxy_stays() {
        let metrics = Metrics::new(100);
        let forwarders = Forwarders::default();
        let worker = WorkerForwarders::new(&forwarders, &metrics.worker());
        for client in 0..1000 {
            worker.observe(&unbelieved(1, client));
        }
        for peer in 2..5000 {
            worker.observe(&unbelieved(peer, peer));
            worker.observe(&unbelieved(peer, peer + 1));
        }
        let all = forwarders.all();
        assert_eq!(all.len(), MAX_PEERS);
        assert_eq!((all[0].peer, all[0].clients), (unbelieved(1, 0).peer, MAX_CLIENTS));
        let table = worker.table.lock();
        let clients = table.now.values().map(|named| named.clients.len()).sum::<usize>();
        assert!(clients <= MAX_PEERS * MAX_CLIENTS);
    }

    #[test]
    fn a_peer_is_forgotten_after_two_periods() {
        let metrics = Metrics::new(100);
        let forwarders = Forwarders::default();
        let worker = WorkerForwarders::new(&forwarders, &metrics.worker());
        worker.observe(&unbelieved(1, 1));
        forwarders.rotate();
        worker.observe(&unbelieved(1, 2));
        let seen = [(), ()].map(|()| {
            let seen = forwarders.all().len();
            forwarders.rotate();
            seen
        });
        assert_eq!(seen, [1, 0]);
    }

    #[test]
    fn the_text_says_what_to_do() {
        let mut it = Forwarder { peer: unbelieved(1, 0).peer, field: "Forwarded", clients: 14 };
        assert_eq!(
            it.to_string(),
            "requests from 0.0.0.1 name 14 clients in Forwarded, which is not believed: name it \
             in client.trusted_proxies"
        );
        it.clients = MAX_CLIENTS;
        assert!(it.to_string().contains(" 100 or more clients "));
    }
}
