//! The choice of a worker, and real connections on real threads.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as Client};
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::Full;
use proptest::prelude::*;
use tokio::runtime::Builder;
use tollgate_core::drain::{self, Stop};
use tower::service_fn;

use super::*;
use crate::server::accept::permits::Permits;
use crate::server::accept::socket::WorkerSocket;
use crate::server::settings::WhenFull;
use crate::server::{
    Capacity, ClientBody, ListenAddress, Listener, ListenerConfig, ListenerSettings, serve,
};

const WORKERS: usize = 4;

fn permit() -> Permit {
    let permits = Permits::new(1, WhenFull::Wait, Capacity::new(1));
    permits.acquire().now_or_never().flatten().expect("there is one")
}

/// Workers with these numbers of open connections, and the assignments that count them.
fn having(open: &[usize]) -> (Vec<(Balancer, Handoff)>, Vec<Assignment>) {
    let workers: Vec<_> = among(open.len()).0.collect();
    let assignments = open.iter().enumerate();
    let assignments = assignments.flat_map(|(worker, open)| {
        let balancer = &workers[0].0;
        (0..*open).map(move |_| balancer.count(worker, permit()))
    });
    let assignments = assignments.collect();
    (workers, assignments)
}

proptest! {
    /// With few workers all are compared. The connection goes to the least busy one, or
    /// stays if its worker has at most an eighth more.
    #[test]
    fn a_connection_goes_to_the_least_busy_worker(
        open in prop::collection::vec(0_usize..40, 1..=COMPARED_WORKERS + 1),
    ) {
        let (workers, _assignments) = having(&open);
        let least = *open.iter().min().unwrap();
        for (own, (balancer, _)) in workers.iter().enumerate() {
            let chosen = balancer.choose();
            if own == chosen {
                prop_assert!(open[own] <= least + least / 8);
            } else {
                prop_assert_eq!(open[chosen], least);
                prop_assert!(open[own] > least);
            }
        }
    }

    /// With many workers some are compared, others each time.
    #[test]
    fn every_one_of_many_workers_is_chosen(busy in 0_usize..64) {
        let mut open = [1; 64];
        open[busy] = 8;
        let (workers, _assignments) = having(&open);
        let chosen: std::collections::HashSet<_> =
            (0..2000).map(|_| workers[busy].0.choose()).collect();
        prop_assert_eq!(chosen.len(), 63, "of 63 others");
        prop_assert!(!chosen.contains(&busy));
    }
}

#[test]
fn a_connection_that_ends_is_no_longer_counted() {
    let (workers, mut assignments) = having(&[2, 1]);
    assert_eq!(workers[0].0.choose(), 1);
    assignments.remove(0);
    assert_eq!(workers[0].0.choose(), 0);
    assignments.clear();
    assert_eq!([0, 1].map(|worker| workers[0].0.workers.open(worker)), [0, 0]);
}

fn config(max_connections: usize) -> ListenerConfig {
    let address = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let settings = ListenerSettings { max_connections, ..ListenerSettings::new(address) };
    ListenerConfig::new(settings).unwrap()
}

/// Workers on threads of their own, which count the connections that they serve.
struct TestServer {
    address: SocketAddr,
    served: Arc<[AtomicUsize; WORKERS]>,
    workers: Vec<(Stop, JoinHandle<()>)>,
}

impl TestServer {
    fn open(max_connections: usize, capacity: usize) -> Self {
        let (listeners, _) =
            Listener::bind(config(max_connections), WORKERS, &Capacity::new(capacity)).unwrap();
        Self::with(listeners)
    }

    /// With the portable form of listening: all workers accept from one socket.
    fn open_shared() -> Self {
        let bound = WorkerSocket::bind_shared("127.0.0.1:0".parse().unwrap(), WORKERS);
        let (listeners, _) = Listener::on(bound, config(1000), &Capacity::new(1000)).unwrap();
        Self::with(listeners)
    }

    fn with(listeners: Vec<Listener>) -> Self {
        let address = listeners[0].address().tcp().unwrap();
        let served: Arc<[AtomicUsize; WORKERS]> = Arc::default();
        let worker = |(index, listener): (usize, Listener)| {
            let (stop, drain) = drain::channel();
            let served = Arc::clone(&served);
            let run = move || {
                let mut builder = Builder::new_current_thread();
                let runtime = builder.enable_all().build_local(Default::default()).unwrap();
                runtime.block_on(async move {
                    let mut ended = drain.clone();
                    let serving = serve(listener, drain, None, move |_, _, _| {
                        served[index].fetch_add(1, Ordering::Relaxed);
                        service_fn(async |_: Request<ClientBody>| {
                            Ok(Response::new(Full::new(Bytes::from_static(b"ok"))))
                        })
                    });
                    serving.await.unwrap();
                    // Connections stay open until the time of the drain is over.
                    ended.over().await;
                });
            };
            (stop, thread::spawn(run))
        };
        let workers = listeners.into_iter().enumerate().map(worker).collect();
        Self { address, served, workers }
    }

    fn served(&self) -> [usize; WORKERS] {
        self.served.each_ref().map(|served| served.load(Ordering::Relaxed))
    }

    fn close(self) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        for (stop, thread) in self.workers {
            runtime.block_on(stop.finish(Duration::from_millis(1)));
            thread.join().unwrap();
        }
    }
}

/// A client that has a response and keeps its connection.
fn answered(address: SocketAddr) -> Client {
    let mut client = Client::connect(address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    client
}

#[test]
fn long_lived_connections_are_the_same_number_on_each_worker() {
    for server in [TestServer::open(1000, 1000), TestServer::open_shared()] {
        let clients: Vec<_> = (0..6 * WORKERS).map(|_| answered(server.address)).collect();
        assert_eq!(server.served(), [6; WORKERS]);
        drop(clients);
        server.close();
    }
}

/// A connection with a permit is served while accepted ones wait for theirs.
#[test]
fn a_handed_off_connection_does_not_wait_behind_one_without_a_permit() {
    for (max_connections, capacity) in [(WORKERS, 1000), (1000, WORKERS), (1, 1)] {
        let server = TestServer::open(max_connections, capacity);
        let clients: Vec<_> = (0..10 * WORKERS)
            .map(|_| thread::spawn(move || answered_and_gone(server.address)))
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(server.served().iter().sum::<usize>(), 10 * WORKERS);
        server.close();
    }
}

fn answered_and_gone(address: SocketAddr) {
    drop(answered(address));
}

#[test]
fn a_connection_that_another_worker_refuses_is_served_here() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut workers, _assignments) = having(&[1, 0]);
        let mut closed = workers.pop().unwrap().1;
        closed.close();
        let (balancer, _) = &workers[0];
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = Client::connect(address).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let stream = Tcp::new(stream.into_std().unwrap());
        let peer = Peer::new(address, address);
        let accepted = balancer.assign(Either::Left(stream), peer, permit());
        assert_eq!(accepted.expect("it stays here").unwrap().assignment.worker, 0);
        assert!(closed.next().await.is_none());
    });
}
