//! The servers of a store. Each key has a destination, to which its calls are sent.
//!
//! A worker may have several connections to each server. All calls of a key use the same
//! connection, because a correction must neither overtake the call that it corrects nor be
//! overtaken by a later call. So outside of a cluster each connection is a destination, and
//! keys of two connections are charged like keys of two servers. In a cluster a destination
//! is a slot, and all keys of a slot use one connection. A server that is not a node of a known
//! cluster can have slots too (a proxy, or one server with all slots). Then a destination is a
//! connection and a slot.

mod apart;
mod cluster;
mod destination;
mod rendezvous;
mod replica;

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Pipeline, Value};

use self::apart::Apart;
pub(super) use self::cluster::understood;
use self::cluster::{Cluster, ClusterCall};
pub use self::destination::Destination;
use tollgate_core::time::monotonic;

use self::rendezvous::Rendezvous;
use super::batch::Repeat;
use super::connect::Target;
use super::deadline::{LateReply, PendingReply, Reply};
use super::failure::StoreError;
use super::link::{Health, Link};
use super::live_settings::LiveSettings;
use super::outages::Outages;
use super::script::Encoded;
use super::settings::{ReadFrom, RedisSettings, Topology};
use super::slots;
use super::transport::AnyTransport;
use crate::breaker::Position;

/// One worker's connections to all servers.
#[derive(Debug)]
pub struct Servers {
    kind: Kind,
    timeout: Duration,
    live: LiveSettings,
}

#[derive(Debug)]
enum Kind {
    Apart(Apart),
    Cluster(Cluster),
}

/// A pending call. It ends with a reply or an error within the timeout.
#[derive(Debug)]
pub struct Call(Route);

#[derive(Debug)]
enum Route {
    ToServer(PendingReply),
    ToCluster(ClusterCall),
    Nowhere,
}

impl Call {
    /// How often the call was sent: 0 if no server can have received it.
    pub(super) fn times_sent(&self) -> u8 {
        match &self.0 {
            Route::ToServer(answer) => answer.times_sent(),
            Route::ToCluster(answer) => answer.times_sent(),
            Route::Nowhere => 0,
        }
    }

    /// Gives up a call that has timed out. Returns the late reply, unless none can come.
    pub(super) fn give_up(self) -> Option<LateReply> {
        match self.0 {
            Route::ToServer(answer) => answer.give_up(),
            Route::ToCluster(answer) => answer.give_up(),
            Route::Nowhere => None,
        }
    }

    /// The reply, however late it comes, or an error when it is certain that none comes. It is
    /// for calls that no request waits for. `overdue` is called if the reply does not come in
    /// time.
    pub(super) async fn final_reply(mut self, overdue: impl FnOnce()) -> Reply {
        let answer = (&mut self).await;
        if !matches!(answer, Err(StoreError::Timeout)) {
            return answer;
        }
        overdue();
        match self.give_up() {
            Some(late) => late.await.unwrap_or(answer),
            None => answer,
        }
    }
}

impl Future for Call {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        match &mut self.0 {
            Route::ToServer(answer) => Pin::new(answer).poll(cx),
            Route::ToCluster(answer) => Pin::new(answer).poll(cx),
            Route::Nowhere => Poll::Ready(Err(StoreError::Away)),
        }
    }
}

impl Servers {
    /// Begins to connect in the background. The servers may be away. It must be called in the
    /// `LocalRuntime` that uses the servers.
    pub(crate) fn connect(
        settings: &Rc<RedisSettings>,
        transport: AnyTransport,
        outages: &Outages,
    ) -> Self {
        Self::following(RedisSettings::clone(settings).into(), transport, outages)
    }

    /// The same with settings that may change.
    pub(super) fn following(
        live: LiveSettings,
        transport: AnyTransport,
        outages: &Outages,
    ) -> Self {
        let settings = live.peek();
        let apart = |targets, shards| Apart::new(&live, transport, outages, targets, shards);
        let kind = match &settings.topology {
            Topology::Standalone(address) => {
                Kind::Apart(apart(vec![Target::Fixed(address.clone())], None))
            }
            Topology::Sentinel { .. } => {
                let master = apart(vec![Target::Master], None);
                Kind::Apart(match settings.read_from {
                    ReadFrom::Master => master,
                    ReadFrom::Replica => {
                        let outages = outages.of_replicas();
                        let target = Target::Replica;
                        master.with_replica(Link::new(live.clone(), transport, target, &outages))
                    }
                })
            }
            Topology::Shards(shards) => {
                let targets = shards.iter().cloned().map(Target::Fixed).collect();
                Kind::Apart(apart(targets, Some(Rendezvous::new(shards))))
            }
            Topology::Cluster(seeds) => {
                let seeds = seeds.clone();
                Kind::Cluster(Cluster::new(live.clone(), transport, seeds, outages.clone()))
            }
        };
        Self { kind, timeout: settings.timeout, live }
    }

    /// The settings now.
    pub(super) fn settings(&self) -> RedisSettings {
        self.live.peek()
    }

    /// The destination of the calls for `key`.
    pub fn destination(&self, key: &[u8]) -> Destination {
        match &self.kind {
            Kind::Apart(apart) => apart.destination(key),
            Kind::Cluster(_) => Destination { server: 0, connection: 0, slot: slots::slot(key) },
        }
    }

    /// Calls the script at `destination`, which all keys of the call must have. The call joins
    /// the queue now, before it is awaited. Calls to one destination are sent in the order in
    /// which they were made. A call is not sent if its caller stops waiting before its turn.
    pub fn call(&self, destination: Destination, encoded: Encoded, repeat: Repeat) -> Call {
        self.call_by(destination, encoded, repeat, self.deadline())
    }

    /// The same with another deadline.
    pub(super) fn call_by(
        &self,
        destination: Destination,
        encoded: Encoded,
        repeat: Repeat,
        deadline: Instant,
    ) -> Call {
        Call(match &self.kind {
            Kind::Apart(apart) => match apart.link(destination) {
                Some(link) => Route::ToServer(link.call(encoded, repeat, deadline, 0, false)),
                None => Route::Nowhere,
            },
            Kind::Cluster(cluster) => {
                Route::ToCluster(cluster.call(destination.slot, encoded, repeat, deadline))
            }
        })
    }

    /// The deadline of calls that are made now.
    pub(super) fn deadline(&self) -> Instant {
        monotonic() + self.timeout
    }

    /// Sends other commands than the script to the server of `key`. It must not be used for
    /// requests.
    ///
    /// # Errors
    /// If the server does not answer within the timeout.
    pub async fn query(&self, key: &[u8], commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let destination = self.destination(key);
        match &self.kind {
            Kind::Apart(apart) => match apart.link(destination) {
                Some(link) => link.query(commands).await,
                None => Err(StoreError::Away),
            },
            Kind::Cluster(cluster) => cluster.query(destination.slot, commands).await,
        }
    }

    /// The time that a script at the server of `key` is given, in microseconds since 1970. 0 if
    /// it can ask for it.
    pub(super) fn given_time_us(&self, key: &[u8]) -> u64 {
        let destination = self.destination(key);
        match &self.kind {
            Kind::Apart(apart) => apart.link(destination).map_or(0, |link| link.given_time_us()),
            Kind::Cluster(cluster) => cluster.given_time_us(destination.slot),
        }
    }

    /// The name of the server of `key`.
    pub(super) fn name(&self, key: &[u8]) -> String {
        let destination = self.destination(key);
        let link = match &self.kind {
            Kind::Apart(apart) => apart.link(destination),
            Kind::Cluster(cluster) => cluster.link(destination.slot),
        };
        link.map_or_else(|| "the cluster".to_owned(), |link| link.name())
    }

    /// Sends the same commands to all servers that may have a copy of `key` for all nodes: to
    /// the server of the key, and then to the other independent servers. All nodes use the same
    /// order. It must not be used for requests.
    pub(super) async fn query_copies(
        &self,
        key: &[u8],
        commands: &Pipeline,
    ) -> Vec<Result<Vec<Value>, StoreError>> {
        let links = match &self.kind {
            Kind::Apart(apart) => apart.copies(key),
            Kind::Cluster(_) => return vec![self.query(key, commands).await],
        };
        join_all(links.iter().map(|link| link.query(commands))).await
    }

    /// Sends other commands than the script to `destination`, for requests that wait for them.
    /// The breaker counts the outcome. While it is open, nothing is sent.
    ///
    /// # Errors
    /// If the server does not answer within the timeout.
    pub(super) async fn look_up(
        &self,
        destination: Destination,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        match &self.kind {
            Kind::Apart(apart) => match apart.link(destination) {
                Some(link) => link.look_up(commands).await,
                None => Err(StoreError::Away),
            },
            Kind::Cluster(cluster) => cluster.look_up(destination.slot, commands).await,
        }
    }

    /// The same for reads that may return slightly old values. A replica may answer, if the
    /// settings say so. The first argument of each command is its only key.
    ///
    /// # Errors
    /// If no server answers within the timeout.
    pub(super) async fn read(
        &self,
        destination: Destination,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let replica = match &self.kind {
            Kind::Apart(apart) => apart.replica(),
            Kind::Cluster(cluster) => cluster.replica_of(destination.slot),
        };
        let keys_can_move = matches!(self.kind, Kind::Cluster(_));
        if let Some(replica) = replica
            && let Some(answers) = replica::read(&replica, commands, keys_can_move).await
        {
            return Ok(answers);
        }
        self.look_up(destination, commands).await
    }

    /// One link to each server.
    pub(super) fn one_link_each(&self) -> Vec<Rc<Link>> {
        match &self.kind {
            Kind::Apart(apart) => apart.one_link_each(),
            Kind::Cluster(cluster) => cluster.one_link_each(),
        }
    }

    /// Returns when each server is known to be connected or away, at the latest soon after the
    /// time limit of a handshake.
    pub async fn settled(&self) {
        if let Kind::Cluster(cluster) = &self.kind {
            cluster.settled().await;
        }
        for link in self.links() {
            link.settled().await;
        }
    }

    /// Whether any server is connected.
    pub fn is_connected(&self) -> bool {
        self.links().iter().any(|link| link.is_connected())
    }

    /// The position of the breaker of the server at `destination`. None if the server is not
    /// known.
    pub(super) fn position(&self, destination: Destination) -> Option<Position> {
        match &self.kind {
            Kind::Apart(apart) => apart.link(destination).map(|link| link.position()),
            Kind::Cluster(cluster) => cluster.position(destination.slot),
        }
    }

    /// The clock of the server of this destination differs by so much.
    pub(super) fn note_clock(&self, destination: Destination, offset_us: i64) {
        match &self.kind {
            Kind::Apart(apart) => {
                apart.link(destination).iter().for_each(|link| link.note_clock(offset_us));
            }
            Kind::Cluster(cluster) => cluster.note_clock(destination.slot, offset_us),
        }
    }

    /// A call about the counters at this key has failed, while its server decides others.
    pub(super) fn note_call_error(&self, destination: Destination, error: &StoreError, key: &[u8]) {
        match &self.kind {
            Kind::Apart(apart) => {
                let link = apart.link(destination);
                link.iter().for_each(|link| link.note_call_error(error, key));
            }
            Kind::Cluster(cluster) => cluster.note_call_error(destination.slot, error, key),
        }
    }

    /// Whether all servers answer.
    pub fn is_up(&self) -> bool {
        match &self.kind {
            Kind::Apart(apart) => apart.is_up(),
            Kind::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// The health of each connection.
    pub fn health(&self) -> Vec<Health> {
        self.links().iter().map(|link| link.health()).collect()
    }

    fn links(&self) -> Vec<Rc<Link>> {
        match &self.kind {
            Kind::Apart(apart) => apart.links(),
            Kind::Cluster(cluster) => cluster.links(),
        }
    }
}

#[cfg(test)]
mod tests;
