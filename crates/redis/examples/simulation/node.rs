//! One node: how a mode uses its local state, and when it calls the store.

use std::collections::BTreeMap;
use std::mem;

use tollgate_core::algorithm::{Algorithm, Op, QuotaError, State};
use tollgate_core::digest::Key;
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::{Span, Timestamp};
use tollgate_redis::shared::leased::{self, LeaseLength, Return, Spending};
use tollgate_redis::shared::write_back::{self, Delta, TakeOutcome};
use tollgate_redis::shared::{Ahead, DenyCache, FRESH_FOR, Known, Trust};

const MAX_KEYS: usize = 10_000;
const DENY_CACHE_BYTES: usize = 1 << 20;
const INTERVAL: Span = Span::SECOND;
/// After this number of consecutive failures the node does not call the store for
/// [`BACK_OFF`].
const FAILURES: u32 = 3;
const BACK_OFF: Span = Span::from_millis(100);

/// How exact the counters are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Exact,
    Leased,
    WriteBack,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Exact, Self::Leased, Self::WriteBack];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exact => "`exact`",
            Self::Leased => "`leased`",
            Self::WriteBack => "`write_back`",
        }
    }
}

/// The result of a request at its node.
pub(crate) enum Step {
    Judged { admitted: bool },
    Ask(Ahead),
}

/// A message from a node to the store in the background.
pub(crate) enum Report {
    Return(Return),
    Delta(Delta),
    /// Units that were admitted while the store was unavailable.
    Debt(Key, u64),
}

pub(crate) struct Node {
    mode: Mode,
    nodes: u64,
    deny: DenyCache,
    leases: leased::Ledger,
    sums: write_back::Ledger,
    /// Decides while the store is unavailable, by this node's part of the limit.
    local: MemoryStore,
    part: Algorithm,
    /// Units that the node has admitted alone; it reports them when the store is back.
    debts: BTreeMap<Key, u64>,
    failures: u32,
    away_until: Timestamp,
}

impl Node {
    /// A node in a system of `nodes` nodes.
    pub(crate) fn new(mode: Mode, nodes: u64, algorithm: &Algorithm) -> Result<Self, QuotaError> {
        Ok(Self {
            mode,
            nodes,
            deny: DenyCache::new(DENY_CACHE_BYTES),
            leases: leased::Ledger::new(MAX_KEYS, LeaseLength::default()),
            sums: write_back::Ledger::new(MAX_KEYS, INTERVAL),
            local: MemoryStore::new(MAX_KEYS),
            part: algorithm.with_limit(algorithm.limit().div_ceil(nodes))?,
            debts: BTreeMap::new(),
            failures: 0,
            away_until: Timestamp::default(),
        })
    }

    pub(crate) fn request(&mut self, charge: &Charge<'_>, now: Timestamp) -> Step {
        let ask = match self.mode {
            Mode::Exact => Ahead::NOTHING,
            Mode::Leased => match self.leases.spend(charge, now, Span::ZERO) {
                Spending::Spent(_) => return Step::Judged { admitted: true },
                Spending::Refused(_) => return Step::Judged { admitted: false },
                Spending::Ask(ask) => ask,
            },
            Mode::WriteBack => match self.sums.take(charge, self.nodes, now, Span::ZERO) {
                TakeOutcome::Counted(_) => return Step::Judged { admitted: true },
                TakeOutcome::Refused(_) => return Step::Judged { admitted: false },
                TakeOutcome::Ask => Ahead::NOTHING,
            },
        };
        // The simulation does not announce returned units to other nodes, so a refusal is
        // used for one second.
        let is_current = |_: &Key, asked| now.since(asked) < Span::SECOND;
        let trust = Trust { now, fresh_for: FRESH_FOR, is_current };
        match self.deny.judge([*charge], &trust) {
            Known::Refused(_) => {
                self.sums.end_ask(charge);
                Step::Judged { admitted: false }
            }
            _ if now < self.away_until => {
                let admitted = self.judge_alone(charge, now);
                if admitted {
                    *self.debts.entry(charge.key).or_default() += charge.cost;
                }
                Step::Judged { admitted }
            }
            Known::Stale(_) | Known::Unknown => Step::Ask(ask),
        }
    }

    /// Decides without the store, which has not answered in time and may have counted
    /// the request.
    pub(crate) fn judge_alone(&mut self, charge: &Charge<'_>, now: Timestamp) -> bool {
        self.sums.doubt_ask(charge);
        self.sums.end_ask(charge);
        let part = Charge { algorithm: &self.part, ..*charge };
        let is_admitted = self.local.apply(&[part], now)[0].admitted;
        if is_admitted {
            self.sums.foresee(charge, now);
        }
        is_admitted
    }

    /// The store has not answered a request in time.
    pub(crate) fn failed(&mut self, now: Timestamp) {
        self.failures += 1;
        if self.failures >= FAILURES {
            self.away_until = now.plus(BACK_OFF);
        }
    }

    /// The store has not answered a report in time.
    pub(crate) fn unheard(&mut self, report: Report, now: Timestamp) {
        self.failed(now);
        if let Report::Delta(mut delta) = report {
            self.sums.lost(&mut delta, now);
        }
    }

    /// The store has decided on a request at time `at`.
    pub(crate) fn answered(
        &mut self,
        charge: &Charge<'_>,
        ask: Ahead,
        before: Option<&State>,
        at: Timestamp,
    ) {
        self.failures = 0;
        let after = taken(charge, ask, before, at);
        match self.mode {
            Mode::Exact => {}
            Mode::Leased => drop(self.leases.answered(charge, ask, before, at)),
            Mode::WriteBack => {
                self.sums.learn(charge, before, after.is_some(), at);
                self.sums.end_ask(charge);
            }
        }
        let after = after.or_else(|| before.cloned());
        self.deny.learn([(*charge, after)], at);
    }

    /// The store has counted a delta at time `at`.
    pub(crate) fn told(&mut self, delta: Delta, before: Option<&State>, at: Timestamp) {
        self.failures = 0;
        self.sums.answered(delta, before, at);
    }

    /// The reports that are due at `now`.
    pub(crate) fn reports(&mut self, now: Timestamp) -> Vec<Report> {
        if now < self.away_until {
            return Vec::new();
        }
        let returns = self.leases.returns(now);
        for back in &returns {
            self.deny.forget(&back.key);
        }
        let deltas = self.sums.due(now, usize::MAX);
        // Debts are sent only to a store that has answered again.
        let debts = if self.failures == 0 { mem::take(&mut self.debts) } else { BTreeMap::new() };
        returns
            .into_iter()
            .map(Report::Return)
            .chain(deltas.into_iter().map(Report::Delta))
            .chain(debts.into_iter().map(|(key, units)| Report::Debt(key, units)))
            .collect()
    }
}

/// The state after the store has admitted a request; none if the store refuses it.
pub(crate) fn taken(
    charge: &Charge<'_>,
    ask: Ahead,
    before: Option<&State>,
    at: Timestamp,
) -> Option<State> {
    let take = |units| charge.algorithm.apply(before, Op::Take(units), at);
    let (next, verdict) = take(charge.cost);
    match ask.granted(verdict.remaining) {
        extra @ 1.. if verdict.admitted => take(charge.cost + extra).0,
        _ => next,
    }
}
