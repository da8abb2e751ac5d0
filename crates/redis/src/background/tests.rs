//! Calls for which no request waits, on a real server that stands still for a while.

use std::cell::Cell;
use std::time::Duration;

use tollgate_core::algorithm::{FixedWindow, Quota};
use tollgate_core::consistency::{Consistency, StoreMode};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::store::{Answer, Correction, MemoryStore, RemoteNode as _, Source};
use tollgate_core::testing::key;
use tollgate_core::time::{Span, monotonic};

use super::*;
use crate::testing::{Process, eventually, run, settings};

/// The timeout of a call.
const TIMEOUT: Duration = Duration::from_millis(100);
/// The limit of a day.
const LIMIT: u64 = 100_000;

fn daily() -> Algorithm {
    let quota = Quota::new(LIMIT, Span::DAY).expect("a quota");
    Algorithm::FixedWindow(FixedWindow::new(quota))
}

fn charge(client: u128, algorithm: &Algorithm, cost: u64, mode: StoreMode) -> Charge<'_> {
    let consistency = Consistency { mode, ..Consistency::default() };
    Charge { key: key(client), algorithm, cost, binding: true, consistency }
}

struct Scene {
    server: Process,
    store: Rc<RedisStore>,
}

impl Scene {
    /// A worker that uses a new server.
    async fn start() -> Self {
        Self::start_with(Clock::System).await
    }

    async fn start_with(clock: Clock) -> Self {
        let server = Process::start(&[]);
        let settings = settings(server.topology(), TIMEOUT);
        let memory = Arc::new(MemoryStore::new(1000));
        let secret = Arc::new(SharedSecret::new(Secret::random()));
        let node = Arc::new(NodeState::new((*settings).clone(), memory, secret));
        let store = Rc::new(RedisStore::open(&node, clock));
        let scene = Self { server, store };
        eventually("the store decides", async || {
            scene.store.ready().await;
            let answer = scene.ask(charge(9, &daily(), 0, StoreMode::Exact)).await;
            answer.source == Source::Store
        })
        .await;
        scene
    }

    async fn ask(&self, charge: Charge<'_>) -> Answer {
        let charges = [charge];
        let store = &self.store;
        store.apply(&charges, store.clock.now(), store.deadline()).await.answers[0]
    }

    /// The units that Redis counts of a client. None if it does not answer.
    async fn counted(&self, client: u128) -> Option<u64> {
        let answer = self.ask(charge(client, &daily(), 0, StoreMode::Exact)).await;
        (answer.source == Source::Store).then(|| LIMIT - answer.verdict.remaining)
    }

    fn housekeep(&self) {
        self.store.housekeep(self.store.clock.now());
    }

    /// The server stands still until this worker treats it as away.
    async fn freeze(&self) {
        self.server.signal("STOP");
        eventually("the server is given up", async || {
            let _ = self.counted(8).await;
            !self.store.servers.is_up()
        })
        .await;
    }

    /// Admits requests in Redis that reserve 4,000 units each.
    async fn admit(&self, requests: u64) {
        for _ in 0..requests {
            let answer = self.ask(charge(1, &daily(), 4000, StoreMode::Exact)).await;
            assert_eq!((answer.verdict.admitted, answer.source), (true, Source::Store));
        }
    }

    /// A response ends that has cost 100 of its 4,000 units.
    fn end_response(&self) {
        let now = self.store.clock.now();
        let op = Op::Settle { reserved: 4000, actual: 100, taken: self.store.store_time(now) };
        let algorithm = daily();
        let charge = charge(1, &algorithm, 4000, StoreMode::Exact);
        self.store.correct(&[Correction { charge, source: Source::Store, op }], now);
    }
}

/// Responses that end while Redis is away cost less than they have reserved. The rest used to stay
/// charged until the end of the day.
#[test]
fn units_that_are_given_back_while_the_store_is_away_are_given_back_when_it_is_back() {
    run(async {
        let scene = Scene::start().await;
        scene.admit(20).await;
        assert_eq!(scene.counted(1).await, Some(80_000));
        scene.freeze().await;
        (0..20).for_each(|_| scene.end_response());
        tokio::task::yield_now().await;
        assert_eq!(scene.store.node.refunds.waiting(), 20);
        scene.housekeep();
        assert_eq!(scene.store.node.refunds.waiting(), 20, "nothing is sent meanwhile");
        scene.server.signal("CONT");
        eventually("all units are given back", async || {
            scene.housekeep();
            scene.counted(1).await == Some(2000)
        })
        .await;
        let losses = scene.store.node.losses();
        assert_eq!((losses.unknown_refunds, losses.dropped_refunds), (0, 0));
    });
}

/// The difference of the clocks was that of the first reply. When the clock of the node was set,
/// refunds seemed to be over, and their units stayed charged.
#[test]
fn units_are_given_back_after_the_clock_of_the_node_was_set() {
    run(async {
        let clock = Clock::manual(Timestamp::from_micros(1_795_246_126_000_000));
        let scene = Scene::start_with(clock.clone()).await;
        clock.advance(Span::from_secs(2 * 86_400));
        scene.admit(1).await;
        scene.freeze().await;
        scene.end_response();
        tokio::task::yield_now().await;
        assert_eq!(scene.store.node.refunds.waiting(), 1);
        scene.server.signal("CONT");
        eventually("the units are given back", async || {
            scene.housekeep();
            scene.counted(1).await == Some(100)
        })
        .await;
    });
}

/// Without a request, too: the refund itself finds out that the server answers.
#[test]
fn refunds_need_no_request_to_be_sent_again() {
    run(async {
        let scene = Scene::start().await;
        scene.admit(5).await;
        scene.freeze().await;
        (0..5).for_each(|_| scene.end_response());
        scene.server.signal("CONT");
        eventually("no refund waits", async || {
            scene.housekeep();
            scene.store.node.refunds.waiting() == 0
        })
        .await;
        eventually("all are given back", async || scene.counted(1).await == Some(500)).await;
    });
}

/// To give units back twice would admit too much.
#[test]
fn units_that_the_store_may_have_given_back_are_counted_and_not_sent_again() {
    run(async {
        let scene = Scene::start().await;
        scene.admit(1).await;
        scene.server.signal("STOP");
        scene.end_response();
        eventually("the call has no reply in time", async || {
            scene.store.servers.health().iter().any(|health| health.failed > 0)
        })
        .await;
        let mut scene = scene;
        scene.server.kill();
        eventually("the outcome is unknown", async || {
            scene.store.node.losses().unknown_refunds == 3900
        })
        .await;
        assert_eq!(scene.store.node.refunds.waiting(), 0);
    });
}

#[test]
fn refunds_are_sent_before_the_worker_ends() {
    run(async {
        let scene = Scene::start().await;
        scene.admit(3).await;
        scene.freeze().await;
        (0..3).for_each(|_| scene.end_response());
        scene.server.signal("CONT");
        eventually("the server is used again", async || scene.counted(8).await.is_some()).await;
        let _: () = scene.store.close(scene.store.clock.now()).await;
        eventually("all are given back", async || scene.counted(1).await == Some(300)).await;
    });
}

/// A late reply to a report is not awaited. A stop used to wait 30 s for it.
#[test]
fn a_worker_ends_although_its_last_report_has_no_reply() {
    run(async {
        let scene = Scene::start().await;
        let algorithm = daily();
        let charge = charge(2, &algorithm, 1, StoreMode::WriteBack);
        eventually("this node counts", async || {
            scene.ask(charge).await;
            scene.store.node.local.owes(&charge)
        })
        .await;
        scene.server.signal("STOP");
        let begin = monotonic();
        scene.store.close(scene.store.clock.now()).await;
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        scene.server.signal("CONT");
    });
}

/// A slot that moves refuses each call at once, which is no failure of its server.
#[test]
fn a_worker_ends_although_its_calls_are_refused_again_and_again() {
    run(async {
        for (refused, rounds) in [(5_usize, 1), (2, 3)] {
            let waiting = Cell::new(5_usize);
            let made = Cell::new(0);
            let next = || {
                made.set(made.get() + 1);
                let calls = waiting.get().min(2);
                // Those that are refused wait again.
                waiting.set(waiting.get().saturating_sub(2).max(refused));
                (0..calls).map(|_| async {}).collect()
            };
            send_all(TIMEOUT, || waiting.get(), next).await;
            assert_eq!((waiting.get(), made.get()), (refused, rounds));
        }
    });
}
