//! Random policies, times and operations.

use fastrand::Rng;
use tollgate_core::algorithm::{
    Algorithm, Ban, Concurrency, FixedWindow, LeakyBucket, MAX_LIMIT, MAX_WINDOW, MIN_WINDOW,
    Quota, QuotaError, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::time::{Span, Timestamp};

use crate::codec::{Ahead, Ask, Asked};

const COUNTERS: usize = 8;
const PRINCIPALS: usize = 2;

/// A few policies: all with small windows and limits, which test each edge, or with some of any
/// size.
pub(super) fn policies(seed: u64) -> Vec<Algorithm> {
    let mut random = Rng::with_seed(!seed);
    let small = random.bool();
    let window_us = if small {
        random.u64(1000..1500)
    } else {
        magnitude(&mut random, MIN_WINDOW.as_micros(), MAX_WINDOW.as_micros())
    };
    let mut policies = Vec::new();
    while policies.len() < COUNTERS {
        policies.extend(policy(&mut random, small, window_us));
    }
    policies
}

/// A few clients under these policies, over a short time.
pub(super) struct Schedule<'p> {
    random: Rng,
    policies: &'p [Algorithm],
    principals: [Principal; PRINCIPALS],
    /// The approximate time between two steps.
    pace_us: u64,
    latest: Timestamp,
    taken: Vec<(usize, usize, u64, Timestamp)>,
    /// Whether only operations of the memory store are made.
    pub(super) plain: bool,
}

impl<'p> Schedule<'p> {
    pub(super) fn new(seed: u64, policies: &'p [Algorithm]) -> Self {
        let mut random = Rng::with_seed(seed);
        let some = random.choice(policies).map_or(Span::ZERO, Algorithm::window);
        let principals = std::array::from_fn(|_| Principal::from_bits(random.u128(..)));
        // A time from 2025 to 2046. No state ends after 2060.
        let start_us = random.u64(1_735_700_000_000_000..2_400_000_000_000_000);
        Self {
            policies,
            principals,
            pace_us: some.max(MIN_WINDOW).as_micros() / 10,
            latest: Timestamp::from_micros(start_us),
            taken: Vec::new(),
            plain: random.bool(),
            random,
        }
    }

    /// The time of the next step: the same, a little later, windows later, or earlier.
    pub(super) fn tick(&mut self) -> Timestamp {
        let gap_us = match self.random.u32(..10) {
            0..3 => 0,
            3..9 => self.random.u64(0..=self.pace_us),
            _ => self.random.u64(0..=40 * self.pace_us),
        };
        self.latest = self.latest.plus(Span::from_micros(gap_us));
        match self.random.u32(..8) {
            0 => self.latest.minus(Span::from_micros(self.random.u64(0..=self.pace_us.min(4000)))),
            _ => self.latest,
        }
    }

    /// One body.
    pub(super) fn next(&mut self, now: Timestamp) -> Vec<Asked<'p>> {
        if self.random.u32(..4) == 0 {
            return self.corrections(now);
        }
        let count = self.random.usize(1..=4);
        let chosen = self.random.choose_multiple(0..COUNTERS * PRINCIPALS, count);
        let mut asks = Vec::new();
        for place in chosen {
            let policy = place % COUNTERS;
            let principal = place / COUNTERS;
            let ask = self.take(policy);
            if let Ask::Take(cost) = ask {
                self.taken.push((policy, principal, cost, now));
            }
            asks.push((policy, principal, ask, self.random.u32(..4) > 0));
        }
        asks.into_iter()
            .map(|(policy, who, ask, binds)| self.asked(policy, who, ask, binds))
            .collect()
    }

    fn asked(&self, policy: usize, principal: usize, ask: Ask, binding: bool) -> Asked<'p> {
        let counter = Counter::from_bits(u64::try_from(policy).unwrap() * 0x1234_5679);
        let key = Key { principal: self.principals[principal], counter };
        Asked { key, algorithm: &self.policies[policy], ask, binding }
    }

    fn take(&mut self, policy: usize) -> Ask {
        let random = &mut self.random;
        let algorithm = &self.policies[policy];
        let most = algorithm.capacity().saturating_add(2);
        let cost = match random.u32(..8) {
            0 => 0,
            1..5 => 1.max(most / random.u64(4..=20)),
            5 => magnitude(random, 1, most),
            6 => most - random.u64(0..=most.min(3)),
            _ => random.u64(..),
        };
        let leasable = matches!(
            algorithm,
            Algorithm::SlidingWindow(_)
                | Algorithm::SubWindows(_)
                | Algorithm::FixedWindow(_)
                // As many units of a log as fit are counted at one time.
                | Algorithm::SlidingLog(_)
                | Algorithm::TokenBucket(_)
        );
        match random.u32(..4) {
            0 if !self.plain => Ask::Peek,
            1 if !self.plain && leasable => Ask::Lease {
                cost: cost.min(most),
                ahead: Ahead {
                    extra: random.u64(..=most),
                    reserve: random.u64(..=most / 3),
                    share_1024: random.u16(..=1024),
                },
            },
            _ => Ask::Take(cost),
        }
    }

    /// Gives back or charges units of an earlier operation.
    fn corrections(&mut self, now: Timestamp) -> Vec<Asked<'p>> {
        let (policy, principal, cost, taken) = match self.random.choice(&self.taken) {
            Some(&taken) => taken,
            None => (self.random.usize(..COUNTERS), 0, 1, now),
        };
        let cost = cost.min(self.policies[policy].capacity());
        let ask = match self.random.u32(..5) {
            4 => Ask::Count(cost.saturating_mul(self.random.u64(..4))),
            0 => Ask::Charge(self.random.u64(1..=cost.saturating_mul(3).max(1))),
            1 => Ask::Give { cost: cost / 2, taken },
            2 => Ask::Cancel { cost, taken },
            _ => Ask::Give { cost, taken },
        };
        // A charge of units in flight changes nothing, so no node sends it.
        match (&self.policies[policy], ask) {
            (Algorithm::Concurrency(_), Ask::Charge(_) | Ask::Count(_)) => Vec::new(),
            _ => vec![self.asked(policy, principal, ask, false)],
        }
    }
}

/// A random number of any magnitude in this range.
fn magnitude(random: &mut Rng, least: u64, most: u64) -> u64 {
    let bits = random.u32(least.max(1).ilog2()..=most.ilog2());
    random.u64(1 << bits..=(2 << bits) - 1).clamp(least, most)
}

fn policy(random: &mut Rng, small: bool, window_us: u64) -> Result<Algorithm, QuotaError> {
    let most = if small { 12 } else { MAX_LIMIT };
    let limit = magnitude(random, 1, most);
    let quota = Quota::new(limit, Span::from_micros(window_us))?;
    // Units in flight expire after 15 s without a renewal, so they are used only with small
    // windows. No window of a calendar is small.
    let kinds = if small { 0..8 } else { 1..9 };
    Ok(match random.u32(kinds) {
        0 => Algorithm::Concurrency(Concurrency::new(limit)?),
        1 => Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        2 => Algorithm::SubWindows(SubWindows::new(quota, random.u32(1..=20))?),
        3 => Algorithm::FixedWindow(FixedWindow::new(quota)),
        8 => {
            let length = random.choice([3600, 86_400, 604_800, 2_629_746]).unwrap();
            let zones = ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "UTC"];
            let quota = Quota::new(limit, Span::from_secs(length))?;
            Algorithm::FixedWindow(FixedWindow::calendar(quota, random.choice(zones).unwrap())?)
        }
        4 => {
            // Short logs, and long logs that have a key of their own.
            let quota = quota.with_limit(limit * 7 % 200 + 1)?;
            Algorithm::SlidingLog(SlidingLog::new(quota)?)
        }
        5 => Algorithm::TokenBucket(TokenBucket::new(quota, magnitude(random, 1, most))?),
        6 => {
            let delay = Span::from_micros(random.u64(..=2 * window_us));
            let depth = random.bool().then(|| magnitude(random, 1, most) - 1);
            Algorithm::LeakyBucket(LeakyBucket::new(quota, delay, depth)?)
        }
        _ => {
            let first = random.u64(1..=window_us);
            let longest = random.u64(first..=(16 * window_us).min(MAX_WINDOW.as_micros()));
            Algorithm::Ban(Ban::new(Span::from_micros(first), Span::from_micros(longest))?)
        }
    })
}
