//! The nodes of a run: real stores, opened as a gateway opens them, with clocks
//! of their own. A node that crashes is cut off, and its requests end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, spawn_local};
use tokio::time::sleep;
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::store::{MemoryStore, SharedStore, Store};
use tollgate_core::time::{Clock, Timestamp};

use super::scenario::Scenario;
use super::transport::Model;
use super::world::World;
use crate::NodeState;
use crate::settings::{Password, RedisSettings};

/// How often a worker does what must be done now and then, as the gateway's do.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
/// More keys than any run has.
const KEYS: usize = 256;

/// One process. One that is started again is another one.
pub(super) struct Node {
    /// Which process, of all that there were.
    pub(super) number: usize,
    pub(super) workers: Vec<Store>,
    pub(super) clock: Clock,
    pub(super) clock_number: usize,
    shared: Arc<NodeState>,
    tasks: RefCell<Vec<AbortHandle>>,
}

impl Node {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs as long as the node does.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut tasks = self.tasks.borrow_mut();
        if tasks.len() > 64 {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(spawn_local(task).abort_handle());
    }
}

/// The nodes that run, by their places.
pub(super) struct Fleet {
    pub(super) world: Rc<World>,
    pub(super) scenario: Rc<Scenario>,
    nodes: RefCell<Vec<Option<Rc<Node>>>>,
    /// Places at which a node is being started.
    starting: RefCell<BTreeSet<usize>>,
    started: Cell<usize>,
}

impl Fleet {
    pub(super) fn new(world: &Rc<World>, scenario: &Rc<Scenario>) -> Rc<Self> {
        Rc::new(Self {
            world: Rc::clone(world),
            scenario: Rc::clone(scenario),
            nodes: RefCell::new(vec![None; scenario.nodes]),
            starting: RefCell::default(),
            started: Cell::new(0),
        })
    }

    /// The node at this place, if one runs there.
    pub(super) fn at(&self, place: usize) -> Option<Rc<Node>> {
        self.nodes.borrow()[place % self.scenario.nodes].clone()
    }

    /// All nodes that run have the password of the servers from now on.
    pub(super) fn adopt_password(&self) {
        for node in self.nodes.borrow().iter().flatten() {
            let mut settings = node.shared.settings.clone();
            settings.credentials.password = Some(Password::new(self.world.servers.password()));
            node.shared.adopt(&settings);
        }
    }

    /// Starts a node where none runs, and returns when it serves.
    pub(super) async fn start(&self, place: usize) {
        if self.at(place).is_some() || !self.starting.borrow_mut().insert(place) {
            return;
        }
        let number = self.started.get();
        self.started.set(number + 1);
        let scenario = &self.scenario;
        let (clock_number, clock) = self.world.add_clock(scenario.ahead_us[place]);
        let mut settings = RedisSettings::new(scenario.topology());
        settings.timeout = scenario.timeout;
        settings.interval = scenario.interval;
        settings.credentials.username = Some(number.to_string());
        settings.credentials.password = Some(Password::new(self.world.servers.password()));
        settings.expected_clients = 1000;
        settings.secret = Some(Secret::from_bytes([7; 16]));
        let secret = Arc::new(SharedSecret::new(Secret::from_bytes([7; 16])));
        let shared =
            Arc::new(NodeState::over(&Model, settings, Arc::new(MemoryStore::new(KEYS)), secret));
        let store = SharedStore::Remote(Arc::<NodeState>::clone(&shared));
        let open = |_| store.open(clock.clone());
        let workers: Vec<Store> = (0..scenario.workers).map(open).collect();
        for worker in &workers {
            worker.ready().await;
        }
        let node = Rc::new(Node {
            number,
            workers,
            clock,
            clock_number,
            shared,
            tasks: RefCell::default(),
        });
        self.world.tell(|| format!("node {number} serves"));
        let keeping = Rc::clone(&node);
        node.spawn(async move {
            loop {
                sleep(HOUSEKEEPING).await;
                keeping.workers.iter().for_each(|worker| worker.housekeep(keeping.now()));
            }
        });
        self.starting.borrow_mut().remove(&place);
        self.nodes.borrow_mut()[place] = Some(node);
        // It may have changed while the node started.
        self.adopt_password();
    }

    /// A node is gone from one moment to the next.
    pub(super) fn crash(&self, place: usize) {
        let node = self.nodes.borrow_mut()[place].take();
        if let Some(node) = node {
            self.world.tell(|| format!("node {} crashes", node.number));
            self.end(&node);
        }
    }

    /// A node takes no more requests, tells what it must, and ends.
    pub(super) async fn stop(&self, place: usize) {
        let node = self.nodes.borrow_mut()[place].take();
        if let Some(node) = node {
            self.world.tell(|| format!("node {} stops", node.number));
            for worker in &node.workers {
                worker.close(node.now()).await;
            }
            self.end(&node);
        }
    }

    fn end(&self, node: &Node) {
        self.world.network.kill(node.number);
        self.world.journal.borrow_mut().end_node(node.number, self.world.now_us());
        node.tasks.take().iter().for_each(AbortHandle::abort);
    }

    /// The wall clock of a node jumps.
    pub(super) fn jump(&self, place: usize, ahead_us: i64) {
        if let Some(node) = self.at(place) {
            self.world.tell(|| format!("the clock of node {} is {ahead_us} us ahead", node.number));
            self.world.set_ahead(node.clock_number, ahead_us);
        }
    }
}
