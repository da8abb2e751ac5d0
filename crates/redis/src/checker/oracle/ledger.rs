//! The exact count of one counter: what was admitted, by whom, and when.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::algorithm::{Algorithm, Op, State};
use tollgate_core::consistency::StoreMode;
use tollgate_core::digest::Key;
use tollgate_core::store::Source;
use tollgate_core::time::Timestamp;

use super::super::journal::{Charged, Corrected, Journal, Made, Order, Question};
use super::super::scenario::Scenario;
use super::super::world::START_US;
use crate::codec::Ask;

/// The servers hear of a correction so soon, if all is well.
const SOON_US: u64 = 200_000;

/// All that happened to one counter, in its order.
pub(in super::super) struct Ledger {
    pub(super) events: Vec<Event>,
    /// Some of its requests were charged in several places.
    pub(super) is_scattered: bool,
    /// Units of requests whose clients went away before they were told the decision.
    left: u64,
}

/// Something that happened to one counter.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at_us: u64,
    /// Decisions of the servers have odd numbers.
    pub(super) order: Order,
    pub(super) request: Option<usize>,
    /// The process at which it happened.
    pub(super) node: usize,
    pub(super) source: Source,
    /// The node did not know the servers' time, and went by a clock of its own that differs.
    pub(super) is_off: bool,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Units were admitted. What nobody is there to be told of is counted all
    /// the same.
    Admitted { cost: u64, is_gone: bool },
    /// They were refused by this counter.
    Refused { cost: u64 },
    /// They were given back.
    Given { cost: u64, taken: Timestamp },
    /// They turned out to be more.
    Charged { units: u64 },
}

/// The true time so long after the beginning of a run.
pub(super) const fn time(at_us: u64) -> Timestamp {
    Timestamp::from_micros(START_US + at_us)
}

impl Ledger {
    pub(super) fn of(scenario: &Scenario, journal: &Journal, counter: usize) -> Self {
        let key = scenario.counters[counter].key;
        let asked = questions_of(journal, key);
        let mut events = Vec::new();
        let mut is_scattered = false;
        let mut left = 0;
        for (number, request) in journal.requests.iter().enumerate() {
            let index = request.charges.iter().position(|it| it.counter == counter);
            let Some(index) = index else { continue };
            let charged = &request.charges[index];
            let principals = request.charges.iter().map(|it| it.key.principal);
            is_scattered |= principals.collect::<BTreeSet<_>>().len() > 1;
            let question = asked.get(&number).map(|&it| &journal.questions[it]);
            // The server counts by the time of its script, which a node may have given to it.
            let done_us = question.and_then(|it| {
                let at_us = journal.outcomes[it.done?.0].at.as_micros();
                Some(at_us.saturating_sub(START_US))
            });
            let done = question.and_then(|it| Some((2 * it.done?.0 + 1, 0)));
            let made = request.decided.as_ref().map(|made| made.order);
            // A server may decide later what its node has decided alone.
            let answer = request.decided.as_ref().and_then(|made| made.answers.get(index));
            let is_alone = answer.is_some_and(|it| it.source != Source::Store);
            let done = done.filter(|_| !is_alone);
            let order = done.or(made).unwrap_or((usize::MAX, 0));
            let is_off = request.decided.as_ref().is_some_and(is_off);
            let event = |at_us, source, what| Event {
                at_us,
                order,
                request: Some(number),
                node: request.node,
                source,
                is_off,
                what,
            };
            match &request.decided {
                Some(made) => {
                    let (source, what) = told(charged, made, index);
                    let Some(what) = what else { continue };
                    let at_us = when(made, source, done_us);
                    events.push(event(at_us, source, what));
                }
                None => {
                    left += charged.cost;
                    let Some(at_us) = done_us else { continue };
                    // What was leased beside the cost is not spent.
                    let taken = question.map_or(0, |it| taken(journal, it, key));
                    let cost = taken.min(charged.cost);
                    if cost > 0 && stays_counted(journal, number) {
                        let what = What::Admitted { cost, is_gone: true };
                        events.push(event(at_us, Source::Store, what));
                    }
                }
            }
        }
        let counted = &scenario.counters[counter];
        // Nodes pass units in flight on to other requests, and then tell nothing.
        let is_told = counted.consistency.mode == StoreMode::Exact
            && !matches!(counted.algorithm, Algorithm::Concurrency(_));
        events.extend(corrections(journal, key, is_told));
        // A node knows the servers' time within some milliseconds only, so times do not
        // tell what came first.
        events.sort_by_key(|event| event.order);
        Self { events, is_scattered, left }
    }

    /// Whether anything was ever given back.
    pub(super) fn has_gifts(&self) -> bool {
        self.events.iter().any(|it| matches!(it.what, What::Given { .. }))
    }

    /// Units of requests whose clients went away before they were told the decision.
    pub(super) const fn left(&self) -> u64 {
        self.left
    }

    /// Units that were given back.
    pub(super) fn given(&self) -> u64 {
        let units = |event: &Event| match event.what {
            What::Given { cost, .. } => cost,
            _ => 0,
        };
        self.events.iter().map(units).sum()
    }

    /// Units that were given back of what nodes had admitted alone.
    pub(super) fn given_alone(&self) -> u64 {
        let units = |event: &Event| match (event.what, event.source) {
            (What::Given { cost, .. }, Source::Local) => cost,
            _ => 0,
        };
        self.events.iter().map(units).sum()
    }

    pub(super) fn admitted(&self, is_meant: impl Fn(&Event) -> bool) -> u64 {
        let units = |event: &Event| match event.what {
            What::Admitted { cost, is_gone: false } if is_meant(event) => cost,
            _ => 0,
        };
        self.events.iter().map(units).sum()
    }
}

/// What a charge was told.
fn told(charged: &Charged, made: &Made, index: usize) -> (Source, Option<What>) {
    let Some(answer) = made.answers.get(index) else { return (Source::Policy, None) };
    let what = match (made.admitted, answer.verdict.admitted) {
        (true, true) => Some(What::Admitted { cost: charged.cost, is_gone: false }),
        (_, false) => Some(What::Refused { cost: charged.cost }),
        (false, true) => None,
    };
    let counts = !matches!(answer.source, Source::Policy | Source::Unasked);
    (answer.source, what.filter(|_| counts))
}

/// When it was decided: by the server, or as the node knows the server's time.
fn when(made: &Made, source: Source, done_us: Option<u64>) -> u64 {
    match (source, done_us) {
        (Source::Store, Some(done_us)) => done_us,
        _ if is_off(made) => made.made_us,
        _ => made.at.as_micros().saturating_sub(START_US),
    }
}

/// Whether the time of a decision is not the servers' time.
fn is_off(made: &Made) -> bool {
    let said_us = made.at.as_micros().saturating_sub(START_US);
    said_us.abs_diff(made.made_us) >= 200_000
}

/// The questions of requests about one counter that take units, by request.
pub(super) fn questions_of(journal: &Journal, key: Key) -> BTreeMap<usize, usize> {
    let takes = |question: &Question| {
        let takes = |ask| matches!(ask, Ask::Take(_) | Ask::Lease { .. });
        question.asked.iter().any(|part| part.key == key && takes(part.ask))
    };
    let asked = journal.questions.iter().enumerate().filter(|(_, question)| takes(question));
    asked.filter_map(|(number, question)| Some((question.request?, number))).collect()
}

/// Units that a question took of a counter.
fn taken(journal: &Journal, question: &Question, key: Key) -> u64 {
    let index = question.asked.iter().position(|part| part.key == key);
    let outcome = question.done.map(|(done, _)| &journal.outcomes[done]);
    index.zip(outcome).map_or(0, |(index, outcome)| outcome.taken[index])
}

/// Whether a request whose client is gone was counted, and not given back
/// because another place refused it.
fn stays_counted(journal: &Journal, request: usize) -> bool {
    let mut asked = journal.questions.iter().filter(|it| it.request == Some(request));
    asked.all(|it| it.done.is_none_or(|(done, _)| !journal.outcomes[done].refused))
}

/// What became of charges later. Where the servers are told of each of them, it happens
/// there, and elsewhere at the node.
fn corrections(journal: &Journal, key: Key, is_told: bool) -> impl Iterator<Item = Event> {
    let meant = journal.corrections.iter().filter(move |it| it.key == key);
    let mut used = BTreeSet::new();
    meant.filter_map(move |it| {
        let what = match it.op {
            Op::Give { cost, taken } => What::Given { cost, taken },
            Op::Settle { reserved, actual, taken } if actual < reserved => {
                What::Given { cost: reserved - actual, taken }
            }
            Op::Settle { reserved, actual, .. } if actual > reserved => {
                What::Charged { units: actual - reserved }
            }
            _ => return None,
        };
        let node = it.node;
        let source = it.source;
        let is_there = is_told && source == Source::Store;
        let done = is_there.then(|| done(journal, it, what, &mut used)).flatten();
        let (order, at_us) = done.unwrap_or((it.order, it.at_us));
        (source != Source::Policy).then_some(Event {
            at_us,
            order,
            request: None,
            node,
            source,
            is_off: false,
            what,
        })
    })
}

/// The order and the time of the body that told the servers of a correction, and that is
/// not yet in `used`. None if no body did so soon.
fn done(
    journal: &Journal,
    corrected: &Corrected,
    what: What,
    used: &mut BTreeSet<(usize, usize)>,
) -> Option<(Order, u64)> {
    let ask = match what {
        What::Given { cost, taken } => Ask::Give { cost, taken },
        What::Charged { units } => Ask::Charge(units),
        What::Admitted { .. } | What::Refused { .. } => return None,
    };
    let told = |(number, question): (usize, &Question)| {
        let is_meant = question.request.is_none()
            && question.made_us >= corrected.at_us
            && question.heard.is_some_and(|(node, _)| node == corrected.node);
        let (done, done_us) =
            question.done.filter(|&(_, us)| is_meant && us < corrected.at_us + SOON_US)?;
        let mut parts = question.asked.iter().enumerate();
        let (index, _) = parts.find(|(index, part)| {
            part.key == corrected.key && part.ask == ask && !used.contains(&(number, *index))
        })?;
        Some(((number, index), ((2 * done + 1, 0), done_us)))
    };
    let (part, done) = journal.questions.iter().enumerate().find_map(told)?;
    used.insert(part);
    Some(done)
}

/// A count that sees events in their order.
pub(super) struct Count {
    algorithm: Algorithm,
    /// The same with room for more than the limit.
    roomy: Algorithm,
    state: Option<State>,
}

impl Count {
    /// With room for more than the limit.
    pub(super) fn new(algorithm: &Algorithm) -> Self {
        let roomy = super::roomy(algorithm);
        Self { algorithm: roomy.clone(), roomy, state: None }
    }

    /// As the servers count: a debt beyond twice the capacity is dropped.
    pub(super) fn limited(algorithm: &Algorithm) -> Self {
        Self { algorithm: algorithm.clone(), roomy: super::roomy(algorithm), state: None }
    }

    pub(super) fn apply(&mut self, op: Op, at_us: u64) {
        let (next, _) = self.algorithm.apply(self.state.as_ref(), op, time(at_us));
        if next.is_some() {
            self.state = next;
        }
    }

    pub(super) fn add(&mut self, units: u64, at_us: u64) {
        self.apply(Op::Settle { reserved: 0, actual: units, taken: time(at_us) }, at_us);
    }

    /// Does to the count what the event does to the counter.
    pub(super) fn follow(&mut self, event: &Event) {
        match event.what {
            What::Admitted { cost, .. } => self.add(cost, event.at_us),
            What::Refused { .. } => {}
            What::Given { cost, taken } => self.apply(Op::Give { cost, taken }, event.at_us),
            What::Charged { units } => self.add(units, event.at_us),
        }
    }

    /// Units that count.
    pub(super) fn used(&self, at_us: u64) -> u64 {
        let (_, verdict) = self.roomy.apply(self.state.as_ref(), Op::Take(0), time(at_us));
        self.roomy.capacity() - verdict.remaining
    }
}
