//! Seeded traffic in integers: the time, client and node of each request.

use fastrand::Rng;
use tollgate_core::algorithm::{Algorithm, Quota, QuotaError, SlidingWindow, TokenBucket};
use tollgate_core::time::{Span, Timestamp};

const START: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// One request.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) at: Timestamp,
    pub(crate) client: usize,
    pub(crate) node: usize,
}

/// A kind of traffic, and its limit.
#[derive(Clone, Copy)]
pub(crate) enum Traffic {
    /// 500 clients; client n sends 1/n of the requests of client 1. All clients
    /// together send 5,000 requests per second, each request to any node.
    Zipf,
    /// The same; all requests of a client go to one node.
    ZipfSticky,
    /// Sessions of 5 to 60 requests; all requests of a client go to one node.
    SessionsSticky,
    /// The same; each request goes to any node.
    Sessions,
    /// One limit for all clients; the load is below it, three times above it, and
    /// below it again.
    Global,
}

impl Traffic {
    pub(crate) const ALL: [Self; 5] =
        [Self::Zipf, Self::ZipfSticky, Self::Sessions, Self::SessionsSticky, Self::Global];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Zipf => "Zipf, sprayed",
            Self::ZipfSticky => "Zipf, sticky",
            Self::Sessions => "sessions, sprayed",
            Self::SessionsSticky => "sessions, sticky",
            Self::Global => "one for all",
        }
    }

    /// The numbers of nodes to simulate. If each client uses one node, the number of
    /// other nodes makes no difference.
    pub(crate) const fn nodes(self) -> &'static [usize] {
        match self {
            Self::ZipfSticky | Self::SessionsSticky => &[16],
            Self::Zipf | Self::Sessions | Self::Global => &[1, 4, 16],
        }
    }

    /// The limit of every client.
    pub(crate) fn algorithm(self) -> Result<Algorithm, QuotaError> {
        let quota = |limit, window_s| Quota::new(limit, Span::from_secs(window_s));
        Ok(match self {
            Self::Zipf | Self::ZipfSticky => {
                Algorithm::SlidingWindow(SlidingWindow::new(quota(100, 10)?))
            }
            Self::Sessions | Self::SessionsSticky => {
                Algorithm::SlidingWindow(SlidingWindow::new(quota(60, 60)?))
            }
            Self::Global => Algorithm::TokenBucket(TokenBucket::new(quota(1000, 1)?, 1000)?),
        })
    }

    /// The requests in order of time.
    pub(crate) fn requests(self, nodes: usize, seed: u64) -> Vec<Request> {
        let mut random = Rng::with_seed(seed);
        let mut requests = match self {
            Self::Zipf | Self::ZipfSticky => zipf(&mut random),
            Self::Sessions | Self::SessionsSticky => sessions(&mut random),
            Self::Global => rising_and_falling(&mut random),
        };
        let sticky = matches!(self, Self::ZipfSticky | Self::SessionsSticky);
        for request in &mut requests {
            request.node = if sticky { request.client % nodes } else { random.usize(0..nodes) };
        }
        requests.sort_by_key(|request| request.at);
        requests
    }
}

fn zipf(random: &mut Rng) -> Vec<Request> {
    let mut sum = 0;
    let sums: Vec<u64> = (1..=500).map(|rank| (sum += 1_000_000_000 / rank, sum).1).collect();
    let mut now = START;
    let mut request = || {
        now = now.plus(Span::from_micros(random.u64(0..=400)));
        let drawn = random.u64(0..sum);
        Request { at: now, client: sums.partition_point(|&sum| sum <= drawn), node: 0 }
    };
    (0..100_000).map(|_| request()).collect()
}

/// 400 clients with about 15 requests per second during a session, and up to a
/// minute between two sessions.
fn sessions(random: &mut Rng) -> Vec<Request> {
    let mut requests = Vec::new();
    for client in 0..400 {
        let mut now = START.plus(Span::from_micros(random.u64(0..60_000_000)));
        for _ in 0..8 {
            for _ in 0..random.usize(5..=60) {
                now = now.plus(Span::from_micros(random.u64(33_000..=100_000)));
                requests.push(Request { at: now, client, node: 0 });
            }
            now = now.plus(Span::from_micros(random.u64(0..60_000_000)));
        }
    }
    requests
}

/// 800 requests per second for 10 s, 3,000 for 10 s, 800 for 10 s.
fn rising_and_falling(random: &mut Rng) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut now = START;
    for (seconds, rate) in [(10, 800), (10, 3000), (10, 800)] {
        for _ in 0..seconds * rate {
            now = now.plus(Span::from_micros(random.u64(0..=2_000_000 / rate)));
            requests.push(Request { at: now, client: 0, node: 0 });
        }
    }
    requests
}
