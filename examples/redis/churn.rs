//! Clients of whom most never come back: what they leave behind.
//!
//! Time is the script's argument here, so minutes pass in seconds. Redis itself
//! removes nothing meanwhile, because its own clock has hardly moved.

use anyhow::ensure;
use tollgate::algorithm::Algorithm;
use tollgate::time::{Span, Timestamp};

use crate::load::Load;
use crate::server::Server;

/// 2026-11-21T07:28:30Z: the middle of a minute.
const START: Timestamp = Timestamp::from_micros(1_795_246_110_000_000);
const MINUTES: u64 = 5;
/// A state of a minute's window counts until the next one is over: for a minute
/// and a half on average.
const COUNTS_S: u64 = 90;
const BATCH: usize = 64;

/// Four of five requests are of clients who were never seen before, so many
/// that about `clients` count at a time. Tells what they take.
pub(crate) fn measure(policy: Algorithm, clients: u32) -> anyhow::Result<String> {
    let mut server = Server::start(tollgate::store::redis::script::SCRIPT.source)?;
    let (policies, window_us) = ([policy.clone()], policy.window().as_micros());
    let load = Load::new(clients, &policies, &server.sha);
    let empty = server.info("memory", "used_memory_rss")?;
    let requests = u64::from(clients) * 5 / 4 * MINUTES * 60 / COUNTS_S;
    let (mut random, mut now) = (fastrand::Rng::with_seed(1), START);
    // The windows in which clients were last seen.
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
