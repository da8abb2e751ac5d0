//! Scenarios that were written for one defect each. A store that has it breaks a
//! promise in them.

use std::time::Duration;

use fastrand::Rng;
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, Quota, SlidingWindow, TokenBucket,
};
use tollgate_core::consistency::{OnFailure, StoreMode};
use tollgate_core::time::Span;

use super::network::Way;
use super::scenario::{Client, Counted, Scenario, Servers, Settling, Trouble, consistency};

const SECOND_US: u64 = 1_000_000;

/// A defect that was found once, and the scenarios that find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// Every ledger of `write_back` takes an unknown key as a fresh one.
    FreshLedgers,
    /// `write_back` does not do as `on_store_failure` says.
    WriteBackAlone,
    /// Every short outage gives the share once more.
    RepeatedOutages,
    /// A node that judges alone forgets what it knew.
    ForgottenStates,
    /// The memory store forgets short windows before long ones.
    Eviction,
    /// A settlement is lost while the store is away.
    LostSettlements,
    /// Units that are given back while the store is away stay charged.
    LostRefunds,
    /// What a client had in flight that went away stays taken.
    Departures,
    /// A refund of a token bucket gives back less than was taken.
    Refunds,
    /// A late answer says that a charge which does not bind was refused, and the charge
    /// that was admitted meanwhile is told nowhere.
    LateAnswers,
    /// The debts of a bucket leak while the bucket in the store does.
    LeakingDebts,
}

/// All of them but that of the memory store, which has no servers.
pub(super) const ALL: [Defect; 10] = [
    Defect::FreshLedgers,
    Defect::WriteBackAlone,
    Defect::RepeatedOutages,
    Defect::ForgottenStates,
    Defect::LostSettlements,
    Defect::LostRefunds,
    Defect::Departures,
    Defect::Refunds,
    Defect::LateAnswers,
    Defect::LeakingDebts,
];

impl Defect {
    /// The scenario for it with this seed.
    pub(super) fn scenario(self, seed: u64) -> Scenario {
        let mut random = Rng::with_seed(seed);
        match self {
            Self::FreshLedgers => fresh_ledgers(seed, &mut random),
            Self::WriteBackAlone => write_back_alone(seed, &mut random),
            Self::RepeatedOutages => repeated_outages(seed, &mut random),
            Self::ForgottenStates => forgotten_states(seed, &mut random),
            Self::LostSettlements => lost_settlements(seed, &mut random),
            Self::LostRefunds => lost_refunds(seed, &mut random),
            Self::Departures => departures(seed, &mut random),
            Self::Refunds => refunds(seed, &mut random),
            Self::LateAnswers => late_answers(seed, &mut random),
            Self::LeakingDebts => leaking_debts(seed, &mut random),
            Self::Eviction => unreachable!("the memory store has no servers"),
        }
    }
}

fn quota(limit: u64, window: Span) -> Quota {
    Quota::new(limit, window).expect("a small limit")
}

fn sliding(limit: u64, window: Span) -> Algorithm {
    Algorithm::SlidingWindow(SlidingWindow::new(quota(limit, window)))
}

fn fixed(limit: u64, window: Span) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(quota(limit, window)))
}

fn scenario(seed: u64, nodes: usize, counters: Vec<Counted>, clients: Vec<Client>) -> Scenario {
    Scenario {
        seed,
        kind: Servers::One,
        nodes,
        workers: 1,
        timeout: Duration::from_millis(20),
        interval: Span::SECOND,
        ahead_us: vec![0; nodes],
        counters,
        clients,
        traffic_us: 12 * SECOND_US,
        troubles: Vec::new(),
    }
}

/// The server is away again and again.
fn outages(random: &mut Rng, times: u64, away_us: u64) -> Vec<(u64, Trouble)> {
    let mut troubles = Vec::new();
    let mut at_us = 2 * SECOND_US;
    for _ in 0..times {
        troubles.push((at_us, Trouble::Crash { server: 0, keeps: true }));
        at_us += away_us + random.u64(0..=200_000);
        troubles.push((at_us, Trouble::Restart { server: 0 }));
        at_us += random.u64(1_500_000..=2_500_000);
    }
    troubles
}

fn fresh_ledgers(seed: u64, random: &mut Rng) -> Scenario {
    let limit = random.u64(4..=8);
    let consistency = consistency(StoreMode::WriteBack, OnFailure::Local);
    let counters = vec![Counted::new(0, 1, sliding(limit, Span::from_secs(2)), consistency)];
    let client = Client { burst: 64, ..Client::new(vec![(0, 1)], 60) };
    Scenario { workers: 4, ..scenario(seed, random.usize(6..=8), counters, vec![client]) }
}

fn write_back_alone(seed: u64, random: &mut Rng) -> Scenario {
    let on_failure = if random.bool() { OnFailure::Deny } else { OnFailure::Local };
    let consistency = consistency(StoreMode::WriteBack, on_failure);
    let counters = vec![Counted::new(0, 1, sliding(80, Span::from_secs(5)), consistency)];
    let client = Client { burst: 4, ..Client::new(vec![(0, 1)], 60) };
    let troubles = vec![
        (2 * SECOND_US, Trouble::Crash { server: 0, keeps: true }),
        (9 * SECOND_US, Trouble::Restart { server: 0 }),
    ];
    Scenario { troubles, ..scenario(seed, random.usize(2..=4), counters, vec![client]) }
}

fn repeated_outages(seed: u64, random: &mut Rng) -> Scenario {
    let consistency = consistency(StoreMode::Exact, OnFailure::Local);
    let counters = vec![Counted::new(0, 1, sliding(10, Span::DAY), consistency)];
    let client = Client { burst: 2, ..Client::new(vec![(0, 1)], 40) };
    let troubles = outages(random, 6, 1_300_000);
    let traffic_us = 24 * SECOND_US;
    let nodes = random.usize(1..=2);
    Scenario { troubles, traffic_us, ..scenario(seed, nodes, counters, vec![client]) }
}

fn forgotten_states(seed: u64, random: &mut Rng) -> Scenario {
    let consistency = consistency(StoreMode::Exact, OnFailure::Local);
    let limit = random.u64(4..=10);
    let counters = vec![Counted::new(0, 1, fixed(limit, Span::DAY), consistency)];
    let client = Client { burst: 4, ..Client::new(vec![(0, 1)], 50) };
    let troubles = vec![
        (4 * SECOND_US, Trouble::Crash { server: 0, keeps: true }),
        (7 * SECOND_US, Trouble::Restart { server: 0 }),
    ];
    let nodes = random.usize(1..=3);
    let traffic_us = 9 * SECOND_US;
    Scenario { troubles, traffic_us, ..scenario(seed, nodes, counters, vec![client]) }
}

fn lost_settlements(seed: u64, random: &mut Rng) -> Scenario {
    let consistency = consistency(StoreMode::Exact, OnFailure::Local);
    let counters = vec![Counted::new(0, 1, fixed(10_000, Span::DAY), consistency)];
    let client =
        Client { hold_ms: 600, settling: Settling::Exactly(50), ..Client::new(vec![(0, 10)], 100) };
    let troubles = outages(random, 2, 1_500_000);
    Scenario { troubles, ..scenario(seed, random.usize(1..=2), counters, vec![client]) }
}

fn lost_refunds(seed: u64, random: &mut Rng) -> Scenario {
    // Nothing is admitted while the server is away: such units stay charged, for another reason.
    let consistency = consistency(StoreMode::Exact, OnFailure::Deny);
    let counters = vec![Counted::new(0, 1, fixed(20_000, Span::DAY), consistency)];
    let client =
        Client { hold_ms: 600, settling: Settling::Exactly(10), ..Client::new(vec![(0, 50)], 100) };
    let troubles = outages(random, 2, 1_500_000);
    Scenario { troubles, ..scenario(seed, random.usize(1..=2), counters, vec![client]) }
}

fn departures(seed: u64, random: &mut Rng) -> Scenario {
    let consistency = consistency(StoreMode::Exact, OnFailure::Local);
    let limit = random.u64(5..=100);
    let concurrency = Concurrency::new(limit).expect("a small limit");
    let counters = vec![Counted::new(0, 1, Algorithm::Concurrency(concurrency), consistency)];
    let leaving =
        Client { burst: 100, leaves_one_in: 1, hold_ms: 5, ..Client::new(vec![(0, 1)], 4000) };
    let staying = Client { burst: 4, hold_ms: 1, ..Client::new(vec![(0, 1)], 100) };
    // Some answers come too late, and some connections break.
    let way = Way { reset_one_in: 6, spike_one_in: 3, spike_ms: 20, ..Way::default() };
    let nodes = random.usize(1..=2);
    let troubled = |place| (1_500_000, Trouble::Way { place, server: 0, way });
    let mut troubles: Vec<_> = (0..nodes).map(troubled).collect();
    troubles.push((11 * SECOND_US, Trouble::Heal));
    Scenario { troubles, ..scenario(seed, nodes, counters, vec![leaving, staying]) }
}

fn refunds(seed: u64, random: &mut Rng) -> Scenario {
    let consistency = consistency(StoreMode::Exact, OnFailure::Local);
    let bucket = TokenBucket::new(quota(1000, Span::SECOND), 1000).expect("a bucket");
    // Principals of which one lies in the first half, the other in the second.
    let counters = vec![
        Counted::new(0, 1, Algorithm::TokenBucket(bucket), consistency),
        Counted::new(1, 2, fixed(2, Span::DAY), consistency),
        Counted::new(2, 3, fixed(2, Span::DAY), consistency),
        Counted::new(3, 4, fixed(2, Span::DAY), consistency),
    ];
    let greedy = |own| Client { burst: 32, ..Client::new(vec![(0, 1), (own, 1)], 10) };
    let kind = if random.bool() { Servers::Cluster } else { Servers::Shards };
    let clients = vec![greedy(1), greedy(2), greedy(3)];
    let traffic_us = 4 * SECOND_US;
    Scenario { kind, traffic_us, ..scenario(seed, 2, counters, clients) }
}

fn late_answers(seed: u64, random: &mut Rng) -> Scenario {
    let consistency = consistency(StoreMode::Exact, OnFailure::Local);
    let limit = random.u64(10..=40);
    let counted = Counted::new(0, 1, fixed(limit, Span::DAY), consistency);
    let counters = vec![Counted { binding: false, ..counted }];
    let client = Client { burst: 2, ..Client::new(vec![(0, 1)], 100) };
    let mut stall = |at_s: u64| {
        let for_us = random.u64(400_000..=1_200_000);
        (at_s * SECOND_US, Trouble::Stall { server: 0, for_us })
    };
    let troubles = vec![stall(2), stall(4), stall(6)];
    Scenario { troubles, ..scenario(seed, random.usize(2..=4), counters, vec![client]) }
}

fn leaking_debts(seed: u64, random: &mut Rng) -> Scenario {
    let consistency = consistency(StoreMode::Exact, OnFailure::Local);
    let limit = random.u64(10..=30);
    let bucket = TokenBucket::new(quota(limit, Span::SECOND), limit).expect("a bucket");
    let counters = vec![Counted::new(0, 1, Algorithm::TokenBucket(bucket), consistency)];
    let client = Client { burst: 2, ..Client::new(vec![(0, 1)], 25) };
    let troubles = outages(random, 8, 900_000);
    let traffic_us = 32 * SECOND_US;
    Scenario { troubles, traffic_us, ..scenario(seed, 1, counters, vec![client]) }
}
