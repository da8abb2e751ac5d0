//! The cost of a decision on one key that all clients use, by the size of its
//! state.

use redis::Cmd;
use tollgate_core::algorithm::{Algorithm, Concurrency, SlidingLog};
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::time::{Span, Timestamp};
use tollgate_redis::codec::{Ask, Asked, Encoder};
use tollgate_redis::layout::Layout;

use crate::server::Server;

/// 2026-11-21T07:28:30Z.
const START: Timestamp = Timestamp::from_micros(1_795_246_110_000_000);
const BATCH: u64 = 64;
/// The number of measurements; the smallest one counts.
const ROUNDS: u64 = 9;
const WINDOW: Span = Span::from_secs(60);

/// The smallest run time of the script, as the server reports it, in microseconds:
/// of a call that decides one request, and per request of a call that decides 64.
struct Least {
    alone_us: f64,
    batch_us: f64,
}

/// One principal on one server.
struct Hot<'a> {
    server: &'a mut Server,
    algorithm: &'a Algorithm,
    principal: u64,
}

impl Hot<'_> {
    fn call(&self, node: u32, ask: Ask, bodies: u64, now: Timestamp) -> Cmd {
        let encoder = Encoder::new(Layout::new("rl", 1_000_000), node);
        let principal = Principal::from_bits(u128::from(self.principal) << 100);
        let key = Key { principal, counter: Counter::from_bits(1) };
        let asked = Asked { key, algorithm: self.algorithm, ask, binding: true };
        let body = encoder.encode(&[asked], now);
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.server.sha).arg(bodies);
        (0..bodies).for_each(|_| {
            call.arg(&body.keys[0][..]);
        });
        call.arg(now.as_micros());
        (0..bodies).for_each(|_| {
            call.arg(&body.body[..]);
        });
        call
    }

    fn time_us(&mut self, call: Cmd) -> anyhow::Result<f64> {
        self.server.script_us(&[call])
    }
}

/// The table of keys that all clients use.
pub(crate) fn measure(script: &str) -> anyhow::Result<Vec<String>> {
    let mut server = Server::start(script)?;
    let mut lines = Vec::new();
    for limit in [16, 100, 1000, 10_000] {
        let least = log(&mut server, limit)?;
        lines.push(line(&format!("`sliding_log` of {limit}, nearly full"), &least));
    }
    for nodes in [1, 10, 50, 300] {
        let least = in_flight(&mut server, nodes)?;
        lines.push(line(&format!("`concurrency`, used by {nodes} nodes"), &least));
    }
    Ok(lines)
}

fn line(name: &str, Least { alone_us, batch_us }: &Least) -> String {
    format!("| {name} | {alone_us:.1} | {batch_us:.1} |")
}

/// A log with room for one more batch.
fn log(server: &mut Server, limit: u64) -> anyhow::Result<Least> {
    let quota = tollgate_core::algorithm::Quota::new(limit, WINDOW)?;
    let algorithm = Algorithm::SlidingLog(SlidingLog::new(quota)?);
    let mut least = Least { alone_us: f64::INFINITY, batch_us: f64::INFINITY };
    for round in 1..=ROUNDS {
        let principal = limit * 100 + round;
        let mut hot = Hot { server: &mut *server, algorithm: &algorithm, principal };
        let entries = limit.saturating_sub(BATCH + 1);
        let at = |entry: u64| START.plus(Span::from_micros(entry * 50_000_000 / limit));
        let fill: Vec<_> =
            (0..entries).map(|entry| hot.call(1, Ask::Take(1), 1, at(entry))).collect();
        hot.server.run(&fill)?;
        let alone = hot.call(1, Ask::Take(1), 1, at(entries + 1));
        let batch = hot.call(1, Ask::Take(1), BATCH, at(entries + 2));
        least.alone_us = least.alone_us.min(hot.time_us(alone)?);
        least.batch_us = least.batch_us.min(hot.time_us(batch)? / 64.0);
    }
    Ok(least)
}

/// A `concurrency` limit of which this number of nodes hold units.
fn in_flight(server: &mut Server, nodes: u32) -> anyhow::Result<Least> {
    let algorithm = Algorithm::Concurrency(Concurrency::new(1_000_000)?);
    let principal = u64::from(nodes) * 10_000_000;
    let mut hot = Hot { server, algorithm: &algorithm, principal };
    let hold: Vec<_> =
        (0..nodes).map(|node| hot.call(node * 7919, Ask::Take(20), 1, START)).collect();
    hot.server.run(&hold)?;
    let mut least = Least { alone_us: f64::INFINITY, batch_us: f64::INFINITY };
    for _ in 0..ROUNDS * 10 {
        let alone = hot.call(0, Ask::Take(1), 1, START);
        let batch = hot.call(0, Ask::Take(1), BATCH, START);
        least.alone_us = least.alone_us.min(hot.time_us(alone)?);
        least.batch_us = least.batch_us.min(hot.time_us(batch)? / 64.0);
    }
    Ok(least)
}
