//! Measures the memory of Redis when most clients never return.
//!
//! Time is an argument of the script here, so minutes pass in seconds. Redis itself
//! expires nothing in this time, because its own clock hardly moves.

use anyhow::ensure;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::time::{Span, Timestamp};

use crate::load::Load;
use crate::server::Server;

/// 2026-11-21T07:28:30Z: the middle of a minute.
const START: Timestamp = Timestamp::from_micros(1_795_246_110_000_000);
const MINUTES: u64 = 5;
/// A state of a window of one minute counts until the end of the next window: for a
/// minute and a half on average.
const COUNTS_S: u64 = 90;
const BATCH: usize = 64;

/// Four of five requests come from new clients. The rate is such that about
/// `clients` states count at a time. Returns a report on their memory.
pub(crate) fn measure(policy: Algorithm, clients: u32) -> anyhow::Result<String> {
    let mut server = Server::start(tollgate_redis::script::SCRIPT.source)?;
    let policies = [policy.clone()];
    let window_us = policy.window().as_micros();
    let load = Load::new(clients, &policies, &server.sha);
    let empty = server.info("memory", "used_memory_rss")?;
    let requests = u64::from(clients) * 5 / 4 * MINUTES * 60 / COUNTS_S;
    let mut random = fastrand::Rng::with_seed(1);
    let mut now = START;
    // The window of the last request of each client.
    let mut seen: Vec<u64> = Vec::new();
    for first in (0..requests).step_by(BATCH) {
        now = START.plus(Span::from_micros(first * MINUTES * 60_000_000 / requests));
        let window = now.as_micros() / window_us;
        let mut some = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            let known = u32::try_from(seen.len())?;
            let client = match random.u32(..5) {
                0 if known > 0 => known - 1 - random.u32(..known.min(clients)),
                _ => known,
            };
            match seen.get_mut(usize::try_from(client)?) {
                Some(last) => *last = window,
                None => seen.push(window),
            }
            some.push(client);
        }
        server.run(&[load.call(&some, now)])?;
    }
    let window = now.as_micros() / window_us;
    let count = seen.iter().filter(|&&last| last + 1 >= window).count();
    let count = f64::from(u32::try_from(count)?);
    let resident = (server.info("memory", "used_memory_rss")? - empty) / count;
    let (fields, outliving) = server.fields_and_those_that_live_for(Span::from_secs(3600))?;
    ensure!(fields > 0, "the server is empty");
    let over = 100.0 * (f64::from(fields) - count) / f64::from(fields);
    let left = 100.0 * f64::from(outliving) / f64::from(fields);
    Ok(format!(
        "{} clients came, {count} count: {resident:.1} bytes resident for each of these; \
         {over:.1} % of the fields are over, and an hour later {left:.1} % will be left.",
        seen.len(),
    ))
}
