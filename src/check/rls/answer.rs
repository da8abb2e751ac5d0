//! The answer to a request: a code and numbers for each descriptor, and one code for all.

use smallvec::SmallVec;
use tollgate_core::algorithm::{Retry, Verdict};
use tollgate_core::time::{Span, Timestamp};

use super::plan::Limited;
use super::{Counted, Hits, Matched, Plan, Switches, Tally, Unit};

/// What one descriptor is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status<'d> {
    /// Whether the descriptor is over its limit, for the client.
    pub is_over: bool,
    /// The limit: its hits, its unit and its name, which may be empty. None: there is no limit.
    pub limit: Option<(u32, Option<Unit>, &'d str)>,
    /// How many more hits fit.
    pub remaining: u32,
    /// The time until the limit is fresh, or, if the descriptor is over it, until its hits fit. If
    /// they never fit, it is the time until the window ends. None if it is not known.
    pub reset: Option<Span>,
    /// Whether the descriptor has more hits than its limit, so that they never fit.
    pub never_fits: bool,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'d> {
    /// Whether the request is over a limit, for the client.
    pub is_over: bool,
    /// Whether it would have been, if the service did not admit all requests.
    pub is_shadowed: bool,
    /// One for each descriptor.
    pub statuses: SmallVec<[Status<'d>; 4]>,
    /// What metrics count for each descriptor that has a limit.
    pub tallies: SmallVec<[Option<Tally>; 4]>,
    /// The indexes of the descriptors that are not over a limit; those without one are among
    /// them, but not those of unlimited rules.
    pub passed: SmallVec<[usize; 4]>,
    /// The index of the descriptor that is over its limit, or else the closest to it.
    pub closest: Option<usize>,
}

impl Status<'_> {
    const UNMATCHED: Self =
        Self { is_over: false, limit: None, remaining: 0, reset: None, never_fits: false };
    const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::UNMATCHED };
}

/// The answer to the request with this plan. `counted` are the answers of the store to its slots,
/// at `now`.
pub fn answer<'d>(
    plan: &Plan<'d>,
    counted: &[Counted],
    switches: Switches,
    now: Timestamp,
) -> Answer<'d> {
    let mut statuses = SmallVec::new();
    let mut tallies = SmallVec::new();
    for (matched, hits) in plan.matched.iter().zip(&plan.hits) {
        let (status, tally) = match matched {
            Matched::None => (Status::UNMATCHED, None),
            Matched::Unlimited => (Status::UNLIMITED, None),
            Matched::Limited(limited) => {
                let (over, tally) = of_none(limited, *hits, now);
                (over, Some(tally))
            }
        };
        statuses.push(status);
        tallies.push(tally);
    }
    for (slot, counted) in plan.slots.iter().zip(counted) {
        for &index in &slot.descriptors {
            let Matched::Limited(limited) = &plan.matched[index] else { continue };
            let hits = plan.hits[index].added();
            let (status, tally) = of_slot(limited, counted, slot.hits.added(), hits, now);
            (statuses[index], tallies[index]) = (status, tally);
        }
    }
    combined(plan, statuses, tallies, switches)
}

/// A limit that admits nothing. It has no counter.
fn of_none<'d>(limited: &Limited<'d>, hits: Hits, now: Timestamp) -> (Status<'d>, Tally) {
    let status = Status {
        is_over: !limited.is_shadow,
        limit: Some((limited.requests, limited.unit, limited.name)),
        remaining: 0,
        reset: limited.unit.map(|unit| until_end(unit, now)),
        never_fits: true,
    };
    (status, Tally::of_none(hits.added(), limited.is_shadow))
}

/// The status of a descriptor with `hits`, whose slot has `all` hits.
fn of_slot<'d>(
    limited: &Limited<'d>,
    counted: &Counted,
    all: u64,
    hits: u64,
    now: Timestamp,
) -> (Status<'d>, Option<Tally>) {
    let own = u64::from(limited.requests);
    let (is_over, remaining, reset, limit) = match counted {
        Counted::Judged(verdict) => {
            let remaining = if verdict.admitted { verdict.remaining } else { 0 };
            (!verdict.admitted, remaining, reset(verdict, limited.unit, now), verdict.limit)
        }
        Counted::Unlimited => return (Status::UNLIMITED, None),
        // Envoy tells its client the numbers of a status with a limit, and there are none.
        Counted::Unasked => return (Status::UNMATCHED, None),
        Counted::FailedOpen => (false, own, None, own),
        Counted::FailedClosed => (true, 0, None, own),
    };
    let requests = u32::try_from(limit).unwrap_or(u32::MAX);
    let status = Status {
        is_over: is_over && !limited.is_shadow,
        limit: Some((requests, limited.unit, limited.name)),
        remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        reset,
        never_fits: matches!(counted, Counted::Judged(it) if it.retry == Retry::Never),
    };
    let used = limit.saturating_sub(remaining);
    let before = if is_over { used } else { used.saturating_sub(all) };
    (status, Some(Tally::new(limit, before, hits, is_over, limited.is_shadow)))
}

/// The wait of a charge that is over its limit, or else the time until the window is over.
fn reset(verdict: &Verdict, unit: Option<Unit>, now: Timestamp) -> Option<Span> {
    match (verdict.retry, unit) {
        (Retry::After(wait), _) => Some(wait),
        (Retry::Now | Retry::Never, Some(unit)) if verdict.reset_after.is_zero() => {
            Some(until_end(unit, now))
        }
        (Retry::Now, _) => Some(verdict.reset_after),
        (Retry::Never, unit) => unit.map(|unit| until_end(unit, now)),
    }
}

/// The time until the window that is aligned to the epoch ends.
fn until_end(unit: Unit, now: Timestamp) -> Span {
    let window_us = unit.window().as_micros();
    Span::from_micros(window_us - now.as_micros() % window_us)
}

/// One code for all descriptors. The request is over a limit if any descriptor is whose limit is
/// not in quota mode, or if all of those are whose limits are.
fn combined<'d>(
    plan: &Plan<'d>,
    statuses: SmallVec<[Status<'d>; 4]>,
    tallies: SmallVec<[Option<Tally>; 4]>,
    switches: Switches,
) -> Answer<'d> {
    let mut failed = false;
    let mut quotas = 0_usize;
    let mut failed_quotas = 0_usize;
    let mut closest: Option<usize> = None;
    let mut least = u32::MAX;
    let mut passed = SmallVec::new();
    for (index, (status, matched)) in statuses.iter().zip(&plan.matched).enumerate() {
        if status.limit.is_some() && status.remaining < least {
            (closest, least) = (Some(index), status.remaining);
        }
        let is_quota = match matched {
            Matched::Unlimited => continue,
            Matched::Limited(limited) => switches.quota || limited.is_quota,
            Matched::None => switches.quota,
        };
        quotas += usize::from(is_quota);
        match (status.is_over, is_quota) {
            (true, true) => failed_quotas += 1,
            (true, false) => {
                failed = true;
                (closest, least) = (Some(index), 0);
            }
            (false, _) => passed.push(index),
        }
    }
    let is_over = failed || quotas > 0 && quotas == failed_quotas;
    Answer {
        is_over: is_over && !switches.shadow,
        is_shadowed: is_over && switches.shadow,
        statuses,
        tallies,
        passed,
        closest,
    }
}
