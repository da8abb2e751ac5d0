//! Draws a scenario from a seed.

use std::time::Duration;

use fastrand::Rng;
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, Quota, SlidingLog, SlidingWindow, SubWindows,
    TokenBucket,
};
use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};
use tollgate_core::time::Span;

use super::network::Way;
use super::scenario::{Client, Counted, Scenario, Servers, Settling, Trouble, consistency};
use super::widen::widen;

const SECOND_US: u64 = 1_000_000;
/// Troubles begin when the nodes serve.
const FIRST_US: u64 = 1_500_000;

/// The scenario of this seed, which is widened for half of the seeds.
pub(super) fn draw(seed: u64) -> Scenario {
    let mut scenario = draw_plain(seed);
    widen(&mut scenario);
    scenario
}

/// The scenario of this seed, whose counters are budgets: fixed windows in `exact`, and requests that
/// turn out to cost nothing, less than they reserve, or up to many times as much.
pub(super) fn draw_budgets(seed: u64) -> Scenario {
    let mut scenario = draw_plain(seed);
    let mut random = Rng::with_seed(seed ^ 0xB1);
    for counted in &mut scenario.counters {
        let window = Span::from_secs(random.u64(1..=6));
        let quota = Quota::new(random.u64(5..=200), window).expect("a small limit");
        counted.algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
        let on_failure = if random.bool() { OnFailure::Deny } else { OnFailure::Local };
        counted.consistency = consistency(StoreMode::Exact, on_failure);
        counted.binding = true;
    }
    for client in &mut scenario.clients {
        client.settling = Settling::UpTo(random.choice([3, 10, 100]).expect("one of them"));
        client.hold_ms = random.u64(0..=1500);
    }
    scenario
}

/// The scenario of this seed, without crowds, plans, bans and refused calls.
pub(super) fn draw_plain(seed: u64) -> Scenario {
    let mut random = Rng::with_seed(seed);
    let kind = match random.u32(0..10) {
        0..6 => Servers::One,
        6..8 => Servers::Shards,
        _ => Servers::Cluster,
    };
    let nodes = random.usize(1..=4);
    let workers = random.usize(1..=5) / 3 + 1;
    let modes = modes(&mut random);
    let counters: Vec<_> =
        (0..random.usize(1..=4)).map(|it| counter(&mut random, it, &modes)).collect();
    let traffic_us = random.u64(5 * SECOND_US..=12 * SECOND_US);
    let clients = (0..random.usize(1..=4)).map(|_| client(&mut random, counters.len(), nodes));
    let clients = clients.collect();
    let ahead = |random: &mut Rng| match random.u32(0..8) {
        0 => random.i64(-86_400_000_000..=86_400_000_000),
        1..4 => random.i64(-2_000_000..=2_000_000),
        _ => 0,
    };
    let mut scenario = Scenario {
        seed,
        kind,
        nodes,
        workers,
        timeout: Duration::from_millis(random.u64(20..=60)),
        interval: Span::from_millis(if random.bool() { 200 } else { 1000 }),
        ahead_us: (0..nodes).map(|_| ahead(&mut random)).collect(),
        counters,
        clients,
        traffic_us,
        troubles: Vec::new(),
    };
    troubles(&mut random, &mut scenario);
    scenario
}

/// The modes among which the counters of a scenario have theirs.
fn modes(random: &mut Rng) -> Vec<StoreMode> {
    match random.u32(0..8) {
        0..3 => vec![StoreMode::Exact],
        3 | 4 => vec![StoreMode::Leased],
        5 | 6 => vec![StoreMode::WriteBack],
        _ => vec![StoreMode::Exact, StoreMode::Leased, StoreMode::WriteBack],
    }
}

fn counter(random: &mut Rng, number: usize, modes: &[StoreMode]) -> Counted {
    let mode = *random.choice(modes).expect("one at least");
    let on_failure = match random.u32(0..8) {
        0 => OnFailure::Allow,
        1 => OnFailure::Deny,
        _ => OnFailure::Local,
    };
    let consistency: Consistency = consistency(mode, on_failure);
    // All that one principal has lies in one place.
    let principal = random.u64(0..3);
    let binding = random.u32(0..8) > 0;
    Counted { binding, ..Counted::new(number, principal, algorithm(random), consistency) }
}

/// A limit that is met within seconds, or one that is longer than any run.
fn algorithm(random: &mut Rng) -> Algorithm {
    let is_long = random.u32(0..3) == 0;
    let limit = if is_long { random.u64(5..=80) } else { random.u64(2..=30) };
    let window = if is_long { Span::DAY } else { Span::from_secs(random.u64(1..=5)) };
    let quota = Quota::new(limit, window).expect("a small limit");
    let made = match random.u32(0..8) {
        0 | 1 => Ok(Algorithm::SlidingWindow(SlidingWindow::new(quota))),
        2 => SubWindows::new(quota, random.u32(1..=10)).map(Algorithm::SubWindows),
        3 => SlidingLog::new(quota).map(Algorithm::SlidingLog),
        4 => Ok(Algorithm::FixedWindow(FixedWindow::new(quota))),
        5 => TokenBucket::new(quota, random.u64(1..=2 * limit)).map(Algorithm::TokenBucket),
        6 => LeakyBucket::new(quota, Span::from_millis(random.u64(0..=2000)), None)
            .map(Algorithm::LeakyBucket),
        _ => Concurrency::new(limit).map(Algorithm::Concurrency),
    };
    made.expect("a small limit")
}

fn client(random: &mut Rng, counters: usize, nodes: usize) -> Client {
    let count = random.usize(1..=counters.min(3));
    let charges = random.choose_multiple(0..counters, count);
    let charges: Vec<_> = charges.into_iter().map(|it| (it, random.u64(1..=3))).collect();
    Client {
        begins_us: random.u64(0..=2 * SECOND_US),
        burst: random.u32(1..=8),
        sticks_to: random.bool().then(|| random.usize(0..nodes)),
        leaves_one_in: if random.u32(0..3) == 0 { random.u64(1..=5) } else { 0 },
        hold_ms: if random.bool() { 0 } else { random.u64(1..=800) },
        settling: match random.u32(0..4) {
            0 => Settling::UpTo(5),
            _ => Settling::AsReserved,
        },
        ..Client::new(charges, random.u64(20..=600))
    }
}

fn troubles(random: &mut Rng, scenario: &mut Scenario) {
    let kinds = match random.u32(0..10) {
        0..3 => 0,
        3..8 => 1,
        _ => random.u32(2..=3),
    };
    let last_us = scenario.traffic_us - SECOND_US;
    let mut troubles = Vec::new();
    for _ in 0..kinds {
        let server = random.usize(0..scenario.server_count());
        let mut at_us = random.u64(FIRST_US..=last_us / 2);
        let times = random.u32(1..=4);
        let kind = random.u32(0..13);
        for _ in 0..times {
            let for_us = random.u64(20_000..=2_500_000);
            let until_us = (at_us + for_us).min(last_us);
            trouble(random, scenario, kind, server, at_us, until_us, &mut troubles);
            at_us = until_us + random.u64(1000..=2_000_000);
            if at_us + 100_000 > last_us {
                break;
            }
        }
    }
    if !troubles.is_empty() {
        troubles.push((last_us, Trouble::Heal));
    }
    troubles.sort_by_key(|&(at_us, _)| at_us);
    scenario.troubles = troubles;
}

/// One trouble from its beginning to its end.
fn trouble(
    random: &mut Rng,
    scenario: &Scenario,
    kind: u32,
    server: usize,
    at_us: u64,
    until_us: u64,
    troubles: &mut Vec<(u64, Trouble)>,
) {
    let place = random.usize(0..scenario.nodes);
    let timeout_ms = u64::try_from(scenario.timeout.as_millis()).expect("a short time");
    let mut happens = |at_us, trouble| troubles.push((at_us, trouble));
    match kind {
        0..3 => {
            let way = way(random, kind, timeout_ms);
            let all = random.bool();
            for place in (0..scenario.nodes).filter(|it| all || *it == place) {
                happens(at_us, Trouble::Way { place, server, way });
                happens(until_us, Trouble::Way { place, server, way: Way::default() });
            }
        }
        3..6 => {
            let keeps = kind < 5;
            happens(at_us, Trouble::Crash { server, keeps });
            happens(until_us, Trouble::Restart { server });
        }
        6 => {
            happens(at_us, Trouble::Replicate { server });
            let is_flushed = random.bool();
            let lost = Trouble::FailOver { server, ahead_us: 0 };
            happens(until_us, if is_flushed { Trouble::Flush { server } } else { lost });
        }
        7 => happens(at_us, Trouble::Stall { server, for_us: until_us - at_us }),
        8 => {
            happens(at_us, Trouble::CrashNode { place });
            happens(until_us, Trouble::StartNode { place });
        }
        9 => {
            happens(at_us, Trouble::StopNode { place });
            happens(until_us, Trouble::StartNode { place });
        }
        10 => {
            let ahead_us = random.i64(-3_600_000_000..=3_600_000_000);
            happens(at_us, Trouble::Jump { place, ahead_us });
            happens(until_us, Trouble::Jump { place, ahead_us: scenario.ahead_us[place] });
        }
        11 if scenario.kind == Servers::Cluster => {
            let half = random.usize(0..2);
            happens(at_us, Trouble::BeginToMove { half, to: server });
            happens(until_us, Trouble::EndTheMove);
        }
        11 => happens(at_us, Trouble::FlushScripts { server }),
        _ => match random.bool() {
            true => happens(at_us, Trouble::FailWithinBatch { server, after: random.usize(0..4) }),
            false => happens(at_us, Trouble::StandStill { for_ms: random.u64(1..=3 * timeout_ms) }),
        },
    }
}

fn way(random: &mut Rng, kind: u32, timeout_ms: u64) -> Way {
    match kind {
        // Answers come about when nobody waits for them any more.
        0 => Way {
            slower_ms: random.u64(0..=timeout_ms / 3),
            spike_one_in: random.u64(2..=10),
            spike_ms: random.u64(1..=timeout_ms),
            ..Way::default()
        },
        1 => Way { reset_one_in: random.u64(2..=20), ..Way::default() },
        _ => {
            let both = random.u32(0..3);
            Way { loses_questions: both != 1, loses_answers: both != 0, ..Way::default() }
        }
    }
}
