//! The servers of a store. Each key has a destination, to which its calls are sent.
//!
//! A worker may have several connections to each server. All calls of a key use the same
//! connection, because a correction must neither overtake the call that it corrects nor be
//! overtaken by a later call. So outside of a cluster each connection is a destination, and
//! keys of two connections are charged like keys of two servers. In a cluster a destination
//! is a slot, and all keys of a slot use one connection. A server that is not a node of a known
//! cluster can have slots too (a proxy, or one server with all slots). Then a destination is a
//! connection and a slot.

mod cluster;
mod rendezvous;
mod replica;

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Pipeline, Value};

use self::cluster::{Cluster, ClusterCall};
use self::rendezvous::Rendezvous;
use super::batch::Repeat;
use super::connect::Target;
use super::deadline::{LateReply, PendingReply, Reply};
use super::failure::StoreError;
use super::link::{Health, Link};
use super::outages::Outages;
use super::script::{Encoded, Script};
use super::settings::{ReadFrom, RedisSettings, Topology};
use super::slots;
use crate::store::breaker::Position;
use crate::time::monotonic;

/// Where calls are sent. Keys with one destination can be charged in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The index of the connection. 0 in a cluster, where the slot decides.
    link: u16,
    /// 0 if the server has no slots.
    slot: u16,
}

/// One worker's connections to all servers.
#[derive(Debug)]
pub struct Servers {
    kind: Kind,
    timeout: Duration,
}

#[derive(Debug)]
enum Kind {
    Apart(Apart),
    Cluster(Cluster),
}

/// One server, or several independent servers.
#[derive(Debug)]
struct Apart {
    /// The same number of links for each server, in the order of the servers.
    links: Vec<Rc<Link>>,
    /// Selects the server of a key if there are several.
    shards: Option<Rendezvous>,
    /// The number of connections to each server.
    connections: u16,
    /// A link to a replica of the server, for reads.
    replica: Option<Rc<Link>>,
}

impl Apart {
    fn new(
        targets: impl IntoIterator<Item = Target>,
        shards: Option<Rendezvous>,
        connections: u16,
        link: impl Fn(Target) -> Rc<Link>,
    ) -> Self {
        let each = usize::from(connections);
        let targets = targets.into_iter().flat_map(|it| std::iter::repeat_n(it, each));
        Self { links: targets.map(link).collect(), shards, connections, replica: None }
    }

    fn destination(&self, key: &[u8]) -> Destination {
        let server = self.shards.as_ref().map_or(0, |shards| shards.index(key));
        let server = u16::try_from(server).unwrap_or(u16::MAX);
        let slot = slots::slot(key);
        let connection = slot % self.connections;
        let link = server.saturating_mul(self.connections).saturating_add(connection);
        let has_slots = self.links.get(usize::from(link)).is_some_and(|link| link.has_slots());
        Destination { link, slot: if has_slots { slot } else { 0 } }
    }

    fn link(&self, destination: Destination) -> Option<&Rc<Link>> {
        self.links.get(usize::from(destination.link))
    }

    /// One link to each server, beginning with the server of `key`.
    fn copies(&self, key: &[u8]) -> impl Iterator<Item = &Rc<Link>> {
        let order = self.shards.as_ref().map_or_else(|| vec![0], |shards| shards.order(key));
        let each = usize::from(self.connections);
        order.into_iter().filter_map(move |server| self.links.get(server * each))
    }
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
    pub fn connect(
        settings: &Rc<RedisSettings>,
        script: &'static Script,
        outages: &Outages,
    ) -> Self {
        let link = |target| Rc::new(Link::new(Rc::clone(settings), script, target, outages));
        let replica = |target| {
            Rc::new(Link::new(Rc::clone(settings), script, target, &outages.of_replicas()))
        };
        let each = settings.connections.get();
        let kind = match &settings.topology {
            Topology::Standalone(address) => {
                Kind::Apart(Apart::new([Target::Fixed(address.clone())], None, each, link))
            }
            Topology::Sentinel { .. } => {
                let mut apart = Apart::new([Target::Master], None, each, link);
                if settings.read_from == ReadFrom::Replica {
                    apart.replica = Some(replica(Target::Replica));
                }
                Kind::Apart(apart)
            }
            Topology::Shards(shards) => {
                let targets = shards.iter().cloned().map(Target::Fixed);
                Kind::Apart(Apart::new(targets, Some(Rendezvous::new(shards)), each, link))
            }
            Topology::Cluster(seeds) => {
                let (settings, seeds) = (Rc::clone(settings), seeds.clone());
                Kind::Cluster(Cluster::new(settings, script, seeds, outages.clone()))
            }
        };
        Self { kind, timeout: settings.timeout }
    }

    /// The destination of the calls for `key`.
    pub fn destination(&self, key: &[u8]) -> Destination {
        match &self.kind {
            Kind::Apart(apart) => apart.destination(key),
            Kind::Cluster(_) => Destination { link: 0, slot: slots::slot(key) },
        }
    }

    /// Calls the script at `destination`, which all keys of the call must have. The call joins
    /// the queue now, before it is awaited. Calls to one destination are sent in the order in
    /// which they were made. A call is not sent if its caller stops waiting before its turn.
    pub fn call(&self, destination: Destination, encoded: Encoded, repeat: Repeat) -> Call {
        self.call_by(destination, encoded, (repeat, self.deadline()))
    }

    /// The same with another deadline.
    pub(super) fn call_by(
        &self,
        destination: Destination,
        encoded: Encoded,
        patience: (Repeat, Instant),
    ) -> Call {
        Call(match &self.kind {
            Kind::Apart(apart) => match apart.link(destination) {
                Some(link) => Route::ToServer(link.call(encoded, patience, 0, false)),
                None => Route::Nowhere,
            },
            Kind::Cluster(cluster) => {
                Route::ToCluster(cluster.call(destination.slot, encoded, patience))
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
        let links = self.links();
        let link = match &self.kind {
            Kind::Apart(apart) => apart.link(self.destination(key)),
            Kind::Cluster(_) => links.first(),
        };
        link.map_or_else(|| "the cluster".to_owned(), |link| link.health().server)
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
        join_all(links.map(|link| link.query(commands))).await
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
    /// settings say so.
    ///
    /// # Errors
    /// If no server answers within the timeout.
    pub(super) async fn read(
        &self,
        destination: Destination,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let replica = match &self.kind {
            Kind::Apart(apart) => apart.replica.clone(),
            Kind::Cluster(cluster) => cluster.replica_of(destination.slot),
        };
        if let Some(replica) = replica
            && let Some(answers) = replica::read(&replica, commands).await
        {
            return Ok(answers);
        }
        self.look_up(destination, commands).await
    }

    /// Sends the same commands to all servers that are connected. Each reply has the name of its
    /// server.
    pub(super) async fn query_all(
        &self,
        commands: &Pipeline,
    ) -> Vec<(String, Result<Vec<Value>, StoreError>)> {
        let mut answers = Vec::new();
        // The links of one server are adjacent. One of them is enough.
        let each = match &self.kind {
            Kind::Apart(apart) => apart.connections,
            Kind::Cluster(cluster) => cluster.connections(),
        };
        for link in self.links().into_iter().step_by(each.into()) {
            answers.push((link.health().server, link.query(commands).await));
        }
        answers
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
        let are_up =
            |links: &[Rc<Link>]| !links.is_empty() && links.iter().all(|link| link.is_up());
        match &self.kind {
            Kind::Apart(apart) => are_up(&apart.links),
            Kind::Cluster(cluster) => are_up(&cluster.links()),
        }
    }

    /// The health of each connection.
    pub fn health(&self) -> Vec<Health> {
        self.links().iter().map(|link| link.health()).collect()
    }

    fn links(&self) -> Vec<Rc<Link>> {
        match &self.kind {
            Kind::Apart(apart) => apart.links.clone(),
            Kind::Cluster(cluster) => cluster.links(),
        }
    }
}

#[cfg(test)]
mod tests;
