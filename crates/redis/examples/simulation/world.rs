//! Nodes, one store and the messages between them, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use tollgate_core::algorithm::{Algorithm, Op, QuotaError, State};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::store::Charge;
use tollgate_core::time::{Span, Timestamp};
use tollgate_redis::shared::Ahead;

use crate::node::{Mode, Node, Report, Step, taken};
use crate::tally::Tally;
use crate::traffic::Request;

/// How often a node looks for reports to the store, in addition to every request.
const TICK: Span = Span::from_millis(10);

/// How long a node waits for the store.
const TIMEOUT: Span = Span::from_millis(20);
/// The times after the start at which the store becomes unavailable and available.
const AWAY_AFTER: Span = Span::from_secs(12);
const AWAY_UNTIL: Span = Span::from_secs(14);

/// Failures between nodes and store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No failure.
    None,
    /// One message in a hundred is lost, in either direction.
    Losses,
    /// The store is unavailable for two seconds.
    Away,
}

impl Trouble {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Losses => "1 % lost",
            Self::Away => "away for 2 s",
        }
    }
}

/// An event at a node or at the store.
enum Arrival {
    /// A request at its node.
    Request(Request),
    /// A request at the store.
    Asked(Request, Ahead),
    /// A node has waited for the answer to a request until its time was over.
    Unanswered(Request),
    /// A node has waited for the answer to a report until its time was over.
    Unheard(usize, Report),
    /// The answer to a request at its node, with the state before the decision and the
    /// time of the decision.
    Answered(Request, Ahead, Option<State>, Timestamp),
    /// A node's report at the store.
    Reported(usize, Report),
    /// The answer to a report at its node.
    Told(usize, Report, Option<State>, Timestamp),
    /// A tick of a node's clock.
    Tick(usize),
}

pub(crate) struct World<'a> {
    algorithm: &'a Algorithm,
    nodes: Vec<Node>,
    store: Vec<Option<State>>,
    /// The requests that have not arrived, in order of time.
    requests: &'a [Request],
    /// The times of other events. The number orders events with the same time.
    order: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// The events by their numbers. Requests that have arrived have numbers, too.
    arrivals: Vec<Option<Arrival>>,
    random: Rng,
    trouble: Trouble,
    start: Timestamp,
    end: Timestamp,
    pub(crate) tally: Tally<'a>,
}

impl Arrival {
    /// The event that replaces a lost message.
    fn missed(self) -> Self {
        match self {
            Self::Asked(request, _) | Self::Answered(request, ..) => Self::Unanswered(request),
            Self::Reported(node, report) | Self::Told(node, report, ..) => {
                Self::Unheard(node, report)
            }
            other => other,
        }
    }
}

impl<'a> World<'a> {
    /// Runs all requests in this mode.
    pub(crate) fn run(
        algorithm: &'a Algorithm,
        mode: Mode,
        nodes: usize,
        trouble: Trouble,
        requests: &'a [Request],
        seed: u64,
    ) -> Result<Tally<'a>, QuotaError> {
        let count = u64::try_from(nodes).expect("a few nodes");
        let clients = requests.iter().map(|request| request.client + 1).max().unwrap_or(0);
        let start = requests.first().map_or(Timestamp::default(), |first| first.at);
        let built: Result<_, _> = (0..nodes).map(|_| Node::new(mode, count, algorithm)).collect();
        let mut world = Self {
            algorithm,
            nodes: built?,
            store: vec![None; clients],
            requests,
            order: BinaryHeap::new(),
            arrivals: Vec::new(),
            random: Rng::with_seed(seed),
            trouble,
            start,
            end: requests.last().map_or(Timestamp::default(), |last| last.at),
            tally: Tally::new(algorithm, clients),
        };
        for node in 0..nodes {
            world.plan(start, Arrival::Tick(node));
        }
        // Of the events with the same time, these ticks come first, and then the requests.
        world.arrivals.extend(requests.iter().map(|_| None));
        while let Some((now, arrival)) = world.next(nodes + requests.len()) {
            world.arrive(arrival, now);
        }
        Ok(world.tally)
    }

    /// The next event. `planned`: the number of the first event after the requests.
    fn next(&mut self, planned: usize) -> Option<(Timestamp, Arrival)> {
        let other = self.order.peek().map(|&Reverse(at)| at);
        match self.requests.split_first() {
            Some((&request, rest))
                if other.is_none_or(|it| (request.at, planned - self.requests.len()) < it) =>
            {
                self.requests = rest;
                Some((request.at, Arrival::Request(request)))
            }
            _ => {
                self.order.pop();
                let (now, number) = other?;
                Some((now, self.arrivals[number].take()?))
            }
        }
    }

    fn plan(&mut self, at: Timestamp, arrival: Arrival) {
        self.order.push(Reverse((at, self.arrivals.len())));
        self.arrivals.push(Some(arrival));
    }

    /// The time at which a message between a node and the store arrives: after half of
    /// 0.2 to 1 ms, or never.
    fn way(&mut self, now: Timestamp) -> Option<Timestamp> {
        let at = now.plus(Span::from_micros(self.random.u64(100..=500)));
        let lost = match self.trouble {
            Trouble::None => false,
            Trouble::Losses => self.random.u8(0..100) == 0,
            Trouble::Away => {
                let since = at.since(self.start);
                since >= AWAY_AFTER && since < AWAY_UNTIL
            }
        };
        (!lost).then_some(at)
    }

    /// Sends a message to the store, or an answer back. Returns whether it arrives.
    fn send(&mut self, now: Timestamp, arrival: Arrival) -> bool {
        let way = self.way(now);
        match way {
            Some(at) => self.plan(at, arrival),
            None => self.plan(now.plus(TIMEOUT), arrival.missed()),
        }
        way.is_some()
    }

    fn arrive(&mut self, arrival: Arrival, now: Timestamp) {
        match arrival {
            Arrival::Request(request) => self.request(request, now),
            Arrival::Asked(request, ask) => self.asked(request, ask, now),
            Arrival::Unanswered(request) => {
                let node = &mut self.nodes[request.node];
                node.failed(now);
                let admitted = node.judge_alone(&charge(request.client, self.algorithm), now);
                self.tally.judged(request.client, admitted, now);
            }
            Arrival::Answered(request, ask, before, at) => {
                let charge = charge(request.client, self.algorithm);
                self.nodes[request.node].answered(&charge, ask, before.as_ref(), at);
            }
            Arrival::Reported(node, report) => self.reported(node, report, now),
            Arrival::Unheard(node, report) => self.nodes[node].unheard(report, now),
            Arrival::Told(node, report, before, at) => {
                if let Report::Delta(delta) = report {
                    self.nodes[node].told(delta, before.as_ref(), at);
                    self.report(node, now);
                }
            }
            Arrival::Tick(node) => {
                self.report(node, now);
                if now < self.end {
                    self.plan(now.plus(TICK), Arrival::Tick(node));
                }
            }
        }
    }

    /// Handles a request at its node.
    fn request(&mut self, request: Request, now: Timestamp) {
        self.tally.offered(request.client, now);
        let charge = charge(request.client, self.algorithm);
        match self.nodes[request.node].request(&charge, now) {
            Step::Judged { admitted } => self.tally.judged(request.client, admitted, now),
            Step::Ask(ask) => {
                self.send(now, Arrival::Asked(request, ask));
            }
        }
        self.report(request.node, now);
    }

    /// Handles a request at the store.
    fn asked(&mut self, request: Request, ask: Ahead, now: Timestamp) {
        self.tally.calls += 1;
        let charge = charge(request.client, self.algorithm);
        let before = self.store[request.client].clone();
        let next = taken(&charge, ask, before.as_ref(), now);
        let admitted = next.is_some();
        if admitted {
            self.store[request.client] = next;
        }
        if self.send(now, Arrival::Answered(request, ask, before, now)) {
            self.tally.judged(request.client, admitted, now);
        }
    }

    fn report(&mut self, node: usize, now: Timestamp) {
        for report in self.nodes[node].reports(now) {
            self.send(now, Arrival::Reported(node, report));
        }
    }

    /// Handles a report at the store.
    fn reported(&mut self, node: usize, report: Report, now: Timestamp) {
        self.tally.calls += 1;
        let key: Key = match &report {
            Report::Return(back) => back.key,
            Report::Delta(delta) => delta.key,
            Report::Debt(key, _) => *key,
        };
        let client = usize::try_from(key.principal.bits()).expect("clients are numbered");
        let before = self.store[client].clone();
        let apply = |op| self.algorithm.apply(before.as_ref(), op, now).0;
        let next = match &report {
            Report::Return(back) => apply(back.op()),
            Report::Delta(delta) => delta.count(before.as_ref(), now).0,
            Report::Debt(_, units) => apply(Op::Settle { reserved: 0, actual: *units, taken: now }),
        };
        if next.is_some() {
            self.store[client] = next;
        }
        self.send(now, Arrival::Told(node, report, before, now));
    }
}

fn charge(client: usize, algorithm: &Algorithm) -> Charge<'_> {
    let number = u128::try_from(client).expect("a number of 64 bits");
    let key = Key { principal: Principal::from_bits(number), counter: Counter::from_bits(0) };
    Charge { key, algorithm, cost: 1, binding: true, consistency: Consistency::default() }
}
