//! Requests of clients under policies, as calls of the script.

use redis::Cmd;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::time::Timestamp;
use tollgate_redis::codec::{Ask, Asked, Encoder};
use tollgate_redis::layout::Layout;
use tollgate_redis::script::Encoded;

/// Means: the script uses the server's own clock.
pub(crate) const SERVERS_CLOCK: Timestamp = Timestamp::from_micros(0);

/// The calls to one server.
pub(crate) struct Load<'p> {
    encoder: Encoder,
    policies: &'p [Algorithm],
    sha: String,
}

impl<'p> Load<'p> {
    pub(crate) fn new(clients: u32, policies: &'p [Algorithm], sha: &str) -> Self {
        let encoder = Encoder::new(Layout::new("rl", clients.into()), 1);
        Self { encoder, policies, sha: sha.to_owned() }
    }

    /// One call that takes a unit from each policy of these clients.
    pub(crate) fn call(&self, clients: &[u32], now: Timestamp) -> Cmd {
        let bodies: Vec<_> = clients.iter().map(|client| self.body(*client, now)).collect();
        let keys: Vec<_> = bodies.iter().flat_map(|body| &body.keys).collect();
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.sha).arg(keys.len());
        for key in keys {
            call.arg(&key[..]);
        }
        call.arg(now.as_micros());
        for body in &bodies {
            call.arg(&body.body[..]);
        }
        call
    }

    fn body(&self, client: u32, now: Timestamp) -> Encoded {
        // The bits of a digest are like random bits.
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
}
