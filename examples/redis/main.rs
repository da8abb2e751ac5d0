//! How much memory a client takes in Redis, and how much of Redis' processor a
//! decision: the figures of docs/redis.md.
//!
//! Starts a `redis-server` of its own, behind a socket in a temporary directory.

mod server;

use anyhow::Context as _;
use redis::Cmd;
use tollgate::algorithm::{Algorithm, FixedWindow, Quota, SlidingWindow, TokenBucket};
use tollgate::digest::{Counter, Key, Principal};
use tollgate::store::redis::codec::{Ask, Asked, Encoder};
use tollgate::store::redis::layout::Layout;
use tollgate::store::redis::script::{Encoded, SCRIPT};
use tollgate::time::{Span, Timestamp};

use server::Server;

/// Of each round.
const DECISIONS: usize = 12_800;
/// How decisions are sent: how many calls at once, and how many bodies in each.
const SHAPES: [(usize, usize); 5] = [(1, 1), (64, 1), (1, 4), (1, 16), (1, 64)];

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() -> anyhow::Result<()> {
    let clients = std::env::args().nth(1).map_or(Ok(1_000_000), |number| number.parse());
    let clients: u32 = clients.context("the argument is a number of clients")?;
    let sliding = |limit, s| quota(limit, s).map(SlidingWindow::new).map(Algorithm::SlidingWindow);
    let three = [sliding(10, 1)?, sliding(100, 60)?, sliding(1000, 3600)?];
    let bucket = Algorithm::TokenBucket(TokenBucket::new(quota(100, 60)?, 20)?);
    let fixed = Algorithm::FixedWindow(FixedWindow::new(quota(100, 60)?));
    let head = ["bytes", "single", "pipe 64", "batch 4", "batch 16", "batch 64"];
    println!("{:<32}{}", "policies", head.map(|name| format!("{name:>10}")).concat());
    println!("{}", compare()?);
    for (name, policies) in [
        ("1 sliding_window", &three[1..2]),
        ("1 fixed_window", &[fixed]),
        ("1 token_bucket", &[bucket]),
        ("3 sliding_window: 1s, 1m, 1h", &three),
    ] {
        println!("{}", measure(name, policies, clients)?);
    }
    Ok(())
}

fn quota(limit: u64, window_s: u64) -> anyhow::Result<Quota> {
    Ok(Quota::new(limit, Span::from_secs(window_s))?)
}

/// What the least that a script can do costs on this machine.
fn compare() -> anyhow::Result<String> {
    let mut server = Server::start("return redis.call('INCR', KEYS[1])")?;
    let increment = |server: &Server| {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&server.sha).arg(1).arg("key");
        call
    };
    let mut line = format!("{:<32}{:>10}", "(a script that only does INCR)", "");
    for (calls, _) in &SHAPES[..2] {
        let cpu_us = server.least_us(DECISIONS / calls, |server| {
            (0..*calls).map(|_| increment(server)).collect()
        })?;
        line += &format!("{:>10.2}", per_decision(cpu_us, DECISIONS)?);
    }
    Ok(line)
}

/// Fills a server with clients under these policies, and tells what they take.
fn measure(name: &str, policies: &[Algorithm], clients: u32) -> anyhow::Result<String> {
    let mut server = Server::start(SCRIPT.source)?;
    let encoder = Encoder::new(Layout::new("rl", clients.into()), 1);
    let empty = server.info("memory", "used_memory")?;
    let all: Vec<u32> = (0..clients).collect();
    for some in all.chunks(64) {
        server.run(vec![call(some.iter().map(|client| decision(&encoder, policies, *client)))])?;
    }
    let bytes = (server.info("memory", "used_memory")? - empty) / f64::from(clients);
    let mut line = format!("{name:<32}{bytes:>10.1}");
    let mut random = fastrand::Rng::with_seed(1);
    for (calls, bodies) in SHAPES {
        let cpu_us = server.least_us(DECISIONS / (calls * bodies), |_| {
            let mut body = || decision(&encoder, policies, random.u32(..clients));
            (0..calls).map(|_| call((0..bodies).map(|_| body()))).collect()
        })?;
        line += &format!("{:>10.2}", per_decision(cpu_us, DECISIONS)?);
    }
    Ok(line)
}

fn per_decision(cpu_us: f64, decisions: usize) -> anyhow::Result<f64> {
    Ok(cpu_us / f64::from(u32::try_from(decisions)?))
}

/// A take of one unit from each policy.
fn decision(encoder: &Encoder, policies: &[Algorithm], client: u32) -> Encoded {
    // The bits of a digest are as good as random.
    let principal = Principal::from_bits(fastrand::Rng::with_seed(client.into()).u128(..));
    let asked: Vec<_> = (1..)
        .zip(policies)
        .map(|(policy, algorithm)| {
            let key = Key { principal, counter: Counter::from_bits(policy) };
            Asked { key, algorithm, ask: Ask::Take(1), binding: true }
        })
        .collect();
    encoder.encode(&asked, Timestamp::default())
}

/// One call that decides all bodies, by the server's clock.
fn call(bodies: impl Iterator<Item = Encoded>) -> Cmd {
    let bodies: Vec<_> = bodies.collect();
    let keys: Vec<_> = bodies.iter().flat_map(|body| &body.keys).collect();
    let mut call = redis::cmd("EVALSHA");
    call.arg(&*SCRIPT.sha).arg(keys.len());
    for key in keys {
        call.arg(&key[..]);
    }
    call.arg(0);
    for body in &bodies {
        call.arg(&body.body[..]);
    }
    call
}
