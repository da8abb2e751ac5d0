//! Who gets a connection, and real connections on real threads.

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
use tower::service_fn;

use super::*;
use crate::drain::{self, Stop};
use crate::server::{
    Capacity, ListenAddress, Listener, ListenerSettings, ListenerTerms, Terms, serve,
};

const WORKERS: usize = 4;

fn vacancy() -> Vacancy {
    let address = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
    let terms = Terms::new(ListenerSettings::new(address)).unwrap();
    let vacancies = ListenerTerms::new(terms, Capacity::new(1)).view().vacancies;
    vacancies.take().now_or_never().flatten().expect("there is one")
}

/// Ushers of workers that have so many connections open, and what holds these.
fn having(open: &[usize]) -> (Vec<(Usher, Door)>, Vec<Place>) {
    let workers: Vec<_> = over(open.len()).collect();
    let places = open.iter().enumerate();
    let places = places.flat_map(|(worker, open)| {
        let usher = &workers[0].0;
        (0..*open).map(move |_| usher.place(worker, vacancy()))
    });
    let places = places.collect();
    (workers, places)
}

proptest! {
    /// Few workers are all looked at: the least busy one gets the connection, or
    /// whoever has no more than an eighth above it.
    #[test]
    fn nobody_keeps_a_connection_for_which_another_has_more_room(
        open in prop::collection::vec(0_usize..40, 1..=LOOKS + 1),
    ) {
        let (workers, _places) = having(&open);
        let least = *open.iter().min().unwrap();
        for (own, (usher, _)) in workers.iter().enumerate() {
            let chosen = usher.choose();
            if own == chosen {
                prop_assert!(open[own] <= least + least / 8);
            } else {
                prop_assert_eq!(open[chosen], least);
                prop_assert!(open[own] > least);
            }
        }
    }

    /// Of many workers some are looked at, another each time.
    #[test]
    fn among_many_workers_all_are_found(busy in 0_usize..64) {
        let mut open = [1; 64];
        open[busy] = 8;
        let (workers, _places) = having(&open);
        let chosen: std::collections::HashSet<_> =
            (0..2000).map(|_| workers[busy].0.choose()).collect();
        prop_assert_eq!(chosen.len(), 63, "of 63 others");
        prop_assert!(!chosen.contains(&busy));
    }
}

#[test]
fn a_place_that_is_left_is_free_again() {
    let (workers, mut places) = having(&[2, 1]);
    assert_eq!(workers[0].0.choose(), 1);
    places.remove(0);
    assert_eq!(workers[0].0.choose(), 0);
    places.clear();
    assert_eq!([0, 1].map(|worker| workers[0].0.workers.open(worker)), [0, 0]);
}

/// Workers on threads of their own, that count whom they serve.
struct Site {
    address: SocketAddr,
    served: Arc<[AtomicUsize; WORKERS]>,
    workers: Vec<(Stop, JoinHandle<()>)>,
}

impl Site {
    fn open(max_connections: usize, capacity: usize) -> Self {
        let address = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let settings = ListenerSettings { max_connections, ..ListenerSettings::new(address) };
        let (terms, capacity) = (Terms::new(settings).unwrap(), Capacity::new(capacity));
        let (listeners, _) = Listener::bind(terms, WORKERS, &capacity).unwrap();
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
                    let serving = serve(listener, drain, move |_, _| {
                        served[index].fetch_add(1, Ordering::Relaxed);
                        service_fn(async |_: Request<crate::server::ClientBody>| {
                            Ok(Response::new(Full::new(Bytes::from_static(b"ok"))))
                        })
                    });
                    serving.await.unwrap();
                    // Connections live on until nobody waits for them any more.
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

/// A client that has been answered, and stays.
fn answered(address: SocketAddr) -> Client {
    let mut client = Client::connect(address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    client
}

#[test]
fn connections_that_stay_are_the_same_number_on_each_worker() {
    let site = Site::open(1000, 1000);
    let clients: Vec<_> = (0..6 * WORKERS).map(|_| answered(site.address)).collect();
    assert_eq!(site.served(), [6; WORKERS]);
    drop(clients);
    site.close();
}

/// One who has a place is served, though all who have just been accepted wait for theirs.
#[test]
fn whoever_is_passed_on_does_not_wait_behind_who_has_no_place_yet() {
    for (max_connections, capacity) in [(WORKERS, 1000), (1000, WORKERS), (1, 1)] {
        let site = Site::open(max_connections, capacity);
        let clients: Vec<_> = (0..10 * WORKERS)
            .map(|_| thread::spawn(move || answered_and_gone(site.address)))
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(site.served().iter().sum::<usize>(), 10 * WORKERS);
        site.close();
    }
}

fn answered_and_gone(address: SocketAddr) {
    drop(answered(address));
}

#[test]
fn a_connection_that_another_worker_does_not_take_any_more_is_served_here() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut workers, _places) = having(&[1, 0]);
        let mut closed = workers.pop().unwrap().1;
        closed.close();
        let (usher, _) = &workers[0];
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = Client::connect(address).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let peer = Peer {
            address,
            local: address,
            may_forward: true,
            is_encrypted: false,
            identity: None,
            interim: None,
        };
        let guest = usher.seat((Either::Left(stream), peer), vacancy());
        assert_eq!(guest.expect("it stays here").unwrap().place.worker, 0);
        assert!(closed.next().await.is_none());
    });
}
