//! The world of one run: virtual time, the clocks that are read in it, what was
//! asked, and everything that all its parts share.
//!
//! One run lives on one thread. The transport of the stores finds its world there.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::time::{Clock, Timestamp};

use super::journal::Journal;
use super::network::Network;
use super::server::Servers;
use super::story::Story;

/// When runs begin: 2026-11-21T12:00:00Z, far from the edge of any long window.
pub(super) const START_US: u64 = 1_795_262_400_000_000;

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// Everything that the parts of one run share.
pub(super) struct World {
    began: Cell<Option<Instant>>,
    clocks: RefCell<Vec<NodeClock>>,
    /// Draws of the network. Clients have draws of their own.
    pub(super) random: RefCell<Rng>,
    pub(super) network: Network,
    pub(super) servers: Servers,
    pub(super) journal: RefCell<Journal>,
    pub(super) story: Story,
    /// The request whose decision is being polled.
    pub(super) current: Cell<Option<usize>>,
    /// When this request is decided, no other request and no other trouble comes.
    pub(super) last_request: Cell<Option<usize>>,
    pub(super) is_frozen: Cell<bool>,
    pub(super) frozen: Notify,
    /// When a task panicked first, and with which message. The runtime catches it.
    pub(super) panicked: RefCell<Option<(u64, String)>>,
}

/// The clock of one node. It follows the wall clock of its machine slowly, as
/// the clock of a process does: a second lasts 0.9 to 1.1 seconds meanwhile.
struct NodeClock {
    shown: Arc<AtomicU64>,
    /// How far ahead of the true time it is, and the wall clock.
    ahead_us: i64,
    wall_ahead_us: i64,
    ticked_us: u64,
}

/// The part of the speed that a clock gives up, or adds, to follow.
const SLEW: u64 = 10;

impl NodeClock {
    fn tick(&mut self, now_us: u64) {
        let most = i64::try_from((now_us - self.ticked_us) / SLEW).expect("a run lasts minutes");
        self.ticked_us = now_us;
        self.ahead_us += (self.wall_ahead_us - self.ahead_us).clamp(-most, most);
        let shown_us = (START_US + now_us).saturating_add_signed(self.ahead_us);
        self.shown.store(shown_us, Ordering::Relaxed);
    }
}

impl World {
    pub(super) fn new(seed: u64, servers: Servers, is_told: bool) -> Rc<Self> {
        Rc::new(Self {
            began: Cell::new(None),
            clocks: RefCell::default(),
            random: RefCell::new(Rng::with_seed(seed)),
            network: Network::default(),
            servers,
            journal: RefCell::default(),
            story: Story::new(is_told),
            current: Cell::new(None),
            last_request: Cell::new(None),
            is_frozen: Cell::new(false),
            frozen: Notify::new(),
            panicked: RefCell::default(),
        })
    }

    /// Makes it the world of this thread until the guard is dropped.
    pub(super) fn enter(self: &Rc<Self>) -> Entered {
        static NOTE_PANICS: Once = Once::new();
        NOTE_PANICS.call_once(|| {
            let print = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                print(info);
                if let Some(world) = Self::here() {
                    let first = (world.now_us(), info.to_string());
                    world.panicked.borrow_mut().get_or_insert(first);
                }
            }));
        });
        WORLD.with(|world| world.replace(Some(Rc::clone(self))));
        Entered
    }

    /// The world of this thread, if a run is under way on it.
    pub(super) fn here() -> Option<Rc<Self>> {
        WORLD.with(|world| world.try_borrow().ok()?.clone())
    }

    /// Virtual time begins now. Must be called within the runtime.
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's clock is paused, so it is virtual"
    )]
    pub(super) fn begin(&self) {
        self.began.set(Some(Instant::now()));
    }

    /// Microseconds of virtual time since the run began.
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's clock is paused, so it is virtual"
    )]
    pub(super) fn now_us(&self) -> u64 {
        let since = self.began.get().map_or(Duration::ZERO, |began| Instant::now() - began);
        u64::try_from(since.as_micros()).expect("a run lasts minutes")
    }

    /// The moment `us` after the beginning, for timers.
    pub(super) fn moment(&self, us: u64) -> Instant {
        self.began.get().expect("it has begun") + Duration::from_micros(us)
    }

    /// The true time, which the servers' clocks show.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(START_US + self.now_us())
    }

    /// A wall clock of a node: its number, and what the store reads.
    pub(super) fn add_clock(&self, ahead_us: i64) -> (usize, Clock) {
        let shown = Arc::new(AtomicU64::new(0));
        let mut clocks = self.clocks.borrow_mut();
        let wall_ahead_us = ahead_us;
        let ticked_us = self.now_us();
        clocks.push(NodeClock { shown: Arc::clone(&shown), ahead_us, wall_ahead_us, ticked_us });
        let number = clocks.len() - 1;
        drop(clocks);
        self.tick();
        (number, Clock::Manual(shown))
    }

    /// The wall clock of a node's machine shows another time from now on.
    pub(super) fn set_ahead(&self, clock: usize, ahead_us: i64) {
        self.tick();
        self.clocks.borrow_mut()[clock].wall_ahead_us = ahead_us;
    }

    /// Brings all clocks up to date. The runtime calls it whenever virtual time
    /// may have moved, before any task sees it.
    pub(super) fn tick(&self) {
        let now_us = self.now_us();
        self.clocks.borrow_mut().iter_mut().for_each(|clock| clock.tick(now_us));
    }

    /// A request is decided. If it is the last one, the world is frozen.
    pub(super) fn decided(&self, request: usize) {
        if self.last_request.get() == Some(request) {
            self.is_frozen.set(true);
            self.frozen.notify_one();
        }
    }

    /// A whole number of milliseconds: timers know no shorter time.
    pub(super) fn draw_ms(&self, range: std::ops::RangeInclusive<u64>) -> u64 {
        self.random.borrow_mut().u64(range)
    }

    /// Adds a line to the story.
    pub(super) fn tell(&self, line: impl FnOnce() -> String) {
        self.story.tell(|| self.now_us(), line);
    }
}

/// While it lives its world is that of the thread.
#[must_use]
pub(super) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.with(|world| world.replace(None));
    }
}

/// Runs a future in virtual time, on a runtime like a worker's.
pub(super) fn run<T>(world: &Rc<World>, main: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).on_thread_unpark(|| {
        if let Some(world) = World::here() {
            world.tick();
        }
    });
    let runtime = builder.build_local(Default::default()).expect("a runtime without sockets");
    let output = runtime.block_on(async {
        world.begin();
        main.await
    });
    // Its tasks end before the world that they look for does.
    drop(runtime);
    output
}
