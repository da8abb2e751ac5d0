//! Probes of waits. A run is repeated until a request is refused. From then on no other
//! request comes. The same client waits as long as the answer says, and asks again.
//!
//! Promise: the second request is admitted.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{sleep, timeout_at};
use tollgate_core::algorithm::{Algorithm, Op, Retry};
use tollgate_core::consistency::StoreMode;
use tollgate_core::store::Source;
use tollgate_core::time::Span;

use super::client::{self, Departure};
use super::journal::{Charged, Journal, Part, Question, Request};
use super::network::Way;
use super::run;
use super::scenario::{Scenario, Trouble};
use super::world::World;
use crate::codec::Ask;

/// A client waits no longer than this.
const LONGEST_WAIT: Span = Span::from_secs(40);

/// A run that is repeated comes to the same answer before this time after its traffic.
const LIMIT: Duration = Duration::from_secs(5);

/// What was counted so long before an answer may be missing in it.
const RECENT_US: u64 = 15_000;

/// The times that workers give to scripts differ by no more, if scripts cannot ask for it.
const ERROR_MS: u64 = 50;

/// So soon all workers know that units were given back.
const LEARNT_US: u64 = 2_000_000;

/// So soon after a server answers again each node uses it.
const NOTICED_US: u64 = 2_000_000;

/// The promise that a probe tests.
pub(super) const PROMISE: &str = "a client that waits as it is told, and is alone, is admitted";

/// The requests of a run whose waits can be probed.
pub(super) fn candidates(scenario: &Scenario, journal: &Journal) -> Vec<usize> {
    // What is known of a counter that was forgotten says nothing of what counts now. A clock
    // that follows another one is too fast.
    if scenario.forgets() || scenario.has(|it| matches!(it, Trouble::Jump { .. })) {
        return Vec::new();
    }
    let told = journal.requests.iter().enumerate();
    let told = told.filter(|(_, it)| wait(scenario, it).is_some() && knows_others(journal, it));
    told.map(|(number, _)| number).collect()
}

/// Whether the node of a request knew of another one, or has no other.
fn knows_others(journal: &Journal, request: &Request) -> bool {
    let mut told = journal.alive.iter().filter(|(at_us, ..)| *at_us < request.begun_us);
    let others = told.clone().any(|(_, node, _)| *node != request.node);
    let last = told.rfind(|(_, node, _)| *node == request.node);
    !others || last.is_some_and(|(.., alive)| *alive > 1)
}

/// How long the client of a refused request must wait.
fn wait(scenario: &Scenario, request: &Request) -> Option<Span> {
    let made = request.decided.as_ref().filter(|made| !made.admitted)?;
    let mut longest = Span::ZERO;
    for (charged, answer) in request.charges.iter().zip(&made.answers) {
        let counted = &scenario.counters[charged.counter];
        // The wait for units in flight is an estimate.
        if matches!(counted.algorithm, Algorithm::Concurrency(_)) {
            return None;
        }
        if answer.verdict.admitted || !counted.binding {
            continue;
        }
        match (answer.source, answer.verdict.retry) {
            (Source::Store, Retry::After(wait)) => longest = longest.max(wait),
            _ => return None,
        }
    }
    (longest <= LONGEST_WAIT && is_calm(scenario, made.made_us)).then_some(longest)
}

/// Whether all servers have answered in time for a while, and nodes know each other.
pub(super) fn is_calm(scenario: &Scenario, at_us: u64) -> bool {
    let mut ways = BTreeSet::new();
    let mut away = BTreeSet::new();
    let mut refusing = BTreeSet::new();
    let mut since_us = NOTICED_US;
    for &(begins_us, trouble) in scenario.troubles.iter().filter(|it| it.0 <= at_us) {
        let mut ends_us = begins_us;
        match trouble {
            Trouble::Way { place, server, way } => match way == Way::default() {
                true => drop(ways.remove(&(place, server))),
                false => drop(ways.insert((place, server))),
            },
            Trouble::Heal => ways.clear(),
            Trouble::Crash { server, .. } => drop(away.insert(server)),
            Trouble::Restart { server } => drop(away.remove(&server)),
            Trouble::Refuse { server, refusal: Some(_) } => drop(refusing.insert(server)),
            Trouble::Refuse { server, refusal: None } => drop(refusing.remove(&server)),
            Trouble::Stall { for_us, .. } => ends_us += for_us,
            Trouble::StandStill { for_ms } => ends_us += for_ms * 1000,
            // A call with keys of several slots fails once.
            Trouble::GetSlots { .. }
            | Trouble::RefuseTime
            | Trouble::FailWithinBatch { .. }
            | Trouble::FailOver { .. }
            | Trouble::CrashNode { .. }
            | Trouble::StopNode { .. }
            | Trouble::StartNode { .. } => {}
            _ => continue,
        }
        since_us = since_us.max(ends_us + NOTICED_US);
    }
    ways.is_empty() && away.is_empty() && refusing.is_empty() && since_us <= at_us
}

/// What a probe came to. None: it says nothing, because something else was counted
/// meanwhile, or because the store was away.
pub(super) fn probe(scenario: &Scenario, request: usize, is_told: bool) -> (Option<bool>, String) {
    let (world, ()) = run::in_world(scenario, is_told, |world, scenario| {
        world.last_request.set(Some(request));
        play(world, scenario, request)
    });
    let journal = world.journal.take();
    (judge(scenario, &journal, request), world.story.text())
}

async fn play(world: Rc<World>, scenario: Rc<Scenario>, request: usize) {
    let fleet = run::begin(&world, &scenario);
    let over = world.moment(scenario.traffic_us) + LIMIT;
    if timeout_at(over, world.frozen.notified()).await.is_err() {
        return;
    }
    world.tell(|| "no other request comes".to_owned());
    let (client, wait, told_by) = {
        let journal = world.journal.borrow();
        let asked = &journal.requests[request];
        (asked.client.clone(), self::wait(&scenario, asked).expect("a candidate"), asked.node)
    };
    let ms = wait.as_micros().div_ceil(1000);
    // The times that two workers give to scripts differ.
    let error_ms = if scenario.has(|it| matches!(it, Trouble::RefuseTime)) { ERROR_MS } else { 0 };
    sleep(Duration::from_millis(ms + error_ms)).await;
    let mut random = Rng::with_seed(scenario.seed ^ (u64::MAX << 20));
    // In `write_back` another node may have counted units that it has not reported.
    let is_own = client
        .charges
        .iter()
        .any(|(counter, _)| scenario.counters[*counter].consistency.mode == StoreMode::WriteBack);
    let nodes = (0..scenario.nodes).filter_map(|place| fleet.at(place));
    let nodes = nodes.filter(|it| !is_own || it.number == told_by);
    let Some(node) = random.choice(nodes.collect::<Vec<_>>()) else { return };
    let worker = random.usize(0..node.workers.len());
    let _ = client::decide(&fleet, &node, worker, &client, Departure::STAYS).await;
}

fn judge(scenario: &Scenario, journal: &Journal, request: usize) -> Option<bool> {
    let asked = journal.requests.get(request)?;
    let first = asked.decided.as_ref()?;
    let last = journal.requests.len() - 1;
    let second = journal.requests[last].decided.as_ref().filter(|_| last > request)?;
    if second.admitted {
        return Some(true);
    }
    let is_of_store = second.answers.iter().zip(&asked.charges).all(|(it, charged)| {
        it.verdict.admitted
            || it.source == Source::Store
            || !scenario.counters[charged.counter].binding
    });
    let is_charged_to = |key| asked.charges.iter().any(|it| it.key == key);
    let since_us = first.made_us.saturating_sub(RECENT_US);
    let later = journal.questions.iter().filter(|it| {
        it.done.is_some_and(|(_, done_us)| done_us >= since_us) || it.is_sent && it.done.is_none()
    });
    // A ban that is told, and that this request may have imposed itself. After the answer only
    // another request can have imposed it.
    let is_banned = |question: &Question, part: &Part| {
        let told = asked.charges.iter().zip(&first.answers).find(|(it, _)| it.key == part.key);
        matches!(part.algorithm, Algorithm::Ban(_))
            && question.done.is_some_and(|(_, done_us)| done_us <= first.made_us)
            && told.is_some_and(|(_, answer)| !answer.verdict.admitted)
    };
    let adds = |ask| match ask {
        Ask::Take(units) | Ask::Count(units) | Ask::Charge(units) => units > 0,
        Ask::Lease { .. } => true,
        _ => false,
    };
    let is_disturbed = later.into_iter().any(|question| {
        let is_refused = question.done.is_some_and(|(done, _)| journal.outcomes[done].refused);
        // What this node has counted before, and reports now, it knew.
        let is_own = question.heard.is_some_and(|(node, _)| node == asked.node);
        let is_probe = [Some(request), Some(last)].contains(&question.request);
        !is_probe
            && !is_refused
            && question.asked.iter().any(|part| {
                let is_known =
                    is_own && question.request.is_none() && !matches!(part.ask, Ask::Charge(_));
                adds(part.ask) && !is_known && !is_banned(question, part) && is_charged_to(part.key)
            })
    });
    let is_charged = journal.corrections.iter().any(|it| {
        let is_more = matches!(it.op, Op::Settle { reserved, actual, .. } if actual > reserved);
        is_more && is_charged_to(it.key) && it.at_us >= since_us
    });
    let last = &journal.requests[last];
    let is_given = asked.charges.iter().any(|it| {
        let until_us = given_until(scenario, journal, last.node, it);
        until_us.is_some_and(|until_us| second.made_us < until_us)
            || leaks_by_plans(scenario, it) && given_since(journal, it, since_us)
    });
    (is_of_store && !is_disturbed && !is_charged && !is_given).then_some(false)
}

/// Whether the counter is a bucket that leaks by the plans of several clients: each operation
/// computes the level by the rate of its own plan.
fn leaks_by_plans(scenario: &Scenario, charged: &Charged) -> bool {
    let counted = &scenario.counters[charged.counter];
    matches!(counted.algorithm, Algorithm::TokenBucket(_)) && !counted.is_plain
}

/// Whether units of a counter were given back since then.
fn given_since(journal: &Journal, charged: &Charged, since_us: u64) -> bool {
    let gives = |part: &Part| part.key == charged.key && matches!(part.ask, Ask::Give { .. });
    let since = |it: &&Question| it.done.is_some_and(|(_, done_us)| done_us >= since_us);
    journal.questions.iter().filter(since).any(|it| it.asked.iter().any(gives))
}

/// Until when it excuses a refusal by `node` that units of a counter were given back: what one
/// place counted and another one refused, or what a response did not cost.
fn given_until(
    scenario: &Scenario,
    journal: &Journal,
    node: usize,
    charged: &Charged,
) -> Option<u64> {
    let algorithm = &scenario.counters[charged.counter].algorithm;
    let is_certain = matches!(algorithm, Algorithm::FixedWindow(_));
    let until = |question: &Question| {
        let gives = |part: &Part| {
            part.key == charged.key && matches!(part.ask, Ask::Cancel { .. } | Ask::Give { .. })
        };
        let (_, done_us) = question.done.filter(|_| question.asked.iter().any(gives))?;
        // Other workers ask Redis again if a wait may be shorter than they know, but that of a
        // fixed window cannot be.
        let is_own = question.heard.is_some_and(|(it, _)| it == node) && scenario.workers == 1;
        // Of two answers of one instant it is not known which is the later one.
        let is_then = |it: &&Question| {
            it.done.is_some_and(|(_, us)| us == done_us)
                && it.asked.iter().any(|part| part.key == charged.key)
        };
        let is_simultaneous = journal.questions.iter().filter(is_then).count() > 1;
        let is_long = is_certain && !is_own || is_simultaneous;
        Some(done_us + if is_long { LEARNT_US } else { RECENT_US })
    };
    journal.questions.iter().filter_map(until).max()
}
