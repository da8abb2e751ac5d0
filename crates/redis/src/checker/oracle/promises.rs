//! What single clients are promised.

use std::collections::BTreeMap;

use tollgate_core::algorithm::{Algorithm, Op, Retry, State};
use tollgate_core::consistency::{OnFailure, StoreMode};
use tollgate_core::store::Source;
use tollgate_core::time::Span;

use super::super::fork::is_calm;
use super::super::journal::{Journal, Made, Probe, Request};
use super::super::scenario::{Counted, Scenario, Servers, Trouble};
use super::Broken;
use super::ledger::{Count, Ledger, What, questions_of, time};
use crate::codec::Ask;
use crate::shared::in_flight::may_keep;

/// A wait may be so much longer than the timeout: timers know whole milliseconds.
const WAIT_SLACK_US: u64 = 4000;
/// So long after the store went away each node knows of it.
const NOTICED_US: u64 = 2_000_000;
/// A node knows the store's time so well.
const CLOCK_SLACK: Span = Span::from_millis(500);

/// No request waits for longer than the timeout.
pub(super) fn waits(scenario: &Scenario, journal: &Journal) -> Option<Broken> {
    if scenario.has(|it| matches!(it, Trouble::StandStill { .. })) {
        return None;
    }
    let timeout_us = u64::try_from(scenario.timeout.as_micros()).expect("a short time");
    let waited = |request: &Request| {
        let made_us = request.decided.as_ref()?.made_us;
        Some((made_us, made_us - request.begun_us))
    };
    let longest = journal.requests.iter().filter_map(waited).max_by_key(|&(_, us)| us)?;
    (longest.1 > timeout_us + WAIT_SLACK_US).then(|| Broken {
        promise: "no request waits longer than the timeout",
        at_us: longest.0,
        how: format!("one waits for {} us", longest.1),
    })
}

/// An answer says whose it is, and policies do as they say while the store is away.
pub(super) fn sources(scenario: &Scenario, journal: &Journal) -> Option<Broken> {
    let mut asked: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    for (counter, counted) in scenario.counters.iter().enumerate() {
        asked.insert(counter, questions_of(journal, counted.key));
    }
    for (number, request) in journal.requests.iter().enumerate() {
        let Some(made) = &request.decided else { continue };
        for (charged, answer) in request.charges.iter().zip(&made.answers) {
            let was_done = || {
                let question = asked[&charged.counter].get(&number);
                question.is_some_and(|&it| journal.questions[it].done.is_some())
            };
            let counted = &scenario.counters[charged.counter];
            // A node that knows a ban, or that there is none, need not ask.
            if matches!(counted.algorithm, Algorithm::Ban(_)) {
                continue;
            }
            let is_away = || is_away(scenario, request);
            let is_well = || {
                !fails_later(scenario)
                    && is_calm(scenario, request.begun_us)
                    && is_calm(scenario, made.made_us)
            };
            // Units that ended requests have kept need no question.
            let is_kept = may_keep(&counted.algorithm);
            let how = match (answer.source, answer.verdict.admitted && made.admitted) {
                (_, true) if is_kept => continue,
                (Source::Store, true)
                    if counted.consistency.mode == StoreMode::Exact && !was_done() =>
                {
                    "the store is said to have admitted what it never heard of"
                }
                (Source::Store, true) if notices(counted) && is_away() => {
                    "the store is said to have admitted something while it is away"
                }
                (_, true)
                    if counted.consistency.on_failure == OnFailure::Deny
                        && notices(counted)
                        && is_away() =>
                {
                    "a policy that denies has admitted something while the store is away"
                }
                (Source::Local, _) if is_well() => "a node judges alone while the store answers",
                (Source::Policy, _)
                    if !answer.verdict.admitted
                        && counted.consistency.on_failure == OnFailure::Allow =>
                {
                    "a policy that allows has refused something while the store is away"
                }
                _ => continue,
            };
            let how = format!("{how}: request {number}, {counted:?}");
            return Some(Broken { promise: "on_store_failure", at_us: made.made_us, how });
        }
    }
    None
}

/// Whether a trouble can show long after its time. A server fails in its next batch. One that
/// begins to refuse calls as those of some services do is learnt by the first calls of each link.
fn fails_later(scenario: &Scenario) -> bool {
    scenario.troubles.iter().any(|&(at_us, trouble)| match trouble {
        Trouble::FailWithinBatch { .. } => true,
        Trouble::GetSlots { .. } | Trouble::RefuseTime => at_us > 0,
        _ => false,
    })
}

/// Whether what a node holds of the counter is surely over soon.
fn notices(counted: &Counted) -> bool {
    match counted.consistency.mode {
        StoreMode::Exact | StoreMode::WriteBack => true,
        StoreMode::Leased => counted.algorithm.window() < Span::from_secs(50),
    }
}

/// Whether the one server has been away for a while, and still is.
fn is_away(scenario: &Scenario, request: &Request) -> bool {
    if scenario.kind != Servers::One {
        return false;
    }
    let mut since = None;
    let made_us = request.decided.as_ref().map_or(request.begun_us, |made| made.made_us);
    for (at_us, trouble) in scenario.troubles.iter().filter(|(at_us, _)| *at_us <= made_us) {
        match trouble {
            Trouble::Crash { .. } => since = Some(*at_us),
            Trouble::Restart { .. } => since = None,
            _ => {}
        }
    }
    since.is_some_and(|since_us| request.begun_us > since_us + NOTICED_US)
}

/// What a node knows of a counter holds until its own end while the store is away.
pub(super) fn known(scenario: &Scenario, journal: &Journal, counter: usize) -> Option<Broken> {
    let counted = &scenario.counters[counter];
    let jumps = scenario.has(|it| matches!(it, Trouble::Jump { .. } | Trouble::StandStill { .. }));
    if scenario.forgets() || jumps || scenario.workers > 1 || !is_known(counted) {
        return None;
    }
    let heard = heard_states(scenario, journal, counted);
    for (number, request) in journal.requests.iter().enumerate() {
        let Some(made) = request.decided.as_ref().filter(|made| made.admitted) else { continue };
        let place = request.charges.iter().position(|it| it.counter == counter);
        let Some(index) = place.filter(|&it| is_local(made, it)) else { continue };
        let states = heard.get(&request.node).map_or(&[][..], |states| states);
        let Some((_, state)) = states.iter().rev().find(|(at_us, _)| *at_us < request.begun_us)
        else {
            continue;
        };
        // Units that were given back since then may have made room.
        let take = Op::Take(request.charges[index].cost);
        let at = time(made.made_us).plus(CLOCK_SLACK);
        let (_, verdict) = counted.algorithm.apply(state.as_ref(), take, at);
        if let Retry::After(wait) = verdict.retry {
            let how = format!(
                "node {} admits request {number} alone, though it heard from the store that \
                 {counted:?} is used up for {wait} more",
                request.node
            );
            let promise = "what is known of a key holds";
            return Some(Broken { promise, at_us: made.made_us, how });
        }
    }
    None
}

fn is_local(made: &Made, index: usize) -> bool {
    made.answers.get(index).is_some_and(|it| it.source == Source::Local && it.verdict.admitted)
}

fn is_known(counted: &Counted) -> bool {
    counted.consistency.mode == StoreMode::Exact
        && !matches!(counted.algorithm, Algorithm::Concurrency(_) | Algorithm::LeakyBucket(_))
}

type States = Vec<(u64, Option<State>)>;

/// The states of a counter that each node heard in time, when it heard them.
/// Where units may have been given back, it is as if nothing were known.
fn heard_states(
    scenario: &Scenario,
    journal: &Journal,
    counted: &Counted,
) -> BTreeMap<usize, States> {
    let timeout_us = u64::try_from(scenario.timeout.as_micros()).expect("a short time");
    let mut heard: BTreeMap<usize, States> = BTreeMap::new();
    for question in &journal.questions {
        for (index, part) in question.asked.iter().enumerate() {
            if part.key != counted.key {
                continue;
            }
            if part.ask.takes_away() {
                heard.clear();
                continue;
            }
            let (Some((done, _)), Some((node, heard_us))) = (question.done, question.heard) else {
                continue;
            };
            let is_late = heard_us > question.made_us + timeout_us.saturating_sub(2000);
            if question.request.is_none() || is_late {
                continue;
            }
            let outcome = &journal.outcomes[done];
            let before = outcome.before[index].as_ref();
            let take = Op::Take(outcome.taken[index]);
            let (after, _) = part.algorithm.apply(before, take, outcome.at);
            let after = if outcome.refused { None } else { after }.or_else(|| before.cloned());
            let states = heard.entry(node).or_default();
            // Only where another request like that is refused a state is remembered, and
            // from then on corrected.
            let Ask::Take(cost) = part.ask else { continue };
            let is_used_up =
                !part.algorithm.apply(after.as_ref(), Op::Take(cost), outcome.at).1.admitted;
            let is_known = states.last().is_some_and(|(_, state)| state.is_some());
            states.push((heard_us, after.filter(|_| is_used_up || is_known)));
        }
    }
    heard
}

/// Nobody is refused in `exact` whom an exact counter admits.
pub(super) fn innocents(scenario: &Scenario, counted: &Counted, ledger: &Ledger) -> Option<Broken> {
    let is_plain = counted.consistency.mode == StoreMode::Exact
        && scenario.is_calm()
        && !scenario.has_departures()
        && !ledger.is_scattered
        && !ledger.has_gifts()
        && !matches!(counted.algorithm, Algorithm::Concurrency(_));
    if !is_plain {
        return None;
    }
    let mut count = Count::new(&counted.algorithm);
    for event in &ledger.events {
        count.follow(event);
        let What::Refused { cost } = event.what else { continue };
        let used = count.used(event.at_us);
        let asks_again = counted.algorithm.capacity().saturating_sub(used) >= cost;
        if event.source == Source::Store && asks_again {
            let how = format!("{cost} units of {counted:?} are refused where {used} count");
            let promise = "nobody is refused for whom there is room";
            return Some(Broken { promise, at_us: event.at_us, how });
        }
    }
    None
}

/// A client that is alone and waits as it is told is admitted.
pub(super) fn retries(scenario: &Scenario, journal: &Journal) -> Option<Broken> {
    // What is known of a counter that was forgotten says nothing of what counts now. A clock
    // that follows another one is too fast.
    if scenario.forgets() || scenario.has(|it| matches!(it, Trouble::Jump { .. })) {
        return None;
    }
    // In `write_back` another node may tell meanwhile what it has counted before.
    let is_exact = |it: &&Probe| {
        let mode = scenario.counters[it.counter].consistency.mode;
        mode != StoreMode::WriteBack || scenario.nodes == 1
    };
    // A debt counts from the time at which it is paid, and a worker that has not asked since
    // then does not know of it.
    let is_paid = |it: &&Probe| !pays(journal, &scenario.counters[it.counter], it.at_us);
    let mut probes = journal.probes.iter().filter(is_exact).filter(is_paid);
    let probe = probes.find(|probe| !probe.second.admitted)?;
    Some(Broken {
        promise: "who waits as told, and is alone, is admitted",
        at_us: probe.at_us,
        how: format!(
            "counter {} says {:?}, and then {:?}",
            probe.counter, probe.first.retry, probe.second.retry
        ),
    })
}

/// Whether the servers were told of units that a node had counted before. A state that is
/// known at the first try is at most a window old, and the second try is at most a window
/// later, at `at_us`.
fn pays(journal: &Journal, counted: &Counted, at_us: u64) -> bool {
    let since_us = at_us.saturating_sub(2 * counted.algorithm.window().as_micros());
    let mut told = journal
        .questions
        .iter()
        .filter(|it| it.done.is_some_and(|(_, done_us)| (since_us..=at_us).contains(&done_us)));
    let is_charge = |ask| matches!(ask, Ask::Charge(_));
    told.any(|it| it.asked.iter().any(|part| part.key == counted.key && is_charge(part.ask)))
}
