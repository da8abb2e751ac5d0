//! What of a request is decided here, without the store: by leases, and by what
//! is told later.
//!
//! A request is first planned, charge by charge. What must be asked is asked,
//! and then all of it is either counted or withdrawn, so that it stays all or
//! nothing whichever way its charges go.

use smallvec::SmallVec;

use super::codec;
use crate::algorithm::{Op, State, Verdict};
use crate::store::leased::{self, Spending};
use crate::store::write_back::{self, Delta};
use crate::store::{Answer, Charge, Source};
use crate::terms::StoreMode;
use crate::time::{Span, Timestamp};

/// What one worker remembers of keys that are leased, and of those told later.
const MAX_KEYS: usize = 100_000;
/// How many counters the store is told of at a time.
const MAX_DELTAS: usize = 64;

/// Which way one charge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The store must be asked.
    Ask(codec::Ask),
    /// It was spent of what was leased, at this time.
    Spent(Verdict, Timestamp),
    /// What was leased is spent, and there is no more for a while.
    Held(Verdict),
    /// The estimate says so; it is not counted yet.
    Estimated(Verdict),
}

/// Which way each charge of a request goes, in their order.
pub(super) type Plan = SmallVec<[Way; 4]>;

/// What one worker decides without the store.
#[derive(Debug)]
pub(super) struct Here {
    pub(super) leases: leased::Ledger,
    accounts: write_back::Ledger,
    /// What the accounts had lost, and forgotten, when it was last asked for.
    told_losses: [u64; 2],
}

impl Here {
    /// The store may have to wait so long for what was counted here.
    pub(super) fn new(interval: Span) -> Self {
        Self {
            leases: leased::Ledger::new(MAX_KEYS),
            accounts: write_back::Ledger::new(MAX_KEYS, interval),
            told_losses: [0; 2],
        }
    }

    /// Units that the accounts have lost, and forgotten, since this was last
    /// asked for.
    pub(super) fn new_losses(&mut self) -> [u64; 2] {
        let losses = [self.accounts.lost_units(), self.accounts.forgotten_units()];
        let before = std::mem::replace(&mut self.told_losses, losses);
        [losses[0] - before[0], losses[1] - before[1]]
    }

    /// Which way the charges go. Leased units are spent already. `now` is the
    /// store's time, as it is wherever it is asked for in here.
    pub(super) fn plan(&mut self, charges: &[Charge<'_>], now: Timestamp) -> Plan {
        charges.iter().map(|charge| self.way(charge, now)).collect()
    }

    fn way(&mut self, charge: &Charge<'_>, now: Timestamp) -> Way {
        match charge.terms.mode {
            StoreMode::Leased if leased::Ledger::leases(charge.algorithm) => {
                match self.leases.spend(charge, now) {
                    Spending::Spent(verdict) => Way::Spent(verdict, now),
                    Spending::Held(verdict) => Way::Held(verdict),
                    Spending::Ask(ask) => Way::Ask(lease(charge, ask)),
                }
            }
            StoreMode::WriteBack if write_back::Ledger::counts(charge.algorithm) => {
                Way::Estimated(self.accounts.judge(charge, now))
            }
            _ => Way::Ask(codec::Ask::Take(charge.cost)),
        }
    }

    /// Withdraws what was planned for a request that is refused.
    pub(super) fn withdraw(
        &mut self,
        charge: &Charge<'_>,
        way: Way,
        now: Timestamp,
    ) -> Option<Answer> {
        let verdict = match way {
            Way::Ask(_) => return None,
            Way::Spent(spent, at) => self.leases.put_back(charge, at, now).unwrap_or(spent),
            Way::Estimated(verdict) if verdict.admitted => self.accounts.peek(charge, now),
            Way::Held(verdict) | Way::Estimated(verdict) => verdict,
        };
        Some(Answer::of_store(verdict))
    }

    /// Counts what was planned for a request that is admitted. There are
    /// `ledgers` like this one on all nodes together.
    pub(super) fn count(
        &mut self,
        charge: &Charge<'_>,
        way: Way,
        ledgers: u64,
        now: Timestamp,
    ) -> Option<Answer> {
        let verdict = match way {
            Way::Ask(_) => return None,
            Way::Estimated(verdict) if verdict.admitted => {
                self.accounts.count(charge, ledgers, now)
            }
            Way::Spent(verdict, _) | Way::Held(verdict) | Way::Estimated(verdict) => verdict,
        };
        Some(Answer::of_store(verdict))
    }

    /// Corrects what was counted, as far as it is known here. Returns what the
    /// store must correct. There are `ledgers` as in [`Self::count`].
    pub(super) fn correct(
        &mut self,
        charge: &Charge<'_>,
        op: Op,
        ledgers: u64,
        now: Timestamp,
    ) -> Option<Op> {
        match charge.terms.mode {
            StoreMode::Leased => {
                self.leases.corrected(charge.key, op, now);
                Some(op)
            }
            StoreMode::WriteBack if write_back::Ledger::counts(charge.algorithm) => {
                self.accounts.correct(charge, op, ledgers, now)
            }
            StoreMode::WriteBack | StoreMode::Exact => Some(op),
        }
    }

    /// Takes note of what the store did for a leased charge.
    pub(super) fn leased(
        &mut self,
        charge: &Charge<'_>,
        lease: codec::Lease,
        before: Option<&State>,
        at: Timestamp,
    ) -> Verdict {
        let codec::Lease { extra, reserve, share, .. } = lease;
        let ask = leased::Ask { extra, reserve, share_1024: share };
        self.leases.answered(charge, ask, before, at)
    }

    /// What the store is to be told now.
    pub(super) fn deltas(&mut self, now: Timestamp) -> Vec<Delta> {
        self.accounts.due(now, MAX_DELTAS)
    }

    /// Whether there is something that the store is to be told now.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.accounts.next_due().is_some_and(|due| due <= now)
    }

    /// What became of what the store was told.
    pub(super) fn told(&mut self, delta: Delta, outcome: Told<'_>, now: Timestamp) {
        match outcome {
            Told::Counted(before, at) => self.accounts.answered(&delta, before, at),
            Told::Never => self.accounts.not_sent(delta, now),
            Told::Perhaps => self.accounts.lost(&delta, now),
        }
    }

    /// All that the store should know before a worker ends.
    pub(super) fn close(&mut self, now: Timestamp) -> (Vec<leased::Return>, Vec<Delta>) {
        (self.leases.close(now), self.accounts.close(now))
    }
}

/// What became of what the store was told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told<'s> {
    /// It counted it, in this state, at this time.
    Counted(Option<&'s State>, Timestamp),
    /// It certainly did not.
    Never,
    /// That is not known.
    Perhaps,
}

impl Way {
    /// Whether the request is refused for it without asking anybody.
    pub(super) fn refuses(self) -> bool {
        match self {
            Self::Ask(_) => false,
            Self::Spent(verdict, _) | Self::Held(verdict) | Self::Estimated(verdict) => {
                !verdict.admitted
            }
        }
    }
}

/// A charge that nobody was asked for, because another one refuses the request.
pub(super) fn unasked(charge: &Charge<'_>, now: Timestamp) -> Answer {
    let (_, verdict) = charge.algorithm.apply(None, Op::Peek, now);
    Answer { verdict: Verdict { admitted: true, ..verdict }, source: Source::Unasked }
}

fn lease(charge: &Charge<'_>, ask: leased::Ask) -> codec::Ask {
    let leased::Ask { extra, reserve, share_1024 } = ask;
    codec::Ask::Lease(codec::Lease { cost: charge.cost, extra, reserve, share: share_1024 })
}
