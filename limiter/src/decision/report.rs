//! The report of one policy on a request: for clients, logs, metrics and explanations.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::algorithm::{Retry, Verdict};
use crate::digest::Principal;
use crate::policy::{Mode, Policy};
use crate::store::Source;
use crate::time::Span;

/// One report for each policy that judged the request, in the route's order.
pub type Reports<P> = SmallVec<[Report<P>; 4]>;

/// The report of one policy on a request. `P` borrows the policy or owns it.
#[derive(Clone, Copy, Debug)]
pub struct Report<P> {
    /// The policy.
    pub policy: P,
    /// The client whose counter it is.
    pub client: Principal,
    /// Its own decision.
    pub ruling: Ruling,
    /// The numbers: `limit` and `remaining` are those of the limit that the
    /// client is told, even if more is admitted. A refused request consumes nothing,
    /// and `remaining` shows this even if this policy alone would have admitted it.
    pub verdict: Verdict,
    /// Where the counter was.
    pub source: Source,
    /// The units that count against the limit, including those beyond it.
    pub used: u64,
    /// The units that the request costs.
    pub cost: u64,
    /// The window of the limit; zero where time does not matter.
    pub window: Span,
    /// Whether the limit is one of this client alone, in place of the policy's.
    pub overridden: bool,
}

/// The decision of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It is within the limit.
    Admitted,
    /// It is beyond the limit, but within what the policy admits softly.
    Soft,
    /// It is beyond the limit, but the upstream has room.
    Elastic,
    /// It is beyond the limit.
    Refused,
    /// The client is banned, for being refused too often.
    Banned,
    /// The store is away, and the policy admits what cannot be judged.
    FailedOpen,
    /// The store is away, and the policy refuses what cannot be judged.
    FailedClosed,
}

impl<P: Borrow<Arc<Policy>>> Report<P> {
    fn mode(&self) -> Mode {
        self.policy.borrow().mode
    }

    /// Whether the request is refused for it.
    pub fn refuses(&self) -> bool {
        self.mode() == Mode::Enforce
            && matches!(self.ruling, Ruling::Refused | Ruling::Banned | Ruling::FailedClosed)
    }

    /// Whether clients are told of it. Of a policy in shadow they are not: it
    /// holds no client to its limit. A request that was not judged has no numbers.
    pub fn is_told(&self) -> bool {
        let is_known = matches!(self.source, Source::Store | Source::Local);
        is_known && self.mode() == Mode::Enforce
    }

    /// Whether it would have refused, if its policy were not in shadow.
    pub fn is_shadow_refused(&self) -> bool {
        self.mode() == Mode::Shadow && matches!(self.ruling, Ruling::Refused | Ruling::Banned)
    }

    /// The word for the decision in metrics and logs.
    pub fn outcome(&self) -> &'static str {
        match (self.ruling, self.mode()) {
            (Ruling::Admitted, _) => "admitted",
            (Ruling::Soft, _) => "soft",
            (Ruling::Elastic, _) => "elastic",
            (Ruling::Refused, Mode::Enforce) => "refused",
            (Ruling::Banned, Mode::Enforce) => "banned",
            (Ruling::Refused | Ruling::Banned, Mode::Shadow) => "shadow_refused",
            (Ruling::FailedClosed, Mode::Enforce) => "failed_closed",
            (Ruling::FailedOpen | Ruling::FailedClosed, _) => "failed_open",
        }
    }

    /// The client is banned: a request fits when both the ban has ended and the
    /// limit has room.
    pub(super) fn ban(&mut self, ban: &Verdict) {
        let wait = match ban.retry {
            Retry::After(wait) => wait,
            Retry::Now | Retry::Never => Span::ZERO,
        };
        self.ruling = Ruling::Banned;
        self.verdict = Verdict {
            admitted: false,
            remaining: 0,
            retry: self.verdict.retry.max(ban.retry),
            reset_after: self.verdict.reset_after.max(wait),
            delay: Span::ZERO,
            ..self.verdict
        };
        // If the limit was not judged, the ban alone determines the numbers.
        if self.source == Source::Unasked {
            self.source = Source::Store;
        }
    }

    /// How many requests of the same cost would pass.
    pub(super) fn requests_left(&self) -> u64 {
        self.verdict.remaining / self.cost.max(1)
    }

    /// The order of reports that are otherwise equal: the greater one binds.
    pub(super) fn precedence(&self) -> impl Ord {
        (self.window, Reverse(self.verdict.limit), Reverse(&self.policy.borrow().name))
    }
}

/// The reason in one line: `per-client: refused, 100 used of 100, costs 1, fits in 12s`.
/// Of a limit of this client alone it says `of 100 (override)`.
impl<P: Borrow<Arc<Policy>>> fmt::Display for Report<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, verdict, used, cost, .. } = self;
        let (name, outcome, limit) = (&policy.borrow().name, self.outcome(), verdict.limit);
        let whose = if self.overridden { " (override)" } else { "" };
        write!(f, "{name}: {outcome}, {used} used of {limit}{whose}, costs {cost}")?;
        match verdict.retry {
            Retry::Now => Ok(()),
            Retry::After(wait) => write!(f, ", fits in {wait}"),
            Retry::Never => f.write_str(", fits never"),
        }
    }
}
