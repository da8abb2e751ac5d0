//! The clients of a run: each sends requests to the nodes, waits for the
//! decision or goes away before it, and tells what the request has cost.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::spawn_local;
use tokio::time::{sleep, sleep_until, timeout};
use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::store::{Answer, Charge, Correction, Decided, Store};

use super::journal::{Charged, Corrected, Made, Request};
use super::node::{Fleet, Node};
use super::scenario::{Client, Counted, Settling};
use super::world::World;

/// When a client goes away, if it does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Departure {
    Never,
    /// While the decision is made, when it has been polled so often.
    AfterPolls(u32),
    /// After so long.
    AfterMs(u64),
}

/// A decision under way. It is dropped when it was polled as often as it may.
struct Attended<'f> {
    world: Rc<World>,
    decision: Option<Pin<Box<dyn Future<Output = Decided> + 'f>>>,
    request: usize,
    polls_left: u32,
}

impl Future for Attended<'_> {
    type Output = Option<Decided>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls_left == 0 {
            self.decision = None;
        }
        self.polls_left = self.polls_left.saturating_sub(1);
        let world = Rc::clone(&self.world);
        let request = self.request;
        let Some(decision) = &mut self.decision else { return Poll::Ready(None) };
        world.current.set(Some(request));
        let polled = decision.as_mut().poll(cx);
        world.current.set(None);
        polled.map(Some)
    }
}

/// Lets a client come until the traffic ends.
pub(super) async fn come(fleet: Rc<Fleet>, number: usize, until_us: u64) {
    let client = fleet.scenario.clients[number].clone();
    let own = u64::try_from(number + 1).expect("a few clients");
    let mut random = Rng::with_seed(fleet.scenario.seed ^ (own << 40));
    let world = Rc::clone(&fleet.world);
    sleep_until(world.moment(client.begins_us)).await;
    while world.now_us() < until_us.min(client.ends_us) && !world.is_frozen.get() {
        for _ in 0..random.u32(1..=client.burst) {
            let place = client.sticks_to.unwrap_or_else(|| random.usize(0..fleet.scenario.nodes));
            let departure = departure(&client, &mut random);
            let Some(node) = fleet.at(place) else { continue };
            let worker = random.usize(0..node.workers.len());
            let fleet = Rc::clone(&fleet);
            let client = client.clone();
            let holder = Rc::clone(&node);
            let mut random = random.fork();
            let life = async move {
                if client.spread_ms > 0 {
                    sleep(Duration::from_millis(random.u64(0..=client.spread_ms))).await;
                }
                live(&fleet, &holder, worker, &client, departure, random).await;
            };
            node.spawn(life);
        }
        sleep(Duration::from_millis(random.u64(client.gap_ms / 2..=client.gap_ms * 3 / 2))).await;
    }
}

fn departure(client: &Client, random: &mut Rng) -> Departure {
    if client.leaves_one_in == 0 || random.u64(0..client.leaves_one_in) > 0 {
        return Departure::Never;
    }
    match random.bool() {
        true => Departure::AfterPolls(random.u32(1..=3)),
        false => Departure::AfterMs(random.u64(0..=client.hold_ms.max(5))),
    }
}

/// One request, from its coming to the end of its response.
async fn live(
    fleet: &Fleet,
    node: &Rc<Node>,
    worker: usize,
    client: &Client,
    departure: Departure,
    mut random: Rng,
) {
    let world = &fleet.world;
    if world.is_frozen.get() {
        return;
    }
    let Some((request, decided)) = decide(fleet, node, worker, client, departure).await else {
        return;
    };
    let hold_ms = random.u64(client.hold_ms / 2..=client.hold_ms * 3 / 2);
    let hold_ms = match departure {
        Departure::AfterMs(left_ms) => hold_ms.min(left_ms),
        _ => hold_ms,
    };
    if hold_ms > 0 {
        // The response takes its time; then nobody is here who could be asked.
        sleep(Duration::from_millis(hold_ms)).await;
    }
    settle(fleet, node, worker, client, request, &decided, &mut random);
    world.tell(|| format!("request {request} has ended"));
}

/// Asks for a decision. None if the client goes away before it, or is refused.
pub(super) async fn decide(
    fleet: &Fleet,
    node: &Node,
    worker: usize,
    client: &Client,
    departure: Departure,
) -> Option<(usize, Decided)> {
    let world = &fleet.world;
    let counters = &fleet.scenario.counters;
    let algorithms = algorithms(counters, client);
    let charges: Vec<Charge<'_>> = client
        .charges
        .iter()
        .zip(&algorithms)
        .map(|(&(counter, cost), algorithm)| Charge { algorithm, ..counters[counter].charge(cost) })
        .collect();
    let request = begin(world, node, client, &charges);
    let polls_left = match departure {
        Departure::AfterPolls(polls) => polls,
        _ => u32::MAX,
    };
    let store = &node.workers[worker];
    let decision = async {
        let deadline = store.as_ref().deadline();
        let mut decided = store.as_ref().apply_by(&charges, node.now(), deadline).await;
        if let Some(refusals) = client.penalty {
            punish(store, deadline, node, counters, refusals, &charges, &mut decided).await;
        }
        decided
    };
    let decision = Attended {
        world: Rc::clone(world),
        decision: Some(Box::pin(decision)),
        request,
        polls_left,
    };
    let decided = match departure {
        Departure::AfterMs(ms) => timeout(Duration::from_millis(ms), decision).await.ok().flatten(),
        _ => decision.await,
    };
    let Some(decided) = decided else {
        world.tell(|| format!("the client of request {request} goes away"));
        world.journal.borrow_mut().left(request, world.now_us());
        return None;
    };
    note(world, request, &charges, &decided).then_some((request, decided))
}

/// The limits of a client: its parts of those of the counters.
fn algorithms(counters: &[Counted], client: &Client) -> Vec<Algorithm> {
    let part = |&(counter, _): &(usize, u64)| {
        let whole = &counters[counter].algorithm;
        let limit = whole.limit() * client.plan_percent / 100;
        match client.plan_percent {
            100 => whole.clone(),
            _ => whole.with_limit(limit.max(1)).expect("a smaller limit fits"),
        }
    };
    client.charges.iter().map(part).collect()
}

/// Counts a refusal, and bans the client if there are too many, as the limiter does.
async fn punish(
    store: &Store,
    deadline: Option<Instant>,
    node: &Node,
    counters: &[Counted],
    refusals: usize,
    charges: &[Charge<'_>],
    decided: &mut Decided,
) {
    let banned = charges.len() - 1;
    let is_refused = charges[0].binding && !decided.answers[0].verdict.admitted;
    if !is_refused || !decided.answers[banned].verdict.admitted {
        return;
    }
    let refusal = counters[refusals].charge(1);
    let counted = store.as_ref().apply_by(&[refusal], node.now(), deadline).await;
    if counted.answers[0].verdict.remaining == 0 {
        let charge = charges[banned];
        let source = counted.answers[0].source;
        let op = Op::Settle { reserved: 0, actual: 1, taken: counted.at };
        store.correct(&[Correction { charge, source, op }], node.now());
        let again = store.as_ref().apply_by(&[charge], node.now(), deadline).await;
        decided.answers[banned] = again.answers[0];
    }
}

impl Departure {
    pub(super) const STAYS: Self = Self::Never;
}

fn begin(world: &World, node: &Node, client: &Client, charges: &[Charge<'_>]) -> usize {
    let charged = |(&(counter, cost), charge): (&(usize, u64), &Charge<'_>)| Charged {
        counter,
        key: charge.key,
        cost,
    };
    let request = world.journal.borrow_mut().begin(Request {
        node: node.number,
        client: client.clone(),
        charges: client.charges.iter().zip(charges).map(charged).collect(),
        begun_us: world.now_us(),
        decided: None,
        gone_us: None,
    });
    world.tell(|| {
        let charges: Vec<_> =
            client.charges.iter().map(|(it, cost)| format!("{cost} of {it}")).collect();
        format!("request {request} comes to node {}: {}", node.number, charges.join(", "))
    });
    request
}

/// Takes note of a decision. Whether the request is admitted.
fn note(world: &World, request: usize, charges: &[Charge<'_>], decided: &Decided) -> bool {
    let refuses =
        |(charge, answer): (&Charge<'_>, &Answer)| charge.binding && !answer.verdict.admitted;
    let admitted = !charges.iter().zip(&decided.answers).any(refuses);
    world.tell(|| {
        let said = if admitted { "admitted" } else { "refused" };
        let answers: Vec<_> = decided
            .answers
            .iter()
            .map(|it| {
                format!("{:?} {:?}, {} left", it.source, it.verdict.retry, it.verdict.remaining)
            })
            .collect();
        format!("request {request} is {said}: {}", answers.join("; "))
    });
    let at = decided.at;
    let made_us = world.now_us();
    let answers = decided.answers.to_vec();
    world
        .journal
        .borrow_mut()
        .decided(request, Made { at, made_us, admitted, answers, order: (0, 0) });
    world.decided(request);
    admitted
}

/// Tells what the request has cost, as the limiter does at the end of a response.
fn settle(
    fleet: &Fleet,
    node: &Node,
    worker: usize,
    client: &Client,
    request: usize,
    decided: &Decided,
    random: &mut Rng,
) {
    let world = &fleet.world;
    let counters = &fleet.scenario.counters;
    let mut corrections = Vec::new();
    let algorithms = algorithms(counters, client);
    let charged = client.charges.iter().zip(&algorithms);
    for ((&(counter, cost), algorithm), answer) in charged.zip(&decided.answers) {
        let it = &counters[counter];
        if !answer.verdict.admitted || matches!(algorithm, Algorithm::Ban(_)) {
            continue;
        }
        let actual = match client.settling {
            Settling::AsReserved => cost,
            Settling::UpTo(most) => random.u64(0..=most),
            Settling::Exactly(actual) => actual,
        };
        let taken = answer.at.unwrap_or(decided.at);
        let op = match &it.algorithm {
            Algorithm::Concurrency(_) => Op::Give { cost, taken },
            _ if actual == cost => continue,
            _ => Op::Settle { reserved: cost, actual, taken },
        };
        let key = it.key;
        let charge = Charge { algorithm, binding: false, ..it.charge(cost) };
        corrections.push(Correction { charge, source: answer.source, op });
        let at_us = world.now_us();
        let node = node.number;
        let source = answer.source;
        world.journal.borrow_mut().correct(Corrected {
            request,
            at_us,
            order: (0, 0),
            node,
            key,
            source,
            op,
        });
        world.tell(|| format!("node {node} corrects counter {counter}: {op:?}, {source:?}"));
    }
    if !corrections.is_empty() {
        node.workers[worker].correct(&corrections, node.now());
    }
}

/// Begins the traffic of all clients.
pub(super) fn begin_all(fleet: &Rc<Fleet>, until_us: u64) {
    for number in 0..fleet.scenario.clients.len() {
        spawn_local(come(Rc::clone(fleet), number, until_us));
    }
}
