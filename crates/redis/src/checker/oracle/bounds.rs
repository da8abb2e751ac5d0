//! How much may be admitted: at once, and in the long run.

use std::collections::BTreeMap;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};
use tollgate_core::store::Source;

use super::super::journal::Journal;
use super::super::scenario::{Counted, Scenario, Servers, Trouble};
use super::super::world::START_US;
use super::Broken;
use super::ledger::{Count, Event, Ledger, What};
use crate::codec::Ask;
use crate::shared::write_back::Ledger as Accounts;

/// So soon what a node is told is gone by, and what it knew before is sent.
const LEARNT_US: u64 = 2_000_000;

/// A node hears an answer so soon after the server has given it.
const HEARD_US: u64 = 5_000;

/// A node knows the servers' time so well, if it has heard of it.
const ESTIMATE_US: u64 = 50_000;

/// Never more than the limit, by what the mode allows above it, and by the
/// shares of the nodes that judged alone.
pub(super) fn at_once(
    scenario: &Scenario,
    journal: &Journal,
    counted: &Counted,
    ledger: &Ledger,
) -> Option<Broken> {
    // What several places admitted and one refused leaves gaps in a queue.
    let has_gaps = matches!(counted.algorithm, Algorithm::LeakyBucket(_)) && ledger.is_scattered;
    if has_gaps || matches!(counted.algorithm, Algorithm::Concurrency(_)) {
        return None;
    }
    let mut count = Count::new(&counted.algorithm);
    let mut alone = Alone::default();
    let mode = by_mode(scenario, counted);
    let forgotten = forgotten(scenario, journal, counted);
    let acquainted_us = acquainted_us(scenario, journal, counted);
    // A log gives back what it counted at one time. What a node admits alone can come into
    // the log of the oracle after younger units, and is then not found.
    let gives_time = scenario.has(|it| matches!(it, Trouble::RefuseTime));
    let moved = match counted.algorithm {
        // The log of the oracle has true times.
        Algorithm::SlidingLog(_) if gives_time => ledger.given(),
        Algorithm::SlidingLog(_) => ledger.given_alone(),
        // What has leaked of a unit that is given back depends on the rate of its plan, and on
        // whether the store had counted it.
        Algorithm::TokenBucket(_)
            if !counted.is_plain || counted.consistency.mode == StoreMode::WriteBack =>
        {
            ledger.given()
        }
        Algorithm::TokenBucket(_) => waiting(journal, counted),
        Algorithm::SlidingWindow(_)
        | Algorithm::SubWindows(_)
        | Algorithm::FixedWindow(_)
        | Algorithm::LeakyBucket(_)
        | Algorithm::Concurrency(_)
        | Algorithm::Ban(_) => 0,
    };
    // A clock that follows another one runs faster for a while, or slower, and
    // so do the windows of a node that judges alone.
    let times = if scenario.has(|it| matches!(it, Trouble::Jump { .. })) { 2 } else { 1 };
    for event in &ledger.events {
        match event.what {
            What::Admitted { cost, is_gone: false } => count.add(cost, event.at_us),
            What::Given { .. } => count.follow(event),
            _ => continue,
        }
        if matches!(event.what, What::Given { .. }) {
            continue;
        }
        alone.note(journal, counted, event);
        let is_acquainted = acquainted_us.is_some_and(|us| us <= event.at_us);
        let mode = if is_acquainted { acquainted(scenario, counted) } else { mode };
        let allowed = mode + forgotten + moved + times * alone.allowed(counted, event.at_us);
        let is_exact =
            event.source == Source::Store && counted.consistency.mode == StoreMode::Exact;
        let used = count.used(event.at_us + if is_exact { 0 } else { ESTIMATE_US });
        if used > allowed {
            let how = format!(
                "{used} units of {counted:?} count, where {allowed} may (request {:?})",
                event.request
            );
            return Some(Broken { promise: "no more than the limit", at_us: event.at_us, how });
        }
    }
    None
}

/// What the mode allows while all is well. The queue of a `leaky_bucket` may end
/// within a slot, where the roomy count does not.
fn by_mode(scenario: &Scenario, counted: &Counted) -> u64 {
    let capacity = counted.algorithm.capacity();
    match counted.consistency.mode {
        _ if matches!(counted.algorithm, Algorithm::LeakyBucket(_)) => capacity + 1,
        StoreMode::Exact => capacity,
        StoreMode::Leased => match counted.algorithm {
            Algorithm::TokenBucket(_) => capacity + counted.algorithm.limit().div_ceil(50),
            Algorithm::SlidingWindow(_)
            | Algorithm::SubWindows(_)
            | Algorithm::SlidingLog(_)
            | Algorithm::FixedWindow(_)
            | Algorithm::LeakyBucket(_)
            | Algorithm::Concurrency(_)
            | Algorithm::Ban(_) => capacity,
        },
        // About one limit above it, and a unit for each ledger: a node has one.
        StoreMode::WriteBack => {
            // Each limit of a counter has parts of its own.
            let limits = if counted.is_plain { 1 } else { scenario.clients.len() };
            2 * capacity + u64::try_from(scenario.nodes * limits).expect("a few nodes")
        }
    }
}

/// What `write_back` allows where each node knows of the others: half a limit more,
/// of which each node has its part. A node that is alone admits nothing above the limit if
/// it has one worker. The question of a worker can overtake the report of another one.
fn acquainted(scenario: &Scenario, counted: &Counted) -> u64 {
    let capacity = counted.algorithm.capacity();
    // What is owed under one limit of a counter is not reported under a smaller one.
    let is_alone = scenario.nodes.max(scenario.workers) == 1 && counted.is_plain;
    if is_alone { capacity } else { capacity + capacity / 2 }
}

/// Since when that is so, in a run in which nothing goes wrong: since so long that
/// what was admitted before counts no more.
fn acquainted_us(scenario: &Scenario, journal: &Journal, counted: &Counted) -> Option<u64> {
    // Of other algorithms `write_back` does not count ahead.
    let is_ahead = matches!(counted.consistency.mode, StoreMode::WriteBack)
        && Accounts::counts(&counted.algorithm);
    if !is_ahead || !scenario.is_calm() {
        return None;
    }
    let all = u64::try_from(scenario.nodes).expect("a few nodes");
    let told = |node| {
        let mut told = journal.alive.iter().filter(|(_, to, alive)| (*to, *alive) == (node, all));
        told.next().map(|(at_us, ..)| *at_us)
    };
    let told: Option<Vec<u64>> = (0..scenario.nodes).map(told).collect();
    let window_us = counted.algorithm.window().as_micros();
    match scenario.nodes {
        1 => Some(0),
        _ => Some(told?.into_iter().max()? + 2 * window_us + LEARNT_US),
    }
}

/// What was counted in vain: by servers that forget, by nodes that crash before
/// they tell, and by what was sent and did not arrive.
fn forgotten(scenario: &Scenario, journal: &Journal, counted: &Counted) -> u64 {
    // The last slot of a queue can be a part of one.
    let is_queue = matches!(counted.algorithm, Algorithm::LeakyBucket(_));
    let capacity = counted.algorithm.capacity() + u64::from(is_queue);
    let times = scenario.troubles.iter().filter(|(_, trouble)| match trouble {
        Trouble::Crash { keeps: false, .. } | Trouble::Flush { .. } | Trouble::FailOver { .. } => {
            true
        }
        Trouble::CrashNode { .. } => counted.consistency.mode == StoreMode::WriteBack,
        _ => false,
    });
    let times = u64::try_from(times.count()).expect("a few troubles");
    let lost = journal.questions.iter().filter(|it| it.is_sent && it.done.is_none());
    let parts = lost.flat_map(|it| &it.asked).filter(|part| part.key == counted.key);
    let units = |ask| if let Ask::Charge(units) = ask { units } else { 0 };
    capacity * times + parts.map(|part| units(part.ask)).sum::<u64>()
}

/// The most units that waited at one time to be given back, because another place had refused
/// their request. A bucket can admit as many beyond its bound: see [`Op::Cancel`](tollgate_core::algorithm::Op).
fn waiting(journal: &Journal, counted: &Counted) -> u64 {
    let mut changes = Vec::new();
    for question in &journal.questions {
        let Some((_, done_us)) = question.done else { continue };
        for part in question.asked.iter().filter(|part| part.key == counted.key) {
            if let Ask::Cancel { cost, taken } = part.ask {
                let taken_us = taken.as_micros().saturating_sub(START_US);
                changes.extend([(taken_us, cost.cast_signed()), (done_us, -cost.cast_signed())]);
            }
        }
    }
    // At one time, what is taken comes before what is given back.
    changes.sort_unstable_by_key(|&(at_us, units)| (at_us, -units));
    let sums = changes.into_iter().scan(0, |sum, (_, units)| {
        *sum += units;
        Some(*sum)
    });
    sums.max().map_or(0, i64::cast_unsigned)
}

/// The nodes that judged alone: by their number, what their share is, and since when.
#[derive(Default)]
struct Alone(BTreeMap<usize, (u64, u64)>);

impl Alone {
    fn note(&mut self, journal: &Journal, counted: &Counted, event: &Event) {
        if event.source == Source::Local {
            // By a clock of its own its windows begin at other times.
            let windows = if event.is_off { 2 } else { 1 };
            let share = windows * share(journal, counted, event.node, event.at_us);
            let known = self.0.entry(event.node).or_insert((0, event.at_us));
            known.0 = known.0.max(share);
        }
    }

    fn allowed(&self, counted: &Counted, at_us: u64) -> u64 {
        let refills =
            matches!(counted.algorithm, Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_));
        let window_us = counted.algorithm.window().as_micros().max(1);
        let one = |&(share, since_us): &(u64, u64)| {
            let windows =
                if refills { at_us.saturating_sub(since_us).div_ceil(window_us) } else { 0 };
            share + counted.algorithm.limit() * windows
        };
        self.0.values().map(one).sum()
    }
}

/// The most that a node may admit alone: by the fewest nodes that it was told of.
pub(super) fn share(journal: &Journal, counted: &Counted, node: usize, at_us: u64) -> u64 {
    let is_heard = |told_us: u64| told_us + HEARD_US <= at_us;
    let told = journal.alive.iter().filter(|(told_us, to, _)| *to == node && is_heard(*told_us));
    let told: Vec<u64> = told.map(|&(.., alive)| alive).collect();
    let fewest = told.into_iter().min().unwrap_or(1);
    let limit = (counted.algorithm.limit() / fewest.max(1)).max(1);
    counted.algorithm.with_limit(limit).map_or(limit, |share| share.capacity())
}

/// What a node has admitted alone is charged when the server is back. So however often one server
/// is away, a bucket admits its rate, its burst, and a share that is not charged yet.
pub(super) fn over_outages(
    scenario: &Scenario,
    counted: &Counted,
    ledger: &Ledger,
) -> Option<Broken> {
    let is_outage = |it: &Trouble| {
        matches!(it, Trouble::Crash { keeps: true, .. } | Trouble::Restart { .. } | Trouble::Rotate)
    };
    let Consistency { mode, on_failure } = counted.consistency;
    let is_judged = matches!(counted.algorithm, Algorithm::TokenBucket(_))
        && counted.is_plain
        && (mode, on_failure) == (StoreMode::Exact, OnFailure::Local)
        && (scenario.nodes, scenario.workers, scenario.kind) == (1, 1, Servers::One)
        && !scenario.has(|it| !is_outage(it))
        && !ledger.has_gifts();
    let window_us = counted.algorithm.window().as_micros();
    if !is_judged || window_us == 0 {
        return None;
    }
    let admitted = ledger.admitted(|_| true);
    let first = ledger.events.first()?;
    let last = ledger.events.last()?;
    let time_us = last.at_us.saturating_sub(first.at_us);
    let rate = counted.algorithm.limit() * time_us / window_us;
    let allowed = rate + 2 * counted.algorithm.capacity() + 1;
    (admitted > allowed).then(|| Broken {
        promise: "a bucket over many outages",
        at_us: last.at_us,
        how: format!("{admitted} units of {counted:?} were admitted, where {allowed} may be"),
    })
}

/// Over many windows no more than the quota, and what may come at once.
pub(super) fn in_the_long_run(
    scenario: &Scenario,
    counted: &Counted,
    ledger: &Ledger,
) -> Option<Broken> {
    let window_us = counted.algorithm.window().as_micros();
    if !scenario.is_calm() || window_us == 0 {
        return None;
    }
    let admitted = ledger.admitted(|event| event.source == Source::Store);
    let first = ledger.events.first()?;
    let last = ledger.events.last()?;
    let quota = counted.algorithm.limit() * last.at_us.saturating_sub(first.at_us) / window_us;
    let at_once = by_mode(scenario, counted);
    // The edge of the last window may have just been passed.
    let allowed = quota + at_once + counted.algorithm.limit();
    let given = ledger.has_gifts();
    (admitted > allowed && !given).then(|| Broken {
        promise: "the quota in the long run",
        at_us: last.at_us,
        how: format!("{admitted} units of {counted:?} were admitted, where {allowed} may be"),
    })
}
