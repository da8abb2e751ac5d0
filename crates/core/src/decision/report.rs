//! The report of one policy on a request: for clients, logs, metrics and explanations.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::algorithm::{Retry, Verdict};
use crate::digest::Principal;
use crate::policy::{LimitChoice, LimitOwner, Mode, Policy};
use crate::store::Source;
use crate::time::{Span, Timestamp};

/// One report for each policy that judged the request, in the route's order. Several reports
/// are allocated: a decision with space for them would be copied at every move.
pub type Reports<P> = SmallVec<[Report<P>; 1]>;

/// The outcomes of a policy that refuse a request, as [`Report::outcome`], metrics and answers call
/// them. Those without a report are of policies that could not count the request.
pub const REFUSING: [&str; 8] = [
    "refused",
    "banned",
    "failed_closed",
    "lacking_key",
    "unverifiable",
    "ambiguous",
    "model_unpriced",
    "key_limit_unfit",
];

/// The report of one policy on a request. `P` borrows the policy or owns it.
#[derive(Clone, Copy, Debug)]
pub struct Report<P> {
    /// The policy.
    pub policy: P,
    /// The client whose counter it is.
    pub client: Principal,
    /// The decision of this policy.
    pub ruling: Ruling,
    /// The numbers: `limit` and `remaining` are those of the limit that responses name,
    /// even if more is admitted. A refused request consumes nothing, and `remaining` shows
    /// this even if this policy alone would have admitted it.
    pub verdict: Verdict,
    /// The place of the counter.
    pub source: Source,
    /// When the server of the counter counted the request. None: at the time of the decision.
    pub at: Option<Timestamp>,
    /// The units that count against the limit, including those beyond it.
    pub used: u64,
    /// The units that the request costs.
    pub cost: u64,
    /// The window of the limit. Zero if the algorithm has none.
    pub window: Span,
    /// The length of the current window, which differs from `window` for a month.
    pub length: Span,
    /// The limit of the policy that holds for the client, unless it has an `owner`.
    pub choice: LimitChoice,
    /// Whose limit holds for this client, instead of the policy's.
    pub owner: Option<LimitOwner>,
    /// A limit of this client does not fit the policy and is ignored.
    pub ignores_limit: bool,
}

/// The decision of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The request is within the limit.
    Admitted,
    /// The request is beyond the limit, but within the soft limit.
    Soft,
    /// The request is beyond the limit, but the upstream has room.
    Elastic,
    /// The request is beyond the limit.
    Refused,
    /// The client is banned, because too many of its requests were refused.
    Banned,
    /// The store is unavailable, and the policy admits requests that cannot be judged.
    FailedOpen,
    /// The store is unavailable, and the policy refuses requests that cannot be judged.
    FailedClosed,
}

impl Report<&Arc<Policy>> {
    /// The same report, which owns its policy.
    pub(super) fn into_owned(self) -> Report<Arc<Policy>> {
        let Self { policy, client, ruling, verdict, source, .. } = self;
        let Self { at, used, cost, window, length, choice, owner, ignores_limit, .. } = self;
        let policy = Arc::clone(policy);
        Report {
            policy,
            client,
            ruling,
            verdict,
            source,
            at,
            used,
            cost,
            window,
            length,
            choice,
            owner,
            ignores_limit,
        }
    }
}

impl<P: Borrow<Arc<Policy>>> Report<P> {
    fn mode(&self) -> Mode {
        self.policy.borrow().mode
    }

    /// Whether the policy refuses the request.
    pub fn refuses(&self) -> bool {
        self.mode() == Mode::Enforce
            && matches!(self.ruling, Ruling::Refused | Ruling::Banned | Ruling::FailedClosed)
    }

    /// Whether the policy refuses the request because it bans the client.
    pub(super) fn bans(&self) -> bool {
        self.refuses() && self.ruling == Ruling::Banned
    }

    /// Whether responses contain the report. A policy in shadow mode enforces no limit, so
    /// responses omit it. A request that was not judged has no numbers.
    pub(crate) fn is_told(&self) -> bool {
        let is_known = matches!(self.source, Source::Store | Source::Local);
        is_known && self.mode() == Mode::Enforce
    }

    /// Whether the policy would have refused the request if it were not in shadow mode.
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

    /// Applies a ban: the request fits when the ban has ended and the limit has room.
    pub(super) fn ban(&mut self, ban: &Verdict) {
        self.ruling = Ruling::Banned;
        self.verdict = self.verdict.under_ban(ban);
        // If the limit was not judged, the ban alone determines the numbers.
        if self.source == Source::Unasked {
            self.source = Source::Store;
        }
    }

    /// The number of requests of the same cost that would be admitted.
    pub(super) fn requests_left(&self) -> u64 {
        self.verdict.remaining / self.cost.max(1)
    }

    /// The order of reports that are otherwise equal. The greater one binds.
    pub(super) fn precedence(&self) -> impl Ord {
        (self.window, Reverse(self.verdict.limit), Reverse(&self.policy.borrow().name))
    }
}

/// The reason in one line: `per-client: refused, 100 used of 100, costs 1, fits in 12s`.
/// For a limit of this client alone it contains `of 100 (override)`.
impl<P: Borrow<Arc<Policy>>> fmt::Display for Report<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, verdict, used, cost, .. } = self;
        let name = &policy.borrow().name;
        let outcome = self.outcome();
        let limit = verdict.limit;
        let whose = match self.owner {
            None if self.ignores_limit => " (the client's own limit is ignored)",
            None => "",
            Some(LimitOwner::Override) => " (override)",
            Some(LimitOwner::Key) => " (key)",
            Some(LimitOwner::Team) => " (team)",
        };
        write!(f, "{name}: {outcome}, {used} used of {limit}{whose}, costs {cost}")?;
        match verdict.retry {
            Retry::Now => Ok(()),
            Retry::After(wait) => write!(f, ", fits in {wait}"),
            Retry::Never => f.write_str(", fits never"),
        }
    }
}
