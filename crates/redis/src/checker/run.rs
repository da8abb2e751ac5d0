//! One run, from its first node to its last question.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::sleep;
use tollgate_core::algorithm::{Algorithm, Op, Retry};
use tollgate_core::consistency::OnFailure;
use tollgate_core::time::Span;

use super::client::{self, Departure};
use super::journal::{Probe, Sample};
use super::node::Fleet;
use super::oracle::{self, Broken, budgets};
use super::scenario::{Client, Scenario};
use super::server::Servers;
use super::world::{self, World};
use super::{fork, troubles};
use crate::layout::Layout;

/// Nothing is asked for so long after the traffic, so that all that is under
/// way has come to its end: errands, debts, and connections that are made again.
const CALM: Duration = Duration::from_millis(4500);
/// Between two looks at what the servers count.
const LOOK: Duration = Duration::from_millis(100);
/// A look counts if nothing has happened for so long before it.
const QUIET_US: u64 = 60_000;
/// Units in flight of a node that is gone are free after so long.
const LEASE: Duration = Duration::from_secs(16);
/// A client waits no longer than this to find out whether it is admitted.
const LONGEST_WAIT: Span = Span::from_secs(30);

/// What a run came to.
pub(super) struct Ran {
    /// The promises that it broke.
    pub(super) broken: Vec<Broken>,
    /// Decisions, and bodies that the servers decided.
    pub(super) requests: usize,
    pub(super) questions: usize,
    /// Two runs of one seed that are told have the same.
    pub(super) digest: u64,
    pub(super) story: String,
    /// Requests whose waits can be probed.
    pub(super) waits: Vec<usize>,
    /// Windows of which the cost in the end is judged, and those that cost more than the limit.
    pub(super) windows: [u64; 2],
}

/// Runs a scenario, and judges it.
pub(super) fn run(scenario: &Scenario, is_told: bool) -> Ran {
    let (world, ()) = in_world(scenario, is_told, play);
    let journal = world.journal.take();
    let mut broken = oracle::judge(scenario, &journal);
    let panicked = world.panicked.take();
    broken.extend(panicked.map(|(at_us, how)| Broken { promise: "nothing panics", at_us, how }));
    Ran {
        broken,
        requests: journal.requests.len(),
        questions: journal.questions.len(),
        digest: if is_told { journal.digest() } else { 0 },
        story: world.story.text(),
        waits: fork::candidates(scenario, &journal),
        windows: budgets::exceeded(scenario, &journal),
    }
}

/// Runs a future in a new world for this scenario.
pub(super) fn in_world<T, F: Future<Output = T>>(
    scenario: &Scenario,
    is_told: bool,
    play: impl FnOnce(Rc<World>, Rc<Scenario>) -> F,
) -> (Rc<World>, T) {
    fastrand::seed(scenario.seed);
    let layout = Layout::new("tollgate", 1000);
    let servers = Servers::new(scenario.sharing(), scenario.server_count(), layout);
    let world = World::new(scenario.seed, servers, is_told);
    let entered = world.enter();
    let played = world::run(&world, play(Rc::clone(&world), Rc::new(scenario.clone())));
    drop(entered);
    (world, played)
}

/// Begins everything that happens in a run.
pub(super) fn begin(world: &Rc<World>, scenario: &Rc<Scenario>) -> Rc<Fleet> {
    let network = Rc::clone(world);
    spawn_local(async move { network.network.carry(Rc::clone(&network)).await });
    let fleet = Fleet::new(world, scenario);
    for place in 0..scenario.nodes {
        let fleet = Rc::clone(&fleet);
        spawn_local(async move { fleet.start(place).await });
    }
    client::begin_all(&fleet, scenario.traffic_us);
    spawn_local(troubles::happen(Rc::clone(&fleet)));
    fleet
}

async fn play(world: Rc<World>, scenario: Rc<Scenario>) {
    let fleet = begin(&world, &scenario);
    let looking = spawn_local(look(Rc::clone(&world), Rc::clone(&scenario)));
    tokio::time::sleep_until(world.moment(scenario.traffic_us)).await;
    world.tell(|| "the traffic ends".to_owned());
    sleep(CALM).await;
    looking.abort();
    take_samples(&world, &scenario, true);
    finish(&fleet).await;
}

/// Looks at what the servers count whenever nothing is under way.
async fn look(world: Rc<World>, scenario: Rc<Scenario>) {
    loop {
        sleep(LOOK).await;
        let quiet_us = world.journal.borrow().quiet_us(world.now_us());
        if quiet_us.is_some_and(|quiet_us| quiet_us >= QUIET_US) {
            take_samples(&world, &scenario, false);
        }
    }
}

fn take_samples(world: &World, scenario: &Scenario, is_last: bool) {
    let quiet_us = world.journal.borrow().quiet_us(world.now_us()).unwrap_or_default();
    let order = world.journal.borrow_mut().order();
    let mut samples = Vec::new();
    for counted in &scenario.counters {
        let state = world.servers.state(counted.key, world.now());
        let roomy = oracle::roomy(&counted.algorithm);
        let (_, verdict) = roomy.apply(state.as_ref(), Op::Take(0), world.now());
        let used = roomy.capacity() - verdict.remaining;
        let journal = world.journal.borrow();
        let last = journal.samples.iter().rev().find(|it| it.key == counted.key);
        if last.is_none_or(|it| it.used != used) {
            let number = counted.key.counter.bits();
            world.tell(|| format!("the servers count {used} units of counter {number}"));
        }
        let at_us = world.now_us();
        let key = counted.key;
        samples.push(Sample { at_us, order, quiet_us, key, used, is_last });
    }
    world.journal.borrow_mut().samples.extend(samples);
}

/// A client that is alone asks, waits as it is told, and asks again.
async fn finish(fleet: &Rc<Fleet>) {
    let scenario = &fleet.scenario;
    let has_flights =
        scenario.counters.iter().any(|it| matches!(it.algorithm, Algorithm::Concurrency(_)));
    if has_flights && scenario.may_end_unheard() {
        sleep(LEASE).await;
        take_samples(&fleet.world, scenario, true);
    }
    for (counter, counted) in scenario.counters.iter().enumerate() {
        if counted.consistency.on_failure != OnFailure::Local {
            continue;
        }
        let client = Client::new(vec![(counter, 1)], 1);
        let Some(first) = ask_alone(fleet, &client).await else { continue };
        let Retry::After(wait) = first.retry else { continue };
        if wait > LONGEST_WAIT {
            continue;
        }
        // As the field in the answer says it: in whole seconds.
        sleep(Duration::from_secs(wait.as_secs_ceil())).await;
        let Some(second) = ask_alone(fleet, &client).await else { continue };
        let at_us = fleet.world.now_us();
        fleet.world.journal.borrow_mut().probes.push(Probe { at_us, counter, first, second });
    }
}

async fn ask_alone(
    fleet: &Rc<Fleet>,
    client: &Client,
) -> Option<tollgate_core::algorithm::Verdict> {
    let place = (0..fleet.scenario.nodes).find(|place| fleet.at(*place).is_some())?;
    let node = fleet.at(place)?;
    let before = fleet.world.journal.borrow().requests.len();
    let _ = client::decide(fleet, &node, 0, client, Departure::STAYS).await;
    let journal = fleet.world.journal.borrow();
    let made = journal.requests.get(before)?.decided.as_ref()?;
    Some(made.answers.first()?.verdict)
}
