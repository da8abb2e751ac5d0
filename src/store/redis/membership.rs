//! What all nodes of one Redis agree on, and how many they are.
//!
//! The secret of the keys and the number of buckets are made by whichever node
//! comes first, and kept in Redis. Until a node knows them it cannot find a
//! counter, so it judges by itself. Every few seconds a node says that it lives
//! and that these are still what it goes by: a store that was emptied is told
//! them anew by all that know them, before others can choose differently.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;
use tracing::{info, warn};

use super::codec::Encoder;
use super::failure::StoreError;
use super::layout::Layout;
use super::server::Servers;
use super::settings::RedisSettings;
use crate::digest::{Secret, SharedSecret};

/// How often a node says that it lives.
const INTERVAL: Duration = Duration::from_secs(5);
/// How soon a node that knows nothing yet asks again.
const IMPATIENCE: Duration = Duration::from_millis(100);
/// Says that node ARGV[1] lives, and counts those that said so within 15 s.
const CENSUS: &str = "local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 15)
redis.call('EXPIRE', KEYS[1], 60)
return redis.call('ZCARD', KEYS[1])";

/// One worker's knowledge of what its node shares with others.
#[derive(Debug)]
pub(super) struct Membership {
    known: Rc<Known>,
    asking: JoinHandle<()>,
}

#[derive(Debug)]
struct Known {
    encoder: RefCell<Option<Rc<Encoder>>>,
    nodes: Cell<u64>,
}

/// Who asks, and for what.
struct Candidate {
    settings: Rc<RedisSettings>,
    servers: Rc<Servers>,
    secret: Arc<SharedSecret>,
    node: u64,
    known: Rc<Known>,
}

impl Membership {
    /// Begins to ask, in the background. `secret` becomes the common one as
    /// soon as that is known. `node` is this process, whichever worker it is.
    pub(super) fn seek(
        settings: Rc<RedisSettings>,
        servers: Rc<Servers>,
        secret: Arc<SharedSecret>,
        node: u64,
    ) -> Self {
        let known = Rc::new(Known { encoder: RefCell::new(None), nodes: Cell::new(1) });
        let candidate = Candidate { settings, servers, secret, node, known: Rc::clone(&known) };
        Self { known, asking: spawn_local(candidate.ask_forever()) }
    }

    /// How counters are found; none while that is not known.
    pub(super) fn encoder(&self) -> Option<Rc<Encoder>> {
        self.known.encoder.borrow().clone()
    }

    /// How many nodes there were when that could last be seen, this one included.
    pub(super) fn nodes(&self) -> u64 {
        self.known.nodes.get()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl Candidate {
    async fn ask_forever(self) {
        self.servers.settled().await;
        loop {
            let is_member = match self.ask().await {
                Ok(()) => true,
                Err(_) => self.known.encoder.borrow().is_some(),
            };
            sleep(if is_member { INTERVAL } else { IMPATIENCE }).await;
        }
    }

    async fn ask(&self) -> Result<(), StoreError> {
        let secret = match self.settings.secret {
            Some(secret) => secret,
            None => self.common_secret().await?,
        };
        let buckets = self.common_buckets().await?;
        self.join(secret, buckets);
        let nodes = self.census().await?;
        self.known.nodes.set(nodes.max(1));
        Ok(())
    }

    /// The secret that is kept, which is ours if there was none.
    async fn common_secret(&self) -> Result<Secret, StoreError> {
        let ours = hex(self.secret.get());
        let kept = self.first_wins("secret", &ours).await?;
        let bits = u128::from_str_radix(&kept, 16)
            .map_err(|_| StoreError::Garbage("the secret that is kept is none"))?;
        Ok(Secret::from_bytes(bits.to_be_bytes()))
    }

    async fn common_buckets(&self) -> Result<u64, StoreError> {
        let wanted = Layout::new(&self.settings.prefix, self.settings.expected_clients).buckets();
        let ours = self.encoder().map_or(wanted, |encoder| encoder.layout().buckets());
        let kept = self.first_wins("buckets", &ours.to_string()).await?;
        let kept = kept
            .parse()
            .map_err(|_| StoreError::Garbage("the number of buckets that is kept is none"))?;
        if kept != wanted && self.encoder().is_none() {
            warn!(
                kept,
                wanted,
                "Redis is laid out for another number of clients than expected_clients \
                 says; what is there is used"
            );
        }
        Ok(kept)
    }

    /// What is kept under a name: `ours`, unless there was something.
    async fn first_wins(&self, name: &str, ours: &str) -> Result<String, StoreError> {
        let key = self.key(name);
        let mut commands = Pipeline::new();
        commands.cmd("SET").arg(&key).arg(ours).arg("NX");
        commands.cmd("GET").arg(&key);
        let answers = self.servers.query(key.as_bytes(), &commands).await?;
        match answers.as_slice() {
            [_, Value::BulkString(kept)] => String::from_utf8(kept.clone())
                .map_err(|_| StoreError::Garbage("what is kept for all nodes is no text")),
            _ => Err(StoreError::Garbage("nothing is kept for all nodes")),
        }
    }

    async fn census(&self) -> Result<u64, StoreError> {
        let key = self.key("nodes");
        let mut commands = Pipeline::new();
        commands.cmd("EVAL").arg(CENSUS).arg(1).arg(&key).arg(self.node);
        let answers = self.servers.query(key.as_bytes(), &commands).await?;
        match answers.as_slice() {
            [Value::Int(nodes)] => u64::try_from(*nodes)
                .map_err(|_| StoreError::Garbage("a number of nodes is negative")),
            _ => Err(StoreError::Garbage("the number of nodes is none")),
        }
    }

    fn join(&self, secret: Secret, buckets: u64) {
        let is_known = self.encoder().is_some_and(|encoder| encoder.layout().buckets() == buckets);
        if is_known && hex(secret) == hex(self.secret.get()) {
            return;
        }
        self.secret.set(secret);
        let layout = Layout::with_buckets(&self.settings.prefix, buckets);
        // Each worker counts what it has in flight by itself.
        let holder = fastrand::u32(..);
        *self.known.encoder.borrow_mut() = Some(Rc::new(Encoder::new(layout, holder)));
        info!(buckets, "counters are shared through Redis");
    }

    fn encoder(&self) -> Option<Rc<Encoder>> {
        self.known.encoder.borrow().clone()
    }

    /// No bucket's name begins so.
    fn key(&self, name: &str) -> String {
        format!("{}:_{name}", self.settings.prefix)
    }
}

fn hex(secret: Secret) -> String {
    format!("{:032x}", u128::from_be_bytes(secret.to_bytes()))
}
