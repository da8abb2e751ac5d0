//! The memory of a client in Redis, and the number of commands of a decision. Unlike
//! microseconds, these are the same on all machines.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::algorithm::{Algorithm, Quota, SlidingWindow};
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::time::Span;

use super::*;
use crate::codec::Ask;
use crate::layout::Layout;

const CLIENTS: u32 = 200_000;
const BATCH: usize = 64;
/// 2026-11-21T07:28:46Z.
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn sliding(limit: u64, window_s: u64) -> Algorithm {
    let quota = Quota::new(limit, Span::from_secs(window_s)).unwrap();
    Algorithm::SlidingWindow(SlidingWindow::new(quota))
}

/// A server that decides clients by these policies.
struct Filled<'p> {
    server: Server,
    encoder: Encoder,
    policies: &'p [Algorithm],
}

impl<'p> Filled<'p> {
    /// The server after each client was admitted once.
    fn new(clients: u32, policies: &'p [Algorithm]) -> Self {
        let encoder = Encoder::new(Layout::new("aims", clients.into()), 1);
        let mut filled = Self { server: Server::start(), encoder, policies };
        filled.admit_each(clients, NOW);
        filled
    }

    fn admit_each(&mut self, clients: u32, now: Timestamp) {
        let all: Vec<u32> = (0..clients).collect();
        for some in all.chunks(BATCH) {
            let bodies: Vec<_> = some.iter().map(|client| self.body(*client, now)).collect();
            let answers: Vec<Vec<u8>> =
                call(&bodies, now).query(&mut self.server.connection).unwrap();
            assert!(answers.iter().all(|answer| answer[0] == 0), "all are admitted");
        }
    }

    fn body(&self, client: u32, now: Timestamp) -> Encoded {
        // The bits of a digest are as good as random.
        let principal = Principal::from_bits(fastrand::Rng::with_seed(client.into()).u128(..));
        let asked: Vec<_> = (1..)
            .zip(self.policies)
            .map(|(policy, algorithm)| {
                let key = Key { principal, counter: Counter::from_bits(policy) };
                Asked { key, algorithm, ask: Ask::Take(1), binding: true }
            })
            .collect();
        self.encoder.encode(&asked, now)
    }

    /// The minimum of several looks. For a moment Redis may have a table of keys twice. It also
    /// keeps 25 KiB of latencies for each kind of command that was ever called, which are removed
    /// before: they belong to no client.
    fn used_bytes(&mut self) -> u32 {
        let looks = (0..10).map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            self.server.calls();
            self.server.used_memory()
        });
        looks.min().unwrap().try_into().unwrap()
    }
}

fn bytes_per_client(policies: &[Algorithm]) -> u32 {
    let empty = Filled::new(0, policies).used_bytes();
    (Filled::new(CLIENTS, policies).used_bytes() - empty) / CLIENTS
}

#[test]
fn a_client_with_one_sliding_window_takes_at_most_32_bytes() {
    let bytes = bytes_per_client(&[sliding(100, 60)]);
    assert!((17..=32).contains(&bytes), "{bytes} bytes");
}

#[test]
fn a_client_with_three_sliding_windows_takes_at_most_48_bytes() {
    let bytes = bytes_per_client(&[sliding(10, 1), sliding(100, 60), sliding(1000, 3600)]);
    assert!((35..=48).contains(&bytes), "{bytes} bytes");
}

#[test]
fn a_decision_reads_once_and_writes_once_and_seldom_does_more() {
    const SOME: u32 = 6400;
    let policies = [sliding(10, 1), sliding(100, 60), sliding(1000, 3600)];
    let mut filled = Filled::new(SOME, &policies);
    let of = |calls: &HashMap<String, u32>, name| calls.get(name).copied().unwrap_or(0);
    let made = filled.server.calls();
    assert_eq!((of(&made, "hget"), of(&made, "hset")), (SOME, SOME));
    let buckets = u32::try_from(filled.encoder.layout().buckets()).unwrap();
    let looks = of(&made, "pttl");
    let cleans = of(&made, "hrandfield");
    assert_eq!((looks, of(&made, "pexpire")), (SOME, buckets));
    let calls = SOME / u32::try_from(BATCH).unwrap();
    assert!((calls / 2..=calls).contains(&cleans), "{cleans} calls looked for expired states");
    // In a quarter of an hour the latest end moves by one hour at most once.
    for minute in 1..=15 {
        filled.admit_each(SOME, NOW.plus(Span::from_secs(60 * minute)));
    }
    let used = filled.server.calls();
    assert_eq!((of(&used, "hget"), of(&used, "hset")), (15 * SOME, 15 * SOME));
    assert!(of(&used, "pttl") <= SOME, "{used:?}");
    assert!(of(&used, "hrandfield") <= 15 * calls, "a few fields are tried once a call at most");
    assert_eq!(of(&used, "hdel"), 0);
    assert_eq!(of(&used, "time"), 0, "the time was given");
}

#[test]
fn an_hour_after_the_traffic_no_keys_are_left() {
    let policies = [sliding(10, 1), sliding(100, 60), sliding(1000, 600)];
    let mut filled = Filled::new(1000, &policies);
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("aims:*").query(&mut filled.server.connection).unwrap();
    assert!(!keys.is_empty());
    for key in keys {
        let ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut filled.server.connection).unwrap();
        assert!((1..=3_600_000).contains(&ms), "{key} lives for {ms} ms");
    }
}
