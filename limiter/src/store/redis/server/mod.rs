//! The servers, as the store uses them: each key has a destination, to which its calls go.
//!
//! A worker may have several connections to each server. All calls of a key use the same
//! connection, because a correction must neither overtake the call that it corrects nor be
//! overtaken by a later call. So outside of a cluster each connection is a destination, and
//! keys of two connections are charged like keys of two servers. In a cluster a destination
//! is a slot, and all keys of a slot use one connection.

mod cluster;
mod rendezvous;
mod replica;
pub(super) mod slots;

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
use super::outage_log::OutageLog;
use super::script::{Encoded, Script};
use super::settings::{ReadFrom, RedisSettings, Topology};
use crate::store::breaker::Position;
use crate::time::monotonic;

/// Where keys are kept together: keys of one place can be charged in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(u16);

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

/// One server, or several that do not know of each other.
#[derive(Debug)]
struct Apart {
    /// As many of each server, one server after the other.
    links: Vec<Rc<Link>>,
    /// Which of several servers keeps a key.
    shards: Option<Rendezvous>,
    /// Connections to each server.
    connections: u16,
    /// The way to a replica of the one server, for what may be read there.
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

    /// The place of a key: the number of its link.
    fn place(&self, key: &[u8]) -> u16 {
        let server = self.shards.as_ref().map_or(0, |shards| shards.place(key));
        let server = u16::try_from(server).unwrap_or(u16::MAX);
        let connection = slots::slot(key) % self.connections;
        server.saturating_mul(self.connections).saturating_add(connection)
    }

    fn link(&self, place: Destination) -> Option<&Rc<Link>> {
        self.links.get(usize::from(place.0))
    }

    /// One link to each server, the one of `key` first.
    fn copies(&self, key: &[u8]) -> impl Iterator<Item = &Rc<Link>> {
        let order = self.shards.as_ref().map_or_else(|| vec![0], |shards| shards.order(key));
        let each = usize::from(self.connections);
        order.into_iter().filter_map(move |server| self.links.get(server * each))
    }
}

/// A call under way. It is answered within the timeout, or told why not.
#[derive(Debug)]
pub struct Call(Route);

#[derive(Debug)]
enum Route {
    ToServer(PendingReply),
    ToCluster(ClusterCall),
    Nowhere,
}

impl Call {
    /// How often it was sent: 0 if no server can have received it.
    pub(super) fn times_sent(&self) -> u8 {
        match &self.0 {
            Route::ToServer(answer) => answer.times_sent(),
            Route::ToCluster(answer) => answer.times_sent(),
            Route::Nowhere => 0,
        }
    }

    /// Gives up a call that was not answered in time, and waits for the answer that
    /// it may still get. None: there will be none.
    pub(super) fn give_up(self) -> Option<LateReply> {
        match self.0 {
            Route::ToServer(answer) => answer.give_up(),
            Route::ToCluster(answer) => answer.give_up(),
            Route::Nowhere => None,
        }
    }

    /// The answer, however late it comes; an error when it is known that there
    /// will be none. For what no request waits for. `overdue` is called when the answer
    /// does not come in time.
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
    /// Begins to connect, in the background; the servers may be away. Must be
    /// called within a `LocalRuntime`, by which it is used.
    pub fn connect(
        settings: &Rc<RedisSettings>,
        script: &'static Script,
        outage_log: &OutageLog,
    ) -> Self {
        let link =
            |target| Rc::new(Link::new(Rc::clone(settings), script, target, outage_log.clone()));
        let replica = |target| {
            let (settings, outage_log) = (Rc::clone(settings), outage_log.of_replicas());
            Rc::new(Link::new(settings, script, target, outage_log))
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
                Kind::Cluster(Cluster::new(settings, script, seeds, outage_log.clone()))
            }
        };
        Self { kind, timeout: settings.timeout }
    }

    /// Where `key` is kept, and by which connection it is asked for.
    pub fn destination(&self, key: &[u8]) -> Destination {
        Destination(match &self.kind {
            Kind::Apart(apart) => apart.place(key),
            Kind::Cluster(_) => slots::slot(key),
        })
    }

    /// Asks the script at `place`, which is the place of all keys of the call.
    /// The call takes its place in the queue now, before it is awaited: calls to
    /// one place are sent in the order in which they were made. It is not sent
    /// if no caller waits for it when its turn comes.
    pub fn call(&self, place: Destination, encoded: Encoded, repeat: Repeat) -> Call {
        self.call_by(place, encoded, (repeat, self.deadline()))
    }

    /// The same with an answer by another deadline.
    pub(super) fn call_by(
        &self,
        place: Destination,
        encoded: Encoded,
        patience: (Repeat, Instant),
    ) -> Call {
        Call(match &self.kind {
            Kind::Apart(apart) => match apart.link(place) {
                Some(link) => Route::ToServer(link.call(encoded, patience, 0, false)),
                None => Route::Nowhere,
            },
            Kind::Cluster(cluster) => Route::ToCluster(cluster.call(place.0, encoded, patience)),
        })
    }

    /// By when what is asked now must be answered.
    pub(super) fn deadline(&self) -> Instant {
        monotonic() + self.timeout
    }

    /// Asks something else than the script where `key` is kept. Not for the
    /// path of a request.
    ///
    /// # Errors
    /// Whatever kept the server from answering, within the timeout.
    pub async fn query(&self, key: &[u8], commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let place = self.destination(key);
        match &self.kind {
            Kind::Apart(apart) => match apart.link(place) {
                Some(link) => link.query(commands).await,
                None => Err(StoreError::Away),
            },
            Kind::Cluster(cluster) => cluster.query(place.0, commands).await,
        }
    }

    /// Asks the same of all servers on which `key` may be kept for all nodes, in an
    /// order that is the same for all of them: the one that keeps it, and of
    /// servers that do not know of each other the others, too. Not for the path of
    /// a request.
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

    /// Asks something else than the script at `place`, for requests that wait
    /// for it: what comes of it counts for the breaker, and while that is open it
    /// is not asked.
    ///
    /// # Errors
    /// Whatever kept the server from answering, within the timeout.
    pub(super) async fn look_up(
        &self,
        place: Destination,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        match &self.kind {
            Kind::Apart(apart) => match apart.link(place) {
                Some(link) => link.look_up(commands).await,
                None => Err(StoreError::Away),
            },
            Kind::Cluster(cluster) => cluster.look_up(place.0, commands).await,
        }
    }

    /// The same of what is read only and need not be the newest: a replica may
    /// answer, where the settings say so.
    ///
    /// # Errors
    /// Whatever kept the server from answering, within the timeout.
    pub(super) async fn read(
        &self,
        place: Destination,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let replica = match &self.kind {
            Kind::Apart(apart) => apart.replica.clone(),
            Kind::Cluster(cluster) => cluster.replica_of(place.0),
        };
        if let Some(replica) = replica
            && let Some(answers) = replica::read(&replica, commands).await
        {
            return Ok(answers);
        }
        self.look_up(place, commands).await
    }

    /// Asks every server that can be reached the same; each with its name.
    pub(super) async fn query_all(
        &self,
        commands: &Pipeline,
    ) -> Vec<(String, Result<Vec<Value>, StoreError>)> {
        let mut answers = Vec::new();
        // Those of one server stand together: one of them is enough.
        let each = match &self.kind {
            Kind::Apart(apart) => apart.connections,
            Kind::Cluster(cluster) => cluster.connections(),
        };
        for link in self.links().into_iter().step_by(each.into()) {
            answers.push((link.health().server, link.query(commands).await));
        }
        answers
    }

    /// Returns when it is known of every server whether it can be reached: at
    /// the latest soon after the time of a handshake is over.
    pub async fn settled(&self) {
        if let Kind::Cluster(cluster) = &self.kind {
            cluster.settled().await;
        }
        for link in self.links() {
            link.settled().await;
        }
    }

    /// Whether there is a connection to any server.
    pub fn is_connected(&self) -> bool {
        self.links().iter().any(|link| link.is_connected())
    }

    /// Where the breaker of the server stands that keeps what is at `place`. None
    /// if it is not known which one that is.
    pub(super) fn position(&self, place: Destination) -> Option<Position> {
        match &self.kind {
            Kind::Apart(apart) => apart.link(place).map(|link| link.position()),
            Kind::Cluster(cluster) => cluster.position(place.0),
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

    /// What is known of each connection.
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
