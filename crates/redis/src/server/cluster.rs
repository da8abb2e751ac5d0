//! A Redis Cluster: links to each master, and a map from each slot to its node. All calls of a
//! slot use the same link.
//!
//! The map is read in the background. It is read again when a call finds it wrong or a master
//! away. A call that was sent to the wrong node was not counted there, so it is sent to the
//! right node within its time. Links are used instead of the cluster client of redis-rs, so that
//! each node has its own breaker and batches, and a node that is away does not affect the
//! others.

mod call;
mod redirections;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Pipeline, Value, pipe};
use tokio::select;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};

pub(super) use self::call::ClusterCall;
use tollgate_core::store::OutageCause;

use super::super::batch::Repeat;
use super::super::connect::{self, Peer, Target};
use super::super::deadline::PendingReply;
use super::super::event::OnceEvent;
use super::super::failure::{Refusal, StoreError};
use super::super::link::Link;
use super::super::live_settings::LiveSettings;
use super::super::outages::{Outages, ServerUse};
use super::super::script::Encoded;
use super::super::settings::{Address, ReadFrom};
use super::super::slots::{self, Range, SLOTS};
use super::super::transport::AnyTransport;
use crate::breaker::{FAILURES_TO_OPEN, Position};

/// The time between two reads of the map if it seems right.
const REFRESH: Duration = Duration::from_secs(10);
/// The time between two reads if it seems wrong. It bounds the time to notice a fail-over.
const SHORTEST_REFRESH: Duration = Duration::from_millis(200);
/// The time after `SHORTEST_REFRESH` until the next read if no node could be read, or slots have no
/// node. A gateway that starts while the cluster is away makes no call that would find the map stale.
const RETRY: Duration = Duration::from_millis(300);

/// One worker's links to a cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    shared: Rc<Shared>,
    refresher: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    live: LiveSettings,
    transport: AnyTransport,
    outages: Outages,
    seeds: Vec<Address>,
    map: RefCell<Map>,
    /// Whether the map can be read and has a node for each slot, and if not, why.
    map_use: RefCell<ServerUse>,
    /// Notified when the map may be wrong.
    stale: Notify,
    settled: OnceEvent,
    /// The index of the node to ask first next time, so that the nodes are asked in turn.
    turn: Cell<usize>,
}

/// The node of each slot.
#[derive(Debug)]
struct Map {
    /// For each slot an index of `nodes`.
    slots: Vec<Option<usize>>,
    nodes: Vec<Rc<Node>>,
    /// The number of slots that had a node when the map was read.
    served: usize,
}

impl Map {
    fn is_whole(&self) -> bool {
        self.served == usize::from(SLOTS)
    }
}

#[derive(Clone, Debug)]
struct Node {
    address: Address,
    /// The links to the node, at least one.
    links: Rc<[Rc<Link>]>,
    /// The link to one of its replicas, if replicas may be read.
    replica: Option<(Address, Rc<Link>)>,
}

impl Node {
    /// The link for a slot.
    fn link(&self, slot: u16) -> &Rc<Link> {
        &self.links[usize::from(slot) % self.links.len()]
    }
}

impl Cluster {
    pub(super) fn new(
        live: LiveSettings,
        transport: AnyTransport,
        seeds: Vec<Address>,
        outages: Outages,
    ) -> Self {
        let map = Map { slots: vec![None; SLOTS.into()], nodes: Vec::new(), served: 0 };
        let shared = Rc::new(Shared {
            live,
            transport,
            seeds,
            map: RefCell::new(map),
            map_use: RefCell::new(outages.user()),
            outages,
            stale: Notify::new(),
            settled: OnceEvent::default(),
            turn: Cell::new(0),
        });
        let refresher = spawn_local(Rc::clone(&shared).keep());
        Self { shared, refresher }
    }

    /// Calls the script at the node of `slot`, as [`Link::call`] does. Only the first calls
    /// wait for the map before they join a queue.
    pub(super) fn call(
        &self,
        slot: u16,
        encoded: Encoded,
        repeat: Repeat,
        deadline: Instant,
    ) -> ClusterCall {
        ClusterCall::begin(&self.shared, slot, encoded, repeat, deadline)
    }

    /// The position of the breaker of the node of `slot`, if the node is known.
    pub(super) fn position(&self, slot: u16) -> Option<Position> {
        Some(self.shared.node_of(slot)?.link(slot).position())
    }

    pub(super) fn given_time_us(&self, slot: u16) -> u64 {
        self.shared.node_of(slot).map_or(0, |node| node.link(slot).given_time_us())
    }

    pub(super) fn note_clock(&self, slot: u16, offset_us: i64) {
        if let Some(node) = self.shared.node_of(slot) {
            node.link(slot).note_clock(offset_us);
        }
    }

    pub(super) fn note_call_error(&self, slot: u16, error: &StoreError, key: &[u8]) {
        if let Some(node) = self.shared.node_of(slot) {
            node.link(slot).note_call_error(error, key);
        }
    }

    /// Sends commands to the node of `slot`, or to the node to which that node redirects. It must
    /// not be used for requests.
    pub(super) async fn query(
        &self,
        slot: u16,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        self.shared.query(slot, commands).await
    }

    /// The same for commands for which requests wait, as [`Link::look_up`] sends them.
    pub(super) async fn look_up(
        &self,
        slot: u16,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        self.shared.look_up(slot, commands).await
    }

    /// The link for this slot, if its node is known.
    pub(super) fn link(&self, slot: u16) -> Option<Rc<Link>> {
        Some(Rc::clone(self.shared.node_of(slot)?.link(slot)))
    }

    /// The link to a replica of the node of `slot`.
    pub(super) fn replica_of(&self, slot: u16) -> Option<Rc<Link>> {
        Some(Rc::clone(&self.shared.node_of(slot)?.replica.as_ref()?.1))
    }

    pub(super) async fn settled(&self) {
        self.shared.has_settled().await;
    }

    pub(super) fn links(&self) -> Vec<Rc<Link>> {
        let map = self.shared.map.borrow();
        map.nodes.iter().flat_map(|node| node.links.iter().cloned()).collect()
    }

    /// Whether each slot has a node, and all nodes answer. Each refusal asks this.
    pub(super) fn is_up(&self) -> bool {
        let map = self.shared.map.borrow();
        let mut links = map.nodes.iter().flat_map(|node| node.links.iter());
        map.is_whole() && links.all(|link| link.is_up())
    }

    /// One link to each node.
    pub(super) fn one_link_each(&self) -> Vec<Rc<Link>> {
        let map = self.shared.map.borrow();
        map.nodes.iter().map(|node| Rc::clone(&node.links[0])).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

/// A node may leave out the host of another node if it is its own.
fn from(to: &Address, node: &Node) -> Address {
    match to {
        Address::Tcp { host, port } => slots::named(host, *port, &node.address),
        Address::Unix(_) => to.clone(),
    }
}

impl Shared {
    async fn has_settled(&self) {
        self.settled.wait().await;
    }

    /// Sends a call to the node that the map has for the slot.
    fn begin(
        &self,
        slot: u16,
        encoded: &Encoded,
        repeat: Repeat,
        deadline: Instant,
    ) -> Option<(Rc<Node>, PendingReply)> {
        let node = self.node_of(slot)?;
        let answer = node.link(slot).call(encoded.clone(), repeat, deadline, slot, false);
        Some((node, answer))
    }

    /// The node to which an error redirects, and whether `ASKING` must be sent.
    fn redirected(&self, error: &StoreError, slot: u16, by: &Node) -> Option<(Rc<Link>, bool)> {
        let StoreError::Refused(refusal, _) = error else { return None };
        match refusal {
            Refusal::Moved(to) => Some((self.moved(slot, &from(to, by)), false)),
            Refusal::Ask(to) => Some((self.link_to(&from(to, by), slot), true)),
            _ => None,
        }
    }

    fn node_of(&self, slot: u16) -> Option<Rc<Node>> {
        let map = self.map.borrow();
        let node = (*map.slots.get(usize::from(slot))?)?;
        map.nodes.get(node).cloned()
    }

    fn moved(&self, slot: u16, to: &Address) -> Rc<Link> {
        let link = self.link_to(to, slot);
        let mut map = self.map.borrow_mut();
        let node = map.nodes.iter().position(|node| node.address == *to);
        if let Some(entry) = map.slots.get_mut(usize::from(slot)) {
            *entry = node;
        }
        link
    }

    /// The link to a node for a slot. It is created if there is none. Only nodes of the cluster
    /// redirect, and the next read of the map removes nodes without slots. So there are never
    /// many.
    fn link_to(&self, address: &Address, slot: u16) -> Rc<Link> {
        let known = |node: &&Rc<Node>| node.address == *address;
        if let Some(node) = self.map.borrow().nodes.iter().find(known) {
            return Rc::clone(node.link(slot));
        }
        let node = self.node(address.clone(), slot);
        let link = Rc::clone(node.link(slot));
        self.map.borrow_mut().nodes.push(Rc::new(node));
        link
    }

    /// A node that has this slot, with new links.
    fn node(&self, address: Address, slot: u16) -> Node {
        let count = self.live.peek().connections.get();
        let links = self.links(&address, slot, &[], count);
        Node { address, links, replica: None }
    }

    /// So many links to a node that has this slot: those that there are, and new ones.
    fn links(&self, address: &Address, slot: u16, old: &[Rc<Link>], count: u16) -> Rc<[Rc<Link>]> {
        let open = || {
            let target = Target::InCluster(address.clone(), slot);
            Rc::new(Link::new(self.live.clone(), self.transport, target, &self.outages))
        };
        old.iter().cloned().chain(std::iter::repeat_with(open)).take(count.into()).collect()
    }

    /// Adopts the number of links of the settings. New links are used when they are connected.
    async fn resize(&self, count: u16) {
        let nodes = self.map.borrow().nodes.clone();
        let mut resized = Vec::new();
        for node in nodes.iter().filter(|node| node.links.len() != usize::from(count)) {
            let slots = &self.map.borrow().slots;
            let index = nodes.iter().position(|it| Rc::ptr_eq(it, node));
            let slot = slots.iter().position(|it| *it == index);
            let slot = slot.and_then(|slot| u16::try_from(slot).ok()).unwrap_or_default();
            resized.push((node, self.links(&node.address, slot, &node.links, count)));
        }
        join_all(resized.iter().flat_map(|(_, links)| links.iter()).map(|link| link.settled()))
            .await;
        for entry in &mut self.map.borrow_mut().nodes {
            // A node may have left the map meanwhile.
            if let Some((_, links)) = resized.iter().find(|(node, _)| Rc::ptr_eq(node, entry)) {
                *entry = Rc::new(Node { links: Rc::clone(links), ..Node::clone(entry) });
            }
        }
    }

    /// Connects to one of these replicas of a node, unless it has a link to one of them.
    fn take_replica(&self, node: &mut Node, replicas: &[Address]) {
        let settings = self.live.peek();
        if settings.read_from == ReadFrom::Master {
            return;
        }
        if node.replica.as_ref().is_some_and(|(address, _)| replicas.contains(address)) {
            return;
        }
        node.replica = fastrand::choice(replicas).map(|address| {
            let target = Target::ReplicaAt(address.clone());
            let live = self.live.clone();
            let outages = self.outages.of_replicas();
            (address.clone(), Rc::new(Link::new(live, self.transport, target, &outages)))
        });
    }

    async fn keep(self: Rc<Self>) {
        let mut failures: u8 = 0;
        let mut live = self.live.clone();
        loop {
            let connections = live.current().connections.get();
            self.resize(connections).await;
            match self.read().await {
                Ok(ranges) => {
                    failures = 0;
                    self.adopt(ranges);
                    self.check_slots();
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    self.unread(&error, failures);
                }
            }
            self.settled.set();
            sleep(SHORTEST_REFRESH).await;
            let is_good = failures == 0 && self.map.borrow().is_whole();
            let pause = if is_good { REFRESH } else { RETRY };
            // Any of them is a reason to read the map again.
            select! {
                biased;
                () = sleep(pause) => {}
                () = self.stale.notified() => {}
                () = live.changed() => {}
            }
        }
    }

    /// The map could not be read, for the last `failures` times. While there is a map, the links
    /// of its nodes say most, so the first failures are not reported.
    fn unread(&self, error: &StoreError, failures: u8) {
        if failures >= FAILURES_TO_OPEN || self.map.borrow().nodes.is_empty() {
            self.give_up(error);
        }
    }

    /// Records whether the map that was read has a node for each slot. Calls for the other slots
    /// fail, and no link says why.
    fn check_slots(&self) {
        let map = self.map.borrow();
        if map.is_whole() {
            return self.map_use.borrow_mut().resume();
        }
        let said = slots::text_of_served(map.served);
        self.give_up(&StoreError::NotConnected(OutageCause::ClusterDown, said));
    }

    fn give_up(&self, error: &StoreError) {
        let seeds: Vec<String> = self.seeds.iter().map(ToString::to_string).collect();
        let outage = error.outage(seeds.join(","), &self.live.peek());
        self.map_use.borrow_mut().give_up(outage);
    }

    /// Asks the nodes in turn, beginning with those that are connected.
    async fn read(&self) -> Result<Vec<Range>, StoreError> {
        let mut question = pipe();
        question.cmd("CLUSTER").arg("SLOTS");
        let nodes = self.map.borrow().nodes.clone();
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        for step in 0..nodes.len() {
            let node = &nodes[turn.wrapping_add(step) % nodes.len()];
            if let Ok(answers) = node.links[0].query(&question).await
                && let Ok(ranges) = understood(answers, &node.address)
            {
                return Ok(ranges);
            }
        }
        let mut error = StoreError::Away;
        let settings = self.live.peek();
        for seed in &self.seeds {
            let asked =
                timeout(connect::handshake_timeout(&settings), self.ask(seed, &question)).await;
            match asked.unwrap_or(Err(StoreError::Timeout)) {
                Ok(ranges) => return Ok(ranges),
                // One that refuses says more than one that does not answer.
                Err(why) if error.cause().is_silence() => error = why,
                Err(_) => {}
            }
        }
        Err(error)
    }

    async fn ask(&self, seed: &Address, question: &Pipeline) -> Result<Vec<Range>, StoreError> {
        let (_wire, answers) =
            connect::open(self.transport, &self.live.peek(), seed, Peer::Server, question).await?;
        understood(answers, seed)
    }

    fn adopt(&self, ranges: Vec<Range>) {
        let mut map = self.map.borrow_mut();
        let mut nodes: Vec<Node> = Vec::new();
        let mut slots = vec![None; SLOTS.into()];
        for (range, address, replicas) in ranges {
            let known = |node: &Node| node.address == address;
            let index = nodes.iter().position(known).unwrap_or_else(|| {
                let old = map.nodes.iter().find(|node| known(node));
                let old = old.map(|node| Node::clone(node));
                nodes.push(old.unwrap_or_else(|| self.node(address.clone(), *range.start())));
                nodes.len() - 1
            });
            self.take_replica(&mut nodes[index], &replicas);
            for slot in range {
                slots[usize::from(slot)] = Some(index);
            }
        }
        let served = slots.iter().flatten().count();
        *map = Map { slots, nodes: nodes.into_iter().map(Rc::new).collect(), served };
    }
}

/// The ranges of slots in the answers of the node `asked` to `CLUSTER SLOTS`. A valid map has at
/// least one node.
///
/// # Errors
/// If the first answer is not such a map.
pub(crate) fn understood(answers: Vec<Value>, asked: &Address) -> Result<Vec<Range>, StoreError> {
    let answer = answers.into_iter().next().unwrap_or_default();
    let ranges = slots::ranges(answer, asked)?;
    if ranges.is_empty() {
        let said = "CLUSTER SLOTS names no node".to_owned();
        return Err(StoreError::NotConnected(OutageCause::ClusterDown, said));
    }
    Ok(ranges)
}
