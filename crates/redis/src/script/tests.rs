//! The script on a real server: it agrees with the memory store, and stores nothing longer than
//! it counts.

mod aims;
mod conformance;
mod long_logs;
mod newer;
mod pieces;
mod reference;
mod remains;
mod schedule;
mod server;
mod upkeep;

use redis::Cmd;

pub(crate) use self::server::Server;
use tollgate_core::algorithm::Verdict;
use tollgate_core::time::Timestamp;

use super::{Encoded, SCRIPT};
use crate::codec::{Answered, Asked, Encoder, decode};

/// The call for a batch of bodies.
fn call(bodies: &[Encoded], now: Timestamp) -> Cmd {
    call_of(&SCRIPT.sha, bodies, now)
}

/// The same for another script.
fn call_of(sha: &str, bodies: &[Encoded], now: Timestamp) -> Cmd {
    let keys: Vec<_> = bodies.iter().flat_map(|body| &body.keys).collect();
    let mut call = redis::cmd("EVALSHA");
    call.arg(sha).arg(keys.len());
    keys.into_iter().for_each(|key| {
        call.arg(&key[..]);
    });
    call.arg(now.as_micros());
    bodies.iter().for_each(|body| {
        call.arg(&body.body[..]);
    });
    call
}

impl Server {
    /// Sends one body with this time, and returns the reply.
    fn ask(&mut self, encoder: &Encoder, asked: &[Asked<'_>], now: Timestamp) -> Answered {
        let call = call(&[encoder.encode(asked, now)], now);
        let answers: Vec<Vec<u8>> = call.query(&mut self.connection).unwrap();
        decode(asked, &answers[0]).unwrap()
    }
}
