//! Measures the memory of a client in Redis, and the CPU time of Redis per decision:
//! the figures of docs/redis.md.
//!
//!     cargo run --release --example redis
//!
//! Starts a new `redis-server` for each line, with a socket in a temporary
//! directory. The optional argument is the number of clients; the default is a
//! million.

mod churn;
mod hot;
mod load;
mod server;

use anyhow::Context as _;
use tollgate_core::algorithm::{
    Algorithm, FixedWindow, Quota, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use tollgate_core::time::Span;
use tollgate_redis::script::SCRIPT;

use load::{Load, SERVERS_CLOCK};
use server::Server;

/// Decisions of each round.
const DECISIONS: usize = 12_800;
/// How decisions are sent: the number of calls at once, and the number of bodies in
/// each call. The first shape waits for each answer. The others send 64 decisions
/// together, and the next 64 before the answers come.
const SHAPES: [(usize, usize); 6] = [(1, 1), (64, 1), (8, 8), (4, 16), (2, 32), (1, 64)];
/// A script that does nothing.
const EMPTY: &str = "return {}";
/// The smallest work of a decision: it reads a field and writes it.
const FLOOR: &str = "local answers = {}
    for i = 2, #ARGV do
        local key, name = KEYS[i - 1], string.sub(ARGV[i], 2, 8)
        local value = redis.call('HGET', key, name) or string.sub(ARGV[i], 1, 10)
        redis.call('HSET', key, name, value)
        answers[i - 1] = value
    end
    return answers";

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() -> anyhow::Result<()> {
    let clients = std::env::args().nth(1).map_or(Ok(1_000_000), |number| number.parse());
    let clients: u32 = clients.context("the argument is a number of clients")?;
    let one = [sliding(100, 60)?];
    let three = [sliding(10, 1)?, sliding(100, 60)?, sliding(1000, 3600)?];
    let six = [
        sliding(10, 1)?,
        sliding(100, 60)?,
        sliding(1000, 3600)?,
        sliding(10_000, 86_400)?,
        Algorithm::TokenBucket(TokenBucket::new(quota(100, 60)?, 20)?),
        Algorithm::TokenBucket(TokenBucket::new(quota(1000, 3600)?, 200)?),
    ];
    let sub_windows = [Algorithm::SubWindows(SubWindows::new(quota(100, 60)?, 60)?)];
    let log = [Algorithm::SlidingLog(SlidingLog::new(quota(10, 3600)?)?)];
    let bucket = [Algorithm::TokenBucket(TokenBucket::new(quota(100, 60)?, 20)?)];
    let fixed = [Algorithm::FixedWindow(FixedWindow::new(quota(100, 60)?))];
    println!("| | bytes | single | 64 × 1 | 8 × 8 | 4 × 16 | 2 × 32 | 1 × 64 |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for (name, script, policies) in [
        ("a script that does nothing", EMPTY, &one[..]),
        ("one that reads a field and writes it", FLOOR, &one),
        ("one `sliding_window`", SCRIPT.source, &one),
        ("three of 1 s, 1 min and 1 h", SCRIPT.source, &three),
        ("six: these, one of a day, and two `token_bucket`", SCRIPT.source, &six),
        ("one `fixed_window`", SCRIPT.source, &fixed),
        ("one `token_bucket`", SCRIPT.source, &bucket),
        ("one `sliding_window` with 60 `buckets`", SCRIPT.source, &sub_windows),
        ("one `sliding_log` of 10 an hour", SCRIPT.source, &log),
    ] {
        println!("{}", measure(name, script, policies, clients)?);
    }
    println!("\n| one key for all clients | alone | in a call of 64 |\n|---|---:|---:|");
    for line in hot::measure(SCRIPT.source)? {
        println!("{line}");
    }
    println!("\n{}", churn::measure(one[0].clone(), clients)?);
    Ok(())
}

fn quota(limit: u64, window_s: u64) -> anyhow::Result<Quota> {
    Ok(Quota::new(limit, Span::from_secs(window_s))?)
}

fn sliding(limit: u64, window_s: u64) -> anyhow::Result<Algorithm> {
    Ok(Algorithm::SlidingWindow(SlidingWindow::new(quota(limit, window_s)?)))
}

/// Fills a server with clients under these policies. Returns a line of the table.
fn measure(
    name: &str,
    script: &str,
    policies: &[Algorithm],
    clients: u32,
) -> anyhow::Result<String> {
    let mut server = Server::start(script)?;
    let load = Load::new(clients, policies, &server.sha);
    let empty = server.info("memory", "used_memory")?;
    let all: Vec<u32> = (0..clients).collect();
    for some in all.chunks(64) {
        server.run(&[load.call(some, SERVERS_CLOCK)])?;
    }
    let bytes = (server.info("memory", "used_memory")? - empty) / f64::from(clients);
    let mut line = format!("| {name} | {bytes:.1} |");
    let mut random = fastrand::Rng::with_seed(1);
    for (calls, bodies) in SHAPES {
        let in_flight = if calls * bodies == 1 { 1 } else { 2 };
        let groups = DECISIONS / (calls * bodies).max(8);
        let cpu_us = server.least_us(groups, in_flight, || {
            let mut some = || (0..bodies).map(|_| random.u32(..clients)).collect::<Vec<_>>();
            (0..calls).map(|_| load.call(&some(), SERVERS_CLOCK)).collect()
        })?;
        let decisions = u32::try_from(groups * calls * bodies)?;
        line += &format!(" {:.1} |", cpu_us / f64::from(decisions));
    }
    Ok(line)
}
