//! What all requests of a window cost in the end, if their responses tell the cost.

use std::collections::BTreeSet;

use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::consistency::StoreMode;
use tollgate_core::store::Source;

use super::super::journal::{Corrected, Journal, Question};
use super::super::scenario::{Counted, Scenario};
use super::Broken;
use super::ledger::questions_of;
use crate::codec::Ask;

/// The promise B1 of docs/ai.md.
pub(in super::super) const PROMISE: &str = "a window costs the limit and what is in flight";

/// In this time the store hears of a cost, while nothing is wrong.
const SOON_US: u64 = 500_000;

/// One request that the store has admitted.
struct Admitted {
    window: u64,
    /// The number of the body in which the store admitted it, and when that was.
    done: usize,
    done_us: u64,
    reserved: u64,
    /// What it has cost in the end.
    actual: u64,
    /// When its node learned what it has cost.
    corrected_us: Option<u64>,
    /// The number of the body by which the store heard of the cost. None: it has not heard.
    heard: Option<usize>,
}

impl Admitted {
    /// Whether it may have been in flight when the store admitted `last`. The first trouble of the
    /// scenario was at `trouble_us`: a cost that its node has learned long before is not in flight,
    /// whatever the store has heard.
    fn is_in_flight(&self, last: &Self, trouble_us: u64) -> bool {
        let is_late =
            |learned: u64| learned.saturating_add(SOON_US) <= last.done_us.min(trouble_us);
        self.heard.is_none_or(|heard| heard > last.done) && !self.corrected_us.is_some_and(is_late)
    }
}

/// In `fixed_window` with `exact`, all requests that the store has admitted in a window cost in the
/// end at most the limit, and the sum of what each request has cost above its reservation that was
/// in flight when the last one was admitted. In flight is a request until the store has heard of
/// its cost, or must have heard of it because nothing was wrong.
///
/// Windows in which a node judged alone, and counters of servers that forgot, are not judged.
pub(super) fn b1(
    scenario: &Scenario,
    journal: &Journal,
    counter: usize,
    counted: &Counted,
) -> Option<Broken> {
    let Algorithm::FixedWindow(windows) = &counted.algorithm else { return None };
    let is_judged = counted.consistency.mode == StoreMode::Exact
        && counted.binding
        && counted.is_plain
        && !scenario.forgets();
    if !is_judged {
        return None;
    }
    let trouble_us = scenario.troubles.iter().map(|(at_us, _)| *at_us).min().unwrap_or(u64::MAX);
    let (admitted, alone) = admitted(journal, counter, counted, |at| windows.window_at(at));
    for last in last_of_each_window(&admitted) {
        if alone.contains(&last.window) {
            continue;
        }
        let all = || admitted.iter().filter(|it| it.window == last.window);
        let cost: u64 = all().map(|it| it.actual).sum();
        let in_flight = all().filter(|it| it.is_in_flight(last, trouble_us));
        let excess: u64 = in_flight.map(|it| it.actual.saturating_sub(it.reserved)).sum();
        let allowed = counted.algorithm.limit() + excess;
        if cost > allowed {
            let how = format!(
                "the requests of window {} of {counted:?} cost {cost} units, where {allowed} may be",
                last.window
            );
            let at_us = journal.outcomes[last.done].at.as_micros();
            let at_us = at_us.saturating_sub(super::super::world::START_US);
            return Some(Broken { promise: PROMISE, at_us, how });
        }
    }
    None
}

/// The number of windows of this counter that are judged, and that cost more than the limit.
pub(in super::super) fn exceeded(scenario: &Scenario, journal: &Journal) -> [u64; 2] {
    let mut sums = [0; 2];
    for (counter, counted) in scenario.counters.iter().enumerate() {
        let Algorithm::FixedWindow(windows) = &counted.algorithm else { continue };
        let (admitted, alone) = admitted(journal, counter, counted, |at| windows.window_at(at));
        for last in last_of_each_window(&admitted) {
            let all = admitted.iter().filter(|it| it.window == last.window);
            let cost: u64 = all.map(|it| it.actual).sum();
            sums[0] += u64::from(!alone.contains(&last.window));
            sums[1] += u64::from(cost > counted.algorithm.limit());
        }
    }
    sums
}

/// The requests that the store has admitted, and the windows in which a node has admitted one alone.
fn admitted(
    journal: &Journal,
    counter: usize,
    counted: &Counted,
    window_at: impl Fn(tollgate_core::time::Timestamp) -> u64,
) -> (Vec<Admitted>, BTreeSet<u64>) {
    let asked = questions_of(journal, counted.key);
    let mut admitted = Vec::new();
    let mut alone = BTreeSet::new();
    let mut used = BTreeSet::new();
    for (number, request) in journal.requests.iter().enumerate() {
        let Some(index) = request.charges.iter().position(|it| it.counter == counter) else {
            continue;
        };
        let Some(made) = request.decided.as_ref().filter(|made| made.admitted) else { continue };
        let done = asked.get(&number).and_then(|it| journal.questions[*it].done);
        let is_stored = made.answers.get(index).is_some_and(|it| it.source == Source::Store);
        let Some((done, done_us)) = done.filter(|_| is_stored) else {
            // It may count in the window before, or in the next one, by the clock of the server.
            let window = window_at(made.at);
            alone.extend([window.saturating_sub(1), window, window + 1]);
            continue;
        };
        let reserved = request.charges[index].cost;
        let corrected =
            journal.corrections.iter().find(|it| it.request == number && it.key == counted.key);
        let actual = match corrected.map(|it| it.op) {
            Some(Op::Settle { actual, .. }) => actual,
            _ => reserved,
        };
        let heard = corrected.and_then(|it| heard(journal, it, actual, reserved, &mut used));
        let window = window_at(journal.outcomes[done].at);
        let corrected_us = corrected.map(|it| it.at_us);
        admitted.push(Admitted { window, done, done_us, reserved, actual, corrected_us, heard });
    }
    (admitted, alone)
}

fn last_of_each_window(admitted: &[Admitted]) -> Vec<&Admitted> {
    let windows: BTreeSet<u64> = admitted.iter().map(|it| it.window).collect();
    let last = |window| admitted.iter().filter(|it| it.window == window).max_by_key(|it| it.done);
    windows.into_iter().filter_map(last).collect()
}

/// The body by which the store heard that a request has cost more than it had reserved, and that is
/// not yet in `used`. Several debts can be sent as one; then it is not found.
fn heard(
    journal: &Journal,
    corrected: &Corrected,
    actual: u64,
    reserved: u64,
    used: &mut BTreeSet<(usize, usize)>,
) -> Option<usize> {
    let more = actual.checked_sub(reserved).filter(|more| *more > 0)?;
    let told = |(number, question): (usize, &Question)| {
        let (done, _) = question.done?;
        let is_meant = question.request.is_none() && question.made_us >= corrected.at_us;
        let mut parts = question.asked.iter().enumerate().filter(|_| is_meant);
        let (index, _) = parts.find(|(index, part)| {
            part.key == corrected.key
                && part.ask == Ask::Charge(more)
                && !used.contains(&(number, *index))
        })?;
        Some(((number, index), done))
    };
    let (part, done) = journal.questions.iter().enumerate().find_map(told)?;
    used.insert(part);
    Some(done)
}
