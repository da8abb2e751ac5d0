//! The state that all nodes share, stored in Redis under `{prefix}:meta:`: the number of
//! nodes, the secret under which they digest keys, and the number of buckets.
//!
//! Each process has one membership, which publishes the state to all workers. While Redis is
//! away, the last known state holds.

use std::mem::replace;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::{Pipeline, Value, pipe};
use tokio::sync::watch;
use tokio::time::sleep;
use tollgate_core::digest::Secret;
use tollgate_core::store::OutageCause;
use tollgate_core::time::monotonic;
use tracing::{info, warn};

use super::failure::{Refusal, StoreError};
use super::layout::Layout;
use super::memory_settings::MemorySettings;
use super::outages::{Outages, ServerUse};
use super::server::Servers;
use super::server_time::ServerTime;
use super::settings::RedisSettings;
use crate::breaker::FAILURES_TO_OPEN;

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_secs(5);
/// The time between two attempts while Redis is away.
const RETRY: Duration = Duration::from_millis(200);
/// A node without a heartbeat for this time does not count any more.
const SILENCE_S: u8 = 15;
const ALIVE: &str = include_str!("membership.lua");

/// The state on which all nodes agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClusterState {
    /// The secret. None if it is not known yet. Then this node must not count in Redis.
    pub(super) secret: Option<Secret>,
    /// The number of buckets. None if it is not known yet. Then this node must not count in
    /// Redis.
    pub(super) buckets: Option<u64>,
}

impl ClusterState {
    /// The state before the first reply of Redis.
    pub(super) const fn unknown(settings: &RedisSettings) -> Self {
        Self { secret: settings.secret, buckets: None }
    }

    /// Whether all values are known that this node needs to count in Redis.
    pub(super) const fn is_known(&self) -> bool {
        self.secret.is_some() && self.buckets.is_some()
    }
}

/// The number of nodes that are alive, this one among them. All workers of a node read
/// the same number at any time, so that they divide a limit into the same parts.
#[derive(Debug)]
pub(super) struct NodeCount(AtomicU32);

impl Default for NodeCount {
    /// A node that has not reached Redis yet knows only itself.
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

impl NodeCount {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).into()
    }
}

/// This process among the nodes.
#[derive(Debug)]
pub(super) struct Membership {
    servers: Rc<Servers>,
    prefix: String,
    /// The name of this process: random, new at each start.
    node: u64,
    /// Whether the secret is configured. Then it is neither read from Redis nor written there.
    is_given: bool,
    /// Whether a configured secret was compared with that in Redis.
    is_compared: bool,
    /// The value that is written if Redis has none.
    secret: Secret,
    buckets: u64,
    nodes_alive: Arc<NodeCount>,
    cluster_state: watch::Sender<ClusterState>,
    /// Whether this node takes part, and if not, why.
    server_use: ServerUse,
    /// The visits that have failed in succession, though the server is connected.
    failures: u8,
    memory_settings: MemorySettings,
}

impl Membership {
    /// A member that other nodes do not know yet. `buckets` and `secret` are written if Redis
    /// has none. The values that hold are published in `cluster_state`.
    pub(super) fn new(
        servers: Rc<Servers>,
        settings: &RedisSettings,
        buckets: u64,
        secret: Secret,
        nodes_alive: Arc<NodeCount>,
        cluster_state: watch::Sender<ClusterState>,
    ) -> Self {
        Self {
            servers,
            prefix: settings.prefix.clone(),
            node: fastrand::u64(..),
            is_given: settings.secret.is_some(),
            is_compared: false,
            secret: settings.secret.unwrap_or(secret),
            buckets,
            nodes_alive,
            cluster_state,
            server_use: Outages::default().user(),
            failures: 0,
            memory_settings: MemorySettings::default(),
        }
    }

    /// The same member, which reports to this register that it cannot take part.
    pub(super) fn reporting_to(self, outages: &Outages) -> Self {
        Self { server_use: outages.user(), ..self }
    }

    /// The same member under this name.
    pub(super) fn named(self, node: u64) -> Self {
        Self { node, ..self }
    }

    /// Sends heartbeats until the task is dropped.
    pub(super) async fn keep(mut self) {
        self.servers.settled().await;
        loop {
            self.memory_settings.check(&self.servers).await;
            let visited = self.visit().await;
            let pause = if visited.is_ok() { INTERVAL } else { RETRY };
            self.report(visited.err());
            sleep(pause).await;
        }
    }

    /// Records the result of a visit. While there is no connection, the links report the cause.
    fn report(&mut self, error: Option<StoreError>) {
        let Some(error) = error else {
            self.failures = 0;
            return self.server_use.resume();
        };
        if error == StoreError::Away {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_TO_OPEN {
            let error = match error {
                StoreError::InvalidReply(said) => {
                    let cause = Refusal::Unusable(OutageCause::ForeignData);
                    StoreError::Refused(cause, said.to_owned())
                }
                other => other,
            };
            let server = self.servers.name(self.key("nodes").as_bytes());
            self.server_use.give_up(error.outage(server, &self.servers.settings()));
        }
    }

    /// Sends one heartbeat, and reads the state on which the nodes agree.
    ///
    /// # Errors
    /// If Redis does not answer. Values that were read before the error hold.
    async fn visit(&mut self) -> Result<(), StoreError> {
        // This comes first. Once the state is known, this node counts in Redis. If Redis then
        // goes away, the node must know the number of nodes with which it shares a limit.
        let nodes_alive = self.give_sign().await?;
        self.nodes_alive.0.store(nodes_alive, Ordering::Relaxed);
        self.agree_on_state().await?;
        Ok(())
    }

    /// Publishes the state on which all nodes agree. If Redis has none, this node writes its own
    /// values first. Returns the secret.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub(super) async fn agree_on_state(&mut self) -> Result<Secret, StoreError> {
        if self.is_given {
            self.compare_secret().await?;
        } else {
            let secret = self.agree("secret", &hex(*self.secret.expose())).await?;
            self.secret = secret
                .as_deref()
                .and_then(bytes)
                .map(Secret::from_bytes)
                .ok_or(StoreError::InvalidReply("the secret is not 32 hexadecimal digits"))?;
        }
        let buckets = self.agree("buckets", &self.buckets.to_string()).await?;
        let buckets = buckets
            .and_then(|buckets| buckets.parse().ok())
            .filter(|buckets: &u64| buckets.is_power_of_two())
            .ok_or(StoreError::InvalidReply("the number of buckets is not a power of two"))?;
        // A number that no layout has would differ from that of each layout made for it.
        let buckets = Layout::with_buckets(&self.prefix, buckets).buckets();
        if buckets != self.buckets {
            let key = self.key("buckets");
            let ours = self.buckets;
            info!(%key, buckets, ours, "Redis has a layout for another number of clients; it is used");
            self.buckets = buckets;
        }
        let agreed = ClusterState { secret: Some(self.secret), buckets: Some(buckets) };
        self.cluster_state.send_if_modified(|known| replace(known, agreed) != agreed);
        Ok(self.secret)
    }

    /// Warns once if gateways without a configured secret count under another one. They can come later
    /// than this gateway.
    ///
    /// # Errors
    /// If Redis does not answer.
    async fn compare_secret(&mut self) -> Result<(), StoreError> {
        if self.is_compared {
            return Ok(());
        }
        let key = self.key("secret");
        let mut look = pipe();
        look.cmd("GET").arg(&key);
        let copies = self.copies(&key, &look).await?;
        if copies.iter().all(Option::is_none) {
            return Ok(());
        }
        let differs = |copy: &String| bytes(copy).as_ref() != Some(self.secret.expose());
        if copies.iter().flatten().any(differs) {
            warn!(
                %key,
                remedy = "give all gateways of the prefix the same store.redis.secret; if they have \
                          it, delete the key",
                "Redis has another secret than the configuration: this gateway shares no counters \
                 and no overrides with gateways that use it"
            );
        }
        self.is_compared = true;
        Ok(())
    }

    fn key(&self, name: &str) -> String {
        format!("{}:meta:{name}", self.prefix)
    }

    /// Writes `proposal` if there is no value, and returns the value that is there afterwards.
    /// Each of several shards has a copy, so that any of them is enough. If the copies differ,
    /// because no node has seen all shards, the copy of the first shard in their order holds.
    async fn agree(&self, name: &str, proposal: &str) -> Result<Option<String>, StoreError> {
        let key = self.key(name);
        let mut look = pipe();
        look.cmd("GET").arg(&key);
        let mut copies = self.copies(&key, &look).await?;
        if copies.iter().all(Option::is_none) {
            let mut propose = pipe();
            propose.cmd("SET").arg(&key).arg(proposal).arg("NX");
            propose.cmd("GET").arg(&key);
            copies = self.copies(&key, &propose).await?;
        }
        let agreed = copies.iter().flatten().next().cloned();
        if let Some(agreed) = &agreed
            && copies.iter().any(|copy| copy.as_ref() != Some(agreed))
        {
            let mut tell = pipe();
            tell.cmd("SET").arg(&key).arg(agreed).cmd("GET").arg(&key);
            self.copies(&key, &tell).await?;
        }
        Ok(agreed)
    }

    /// The last reply of each server that refuses none of the commands, as text.
    async fn copies(
        &self,
        key: &str,
        commands: &Pipeline,
    ) -> Result<Vec<Option<String>>, StoreError> {
        let mut copies = Vec::new();
        let mut error = StoreError::Away;
        for answers in self.servers.query_copies(key.as_bytes(), commands).await {
            let replies = answers.and_then(|answers| {
                let read: Result<Vec<Value>, _> =
                    answers.into_iter().map(Value::extract_error).collect();
                Ok(read?)
            });
            match replies.map(|mut replies| replies.pop()) {
                Ok(Some(Value::BulkString(copy))) => copies.push(String::from_utf8(copy).ok()),
                Ok(_) => copies.push(None),
                Err(why) => error = why,
            }
        }
        if copies.is_empty() { Err(error) } else { Ok(copies) }
    }

    /// Sends a heartbeat to all servers that store heartbeats. Returns the largest number of
    /// nodes that any of them reports.
    async fn give_sign(&self) -> Result<u32, StoreError> {
        let key = self.key("nodes");
        let mut commands = pipe();
        commands.cmd("EVAL").arg(ALIVE).arg(1).arg(&key);
        let time_s = self.time_for_script(&key).await?;
        commands.arg(format!("{:016x}", self.node)).arg(SILENCE_S).arg(time_s);
        let mut most = Err(StoreError::Away);
        for answers in self.servers.query_copies(key.as_bytes(), &commands).await {
            let first = answers.and_then(|answers| {
                Ok(answers.into_iter().next().map(Value::extract_error).transpose()?)
            });
            most = match (first, most) {
                (Ok(Some(Value::Int(alive))), most) => {
                    Ok(u32::try_from(alive).unwrap_or(1).max(most.unwrap_or(1)))
                }
                (_, Ok(most)) => Ok(most),
                (Ok(_), Err(_)) => {
                    Err(StoreError::InvalidReply("the number of nodes is not a number"))
                }
                (Err(error), Err(_)) => Err(error),
            };
        }
        most
    }

    /// The time for a script at the server of `key`, in seconds since 1970. 0 if the script can ask
    /// for it. The connection sends no decisions, which would improve its estimate. So the server
    /// is asked.
    async fn time_for_script(&self, key: &str) -> Result<u64, StoreError> {
        if self.servers.given_time_us(key.as_bytes()) == 0 {
            return Ok(0);
        }
        let mut question = pipe();
        let asked = monotonic();
        question.add_command(ServerTime::question());
        let reply = self.servers.query(key.as_bytes(), &question).await?.pop().unwrap_or_default();
        let answered = monotonic();
        Ok(ServerTime::read(reply, asked, answered)?.next_us(answered) / 1_000_000)
    }
}

fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

fn bytes(hex: &str) -> Option<[u8; 16]> {
    let digits = hex.len() == 32 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits.then(|| u128::from_str_radix(hex, 16).ok()).flatten().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests;
