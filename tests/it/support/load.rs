//! Load: many clients that send requests without pause, and the result of each request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Client, Response, now};

/// The parameters of a load: the gateways, the clients and the requests.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The gateways.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The number of connections to each gateway.
    pub(crate) connections: usize,
    /// The path of all requests.
    pub(crate) path: &'static str,
    /// The number of clients. They send requests in turn, each with its own `X-Client`.
    pub(crate) clients: usize,
    /// The pause between two requests on a connection.
    pub(crate) rest: Duration,
}

/// A request, and the result of its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) client: usize,
    pub(crate) sent: Instant,
    pub(crate) wait: Duration,
    pub(crate) status: u16,
    /// Whether a gateway has decided without its store.
    pub(crate) is_local: bool,
}

/// Clients that send requests until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    /// How many requests of each connection were answered.
    answered: Arc<[AtomicUsize]>,
    threads: Vec<JoinHandle<Vec<Sample>>>,
}

impl Load {
    pub(crate) fn start(plan: &Plan) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let addresses = plan.addresses.iter().flat_map(|to| vec![*to; plan.connections]);
        let connections = plan.addresses.len() * plan.connections;
        let answered: Arc<[AtomicUsize]> = (0..connections).map(|_| AtomicUsize::new(0)).collect();
        let threads = addresses.enumerate().map(|(first, address)| {
            let stop = Arc::clone(&stop);
            let answered = Arc::clone(&answered);
            let plan = plan.clone();
            thread::spawn(move || ask(address, first, &plan, &stop, &answered[first]))
        });
        Self { threads: threads.collect(), answered, stop }
    }

    /// Waits until all requests that are in progress now are answered.
    pub(crate) fn settle(&self) {
        let count = || -> Vec<usize> {
            self.answered.iter().map(|it| it.load(Ordering::Relaxed)).collect()
        };
        let before = count();
        super::eventually("each connection has an answer", || {
            count().iter().zip(&before).all(|(now, before)| now > before)
        });
    }

    /// Returns all requests in the order in which they were sent. The test fails if a
    /// request has no valid HTTP response.
    pub(crate) fn stop(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        let samples =
            self.threads.into_iter().map(|thread| thread.join().expect("all are answered"));
        let mut samples: Vec<Sample> = samples.flatten().collect();
        samples.sort_by_key(|sample| sample.sent);
        samples
    }
}

fn ask(
    address: SocketAddr,
    first: usize,
    plan: &Plan,
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> Vec<Sample> {
    let mut connection = Client::connect(address);
    let mut samples = Vec::new();
    // Connections begin with different clients, so that no two connections send in step.
    let mut client = first * 31 % plan.clients;
    while !stop.load(Ordering::Relaxed) {
        client = (client + 1) % plan.clients;
        let sent = now();
        let response = connection.get(plan.path, &[&client_field(client)]);
        samples.push(Sample {
            client,
            sent,
            wait: sent.elapsed(),
            status: response.status,
            is_local: is_local(&response),
        });
        answered.fetch_add(1, Ordering::Relaxed);
        thread::sleep(plan.rest);
    }
    samples
}

/// The field that identifies a client of [`Plan::clients`].
pub(crate) fn client_field(client: usize) -> String {
    format!("X-Client: client-{client}")
}

/// Whether the response says that the gateway has decided without its store.
pub(crate) fn is_local(response: &Response) -> bool {
    response.field("X-Ratelimit-Source") == Some("local")
}

/// The smallest wait that this percentage of the samples does not exceed.
pub(crate) fn percentile(samples: &[Sample], percent: usize) -> Duration {
    let mut waits: Vec<Duration> = samples.iter().map(|sample| sample.wait).collect();
    waits.sort_unstable();
    waits[(waits.len() * percent / 100).min(waits.len() - 1)]
}
