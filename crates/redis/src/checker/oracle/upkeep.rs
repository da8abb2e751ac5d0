//! What the servers count must be what was admitted: nothing is forgotten,
//! counted twice, taken from others, or left behind.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::consistency::StoreMode;
use tollgate_core::store::Source;
use tollgate_core::time::Span;

use super::super::journal::{Journal, Question};
use super::super::scenario::{Counted, Scenario, Trouble};
use super::Broken;
use super::ledger::{Count, Event, Ledger, What};
use crate::codec::Ask;

/// Windows that are longer than any run.
const LONG: Span = Span::from_secs(3600);
/// So soon what nobody holds is free, while the store is well.
const SOON_US: u64 = 1_500_000;

/// While all is well the servers count exactly what was admitted, whenever
/// nothing is under way.
pub(super) fn counts(
    scenario: &Scenario,
    journal: &Journal,
    counter: usize,
    ledger: &Ledger,
) -> Option<Broken> {
    let counted = &scenario.counters[counter];
    let unsure = matches!(counted.algorithm, Algorithm::Concurrency(_) | Algorithm::LeakyBucket(_));
    if counted.consistency.mode != StoreMode::Exact || unsure || !scenario.is_calm() {
        return None;
    }
    if ledger.events.iter().any(|event| event.source != Source::Store) {
        return None;
    }
    let slack = slack(counted, ledger);
    let mut count = Count::new(&counted.algorithm);
    let mut events = ledger.events.iter().peekable();
    for sample in journal.samples.iter().filter(|it| it.key == counted.key) {
        while let Some(event) = events.next_if(|event| event.order < sample.order) {
            count.follow(event);
            if count.used(event.at_us) >= 2 * counted.algorithm.capacity() {
                // A debt beyond that is not counted: from now on it is less.
                return None;
            }
        }
        let used = count.used(sample.at_us);
        if used.abs_diff(sample.used) > slack {
            let how = format!(
                "the servers count {} units of {counted:?} where {used} were admitted",
                sample.used
            );
            let promise = "what is admitted is counted, and nothing else";
            return Some(Broken { promise, at_us: sample.at_us, how });
        }
    }
    None
}

/// A refund comes later than what it gives back: what has leaked meanwhile, or
/// gone with a window, cannot be told exactly.
fn slack(counted: &Counted, ledger: &Ledger) -> u64 {
    match ledger.is_scattered || ledger.has_gifts() {
        true => 1 + counted.algorithm.capacity() / 8,
        false => 0,
    }
}

/// In the end the servers count all that was admitted, whatever went wrong, but
/// for what is in doubt. Of windows longer than the run.
pub(super) fn conserved(
    scenario: &Scenario,
    journal: &Journal,
    counter: usize,
    ledger: &Ledger,
) -> Option<Broken> {
    let counted = &scenario.counters[counter];
    let unsure = matches!(counted.algorithm, Algorithm::Concurrency(_) | Algorithm::LeakyBucket(_));
    // A log gives back what was taken at a certain time, which a node that judges
    // alone knows by its own clock. In `write_back` the servers have another time.
    let knows_times = counted.consistency.mode != StoreMode::WriteBack && !ledger.has_gifts();
    let unsure = unsure || matches!(counted.algorithm, Algorithm::SlidingLog(_)) && !knows_times;
    // What a node owes that ends while nobody hears it is lost with it.
    let tells = !scenario.may_end_unheard();
    if counted.algorithm.window() < LONG || unsure || !tells {
        return None;
    }
    let sample = journal.samples.iter().rev().find(|it| it.is_last && it.key == counted.key)?;
    let used = |mut count: Count| {
        let events = ledger.events.iter().take_while(|it| it.order <= sample.order);
        events.for_each(|it| count.follow(it));
        count.used(sample.at_us)
    };
    let fits = used(Count::limited(&counted.algorithm));
    let used = used(Count::new(&counted.algorithm));
    let (less, more) = doubts(scenario, journal, counted, ledger);
    // Of what nodes tell in write_back as much as fits is counted: they owe the rest.
    let fits = match counted.consistency.mode {
        StoreMode::WriteBack => fits.min(counted.algorithm.capacity()),
        StoreMode::Exact | StoreMode::Leased => fits,
    };
    // It is not known which part of a debt was dropped, and which was given back. What is
    // left of a lease is given back, too.
    let given = ledger.given().max(given_back(journal, counted));
    let twice = 2 * counted.algorithm.capacity();
    let less = if used + given > twice { less + given } else { less };
    let least = fits.saturating_sub(less);
    let most = used + more;
    (sample.used < least || sample.used > most).then(|| Broken {
        promise: "nothing is lost, and nothing counted twice",
        at_us: sample.at_us,
        how: format!(
            "in the end the servers count {} units of {counted:?}, where {used} were admitted; \
             of these {less} may be missing, and {more} more be counted",
            sample.used
        ),
    })
}

/// Units that the servers were told to give back.
fn given_back(journal: &Journal, counted: &Counted) -> u64 {
    let sent = journal.questions.iter().filter(|question| question.is_sent);
    let parts = sent.flat_map(|question| &question.asked);
    let given = |ask| match ask {
        Ask::Give { cost, .. } | Ask::Cancel { cost, .. } => cost,
        _ => 0,
    };
    parts.filter(|part| part.key == counted.key).map(|part| given(part.ask)).sum()
}

/// By how many units the servers may count less, and more, than was admitted.
fn doubts(
    scenario: &Scenario,
    journal: &Journal,
    counted: &Counted,
    ledger: &Ledger,
) -> (u64, u64) {
    // What was admitted alone and is charged to the store stays charged. By a clock that
    // is wrong it may be taken for older than it is.
    let mut less = 1 + ledger.admitted(|event| event.is_off);
    let mut more = 1 + ledger.given_alone();
    if !scenario.is_calm() || ledger.is_scattered {
        // Of a client that is gone nobody is told whether its request was admitted by its
        // node alone, or refused by another place.
        (less, more) = (less + ledger.left(), more + ledger.left());
    }
    // A log counts what comes with an earlier time than its newest entry at the time of this
    // entry, and does not find it when it is given back.
    let may_miss = scenario.has(|it| matches!(it, Trouble::RefuseTime))
        && matches!(counted.algorithm, Algorithm::SlidingLog(_));
    // What one worker gives back may overtake what another one tells.
    let overtakes = counted.consistency.mode == StoreMode::WriteBack && scenario.workers > 1;
    for question in &journal.questions {
        for (index, part) in question.asked.iter().enumerate() {
            if part.key != counted.key {
                continue;
            }
            // Policies that deny ask again when a connection breaks, and may count twice.
            let before = question.done_before.iter();
            more += before.map(|&done| journal.outcomes[done].taken[index]).sum::<u64>();
            let is_lost = question.is_sent && question.done.is_none();
            match part.ask {
                Ask::Charge(units) if is_lost => less += units,
                // What `write_back` has admitted, and tells. Of a client that goes away
                // nobody knows whether its request was.
                Ask::Lease { ahead, .. } if question.request.is_none() => match question.done {
                    None if question.is_sent => less += ahead.extra,
                    Some((done, _)) if scenario.has_departures() => {
                        more += journal.outcomes[done].taken[index];
                    }
                    _ => {}
                },
                // What was not sent is given back later, by a question of its own.
                Ask::Give { cost, .. } | Ask::Cancel { cost, .. }
                    if is_lost || overtakes || may_miss =>
                {
                    more += cost;
                }
                Ask::Lease { .. } | Ask::Take(_) => {
                    let taken =
                        question.done.map_or(0, |(done, _)| journal.outcomes[done].taken[index]);
                    let (fewer, further) = take_in_doubt(journal, question, ledger, taken);
                    less += fewer;
                    more += further;
                }
                _ => {}
            }
        }
    }
    (less, more)
}

/// The same for a question that took so many units.
fn take_in_doubt(
    journal: &Journal,
    question: &Question,
    ledger: &Ledger,
    taken: u64,
) -> (u64, u64) {
    let of_request = |event: &&Event| event.request.is_some() && event.request == question.request;
    let admitted = ledger.events.iter().find(of_request).and_then(|event| match event.what {
        What::Admitted { cost, is_gone } => Some((cost, event.source, is_gone)),
        _ => None,
    });
    match admitted {
        // The store has said so itself. What it took beside the cost is leased.
        Some((cost, Source::Store, _)) => (0, taken.saturating_sub(cost)),
        // It was asked, and then judged here. Where its answer came late, the node has
        // heard that it was not counted, and has the store count it.
        Some((cost, ..)) if question.is_sent && taken == 0 && question.heard.is_none() => (cost, 0),
        // Of what it leased beside the cost the node may not have heard.
        Some((cost, ..)) => {
            (0, if question.heard.is_some() { 0 } else { taken.saturating_sub(cost) })
        }
        // It took what nobody was told of. A refused request gives it back when it hears
        // of it, which is a question of its own.
        None => {
            let decided = question.request.and_then(|it| journal.requests[it].decided.as_ref());
            let is_refused = decided.is_some_and(|made| !made.admitted);
            let is_given_back = is_refused && question.heard.is_some();
            (0, if is_given_back { 0 } else { taken })
        }
    }
}

/// What was in flight is free when its request has ended, its client has gone
/// away, or its node has crashed.
pub(super) fn flights(
    scenario: &Scenario,
    journal: &Journal,
    counter: usize,
    ledger: &Ledger,
) -> Option<Broken> {
    let counted = &scenario.counters[counter];
    if !matches!(counted.algorithm, Algorithm::Concurrency(_)) {
        return None;
    }
    let capacity = counted.algorithm.capacity();
    let held = |at_us| in_flight(journal, ledger, at_us);
    let calm = scenario.is_calm();
    for sample in journal.samples.iter().filter(|it| it.key == counted.key) {
        let is_due = calm && sample.quiet_us >= SOON_US;
        let held = held(sample.at_us);
        if is_due && sample.used > held {
            let how =
                format!("{} units of {counted:?} are taken, of which {held} are held", sample.used);
            let promise = "a client that goes away leaves nothing in flight";
            return Some(Broken { promise, at_us: sample.at_us, how });
        }
    }
    let last = journal.samples.iter().rev().find(|it| it.is_last && it.key == counted.key)?;
    if last.used > 0 {
        let how = format!("{} units of {counted:?} are taken when all has ended", last.used);
        let promise = "a client that goes away leaves nothing in flight";
        return Some(Broken { promise, at_us: last.at_us, how });
    }
    let most = calm.then(|| most_in_flight(ledger))?;
    (most > capacity).then(|| Broken {
        promise: "no more than the limit in flight",
        at_us: last.at_us,
        how: format!("{most} units of {counted:?} are in flight at once"),
    })
}

/// The most units under way at once that the store has admitted, in a run without crashes.
/// Requests that begin and end in one millisecond are told apart by their order.
fn most_in_flight(ledger: &Ledger) -> u64 {
    let mut held = 0_u64;
    let mut most = 0;
    for event in ledger.events.iter().filter(|it| it.source == Source::Store) {
        match event.what {
            What::Admitted { cost, is_gone: false } => held += cost,
            What::Given { cost, .. } => held = held.saturating_sub(cost),
            _ => {}
        }
        most = most.max(held);
    }
    most
}

/// Units of requests under way that the store has admitted.
fn in_flight(journal: &Journal, ledger: &Ledger, at_us: u64) -> u64 {
    let mut taken = 0;
    let mut given = 0;
    for event in ledger.events.iter().filter(|it| it.at_us <= at_us) {
        let has_ended = journal.ended.iter().any(|&(node, us)| node == event.node && us <= at_us);
        if event.source != Source::Store || has_ended {
            continue;
        }
        match event.what {
            What::Admitted { cost, is_gone: false } => taken += cost,
            What::Given { cost, .. } => given += cost,
            _ => {}
        }
    }
    taken.saturating_sub(given)
}
