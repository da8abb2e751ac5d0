//! Seeded traffic in integers: when which client sends a request.

use fastrand::Rng;
use tollgate_core::time::{Span, Timestamp};

/// Total number of requests of each kind of traffic.
const REQUESTS: usize = 1_000_000;
const START: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// A kind of traffic.
#[derive(Clone, Copy)]
pub(crate) enum Traffic {
    /// 1,000 equal clients that send three quarters of their limit on average.
    Below,
    /// 1,000 equal clients that send as much as their limit on average.
    At,
    /// 1,000 clients that send in sessions, and pause between them.
    Sessions,
    /// 10,000 clients; client n sends 1/n of the requests of client 1.
    Zipf,
}

impl Traffic {
    pub(crate) const ALL: [Self; 4] = [Self::Below, Self::At, Self::Sessions, Self::Zipf];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Below => "uniform, below",
            Self::At => "uniform, at the limit",
            Self::Sessions => "sessions",
            Self::Zipf => "Zipf",
        }
    }

    /// The times of every client's requests, in order.
    pub(crate) fn clients(self) -> Vec<Vec<Timestamp>> {
        let mut random = Rng::with_seed(2026);
        match self {
            Self::Below => weighted(&[1; 1000], Span::from_micros(800), &mut random),
            Self::At => weighted(&[1; 1000], Span::from_micros(600), &mut random),
            Self::Sessions => (0..1000).map(|_| sessions(REQUESTS / 1000, &mut random)).collect(),
            Self::Zipf => {
                let weights: Vec<u64> = (1..=10_000).map(|rank| 1_000_000_000 / rank).collect();
                weighted(&weights, Span::from_millis(2), &mut random)
            }
        }
    }
}

/// One stream of requests with this mean gap. Each request belongs to a random
/// client; the weights are the probabilities.
fn weighted(weights: &[u64], gap: Span, random: &mut Rng) -> Vec<Vec<Timestamp>> {
    let mut sum = 0;
    let sums: Vec<u64> = weights.iter().map(|weight| (sum += weight, sum).1).collect();
    let mut clients = vec![Vec::new(); weights.len()];
    let mut now = START;
    for _ in 0..REQUESTS {
        now = now.plus(Span::from_micros(random.u64(0..=2 * gap.as_micros())));
        let drawn = random.u64(0..sum);
        clients[sums.partition_point(|&sum| sum <= drawn)].push(now);
    }
    clients
}

/// Sessions of 1 to 150 requests, up to 400 ms apart, with up to two minutes
/// between sessions: 60 requests per minute on average, and often more than 100 in
/// one minute.
fn sessions(requests: usize, random: &mut Rng) -> Vec<Timestamp> {
    let mut times = Vec::with_capacity(requests);
    let mut now = START;
    while times.len() < requests {
        now = now.plus(Span::from_micros(random.u64(0..=120_000_000)));
        for _ in 0..random.usize(1..=150).min(requests - times.len()) {
            now = now.plus(Span::from_micros(random.u64(0..=400_000)));
            times.push(now);
        }
    }
    times
}
