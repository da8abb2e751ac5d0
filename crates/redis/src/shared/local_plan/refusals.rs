//! What the ledgers of this node know of the waits of a request that is refused.

use tollgate_core::algorithm::{Retry, Verdict};
use tollgate_core::consistency::StoreMode;
use tollgate_core::store::Charge;
use tollgate_core::time::{Span, Timestamp};

use super::{LocalLedgers, Planned, leased, write_back};

/// What is known of a charge of a request that is refused anyway.
pub(crate) enum Standing {
    /// The answer holds at the moment.
    Known,
    /// This is the verdict at the moment.
    Told(Verdict),
    /// The store must be asked, or has been asked.
    Unknown,
}

impl LocalLedgers {
    /// What this node's ledgers know of a charge of a request that is refused for `wait`: the
    /// verdict must hold on any of `nodes` nodes after that.
    pub(crate) fn standing(
        &self,
        charge: &Charge<'_>,
        planned: Planned,
        wait: Span,
        nodes: u64,
        now: Timestamp,
    ) -> Standing {
        match planned {
            // The ledger of leases keeps a refusal for a short time only, and a ban ends when
            // it ends.
            Planned::Cached(verdict) if !has_account(charge) && !verdict.admitted => {
                Standing::Known
            }
            // Other nodes do not have the units of the lease.
            Planned::Spent(..) => {
                let ledgers = self.shard(charge.key).ledgers.lock();
                match nodes == 1 && ledgers.leases.lasts(charge, now.plus(wait)) {
                    true => Standing::Known,
                    false => Standing::Unknown,
                }
            }
            _ => self.told(charge, now).map_or(Standing::Unknown, Standing::Told),
        }
    }

    /// The verdict of a charge's account, if it has one, on a request that is refused anyway.
    /// None if it may not hold at the moment.
    pub(crate) fn told(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Verdict> {
        let mut verdict = None;
        self.of_account(charge, |accounts| verdict = accounts.told(charge, now));
        verdict
    }

    /// Whether this node has counted units of this counter that the store may not know.
    pub(crate) fn owes(&self, charge: &Charge<'_>) -> bool {
        let mut owes = false;
        self.of_account(charge, |accounts| owes = accounts.owes(&charge.key));
        owes
    }

    /// Makes the report of this charge due, because the store is asked for its state.
    pub(crate) fn hasten(&self, charge: &Charge<'_>, now: Timestamp) {
        if has_account(charge) {
            self.shard(charge.key).with(|ledgers| ledgers.accounts.hasten(charge, now));
        }
    }
}

/// Gives a refused charge the least wait that holds on all nodes: one that leases units does
/// not ask the store for a cost for some milliseconds after it was refused.
pub(crate) fn lengthen(charge: &Charge<'_>, verdict: &mut Verdict) {
    let is_leased = matches!(charge.consistency.mode, StoreMode::Leased)
        && leased::Ledger::leases(charge.algorithm);
    if is_leased && !verdict.admitted {
        verdict.retry = verdict.retry.max(Retry::After(leased::LEAST_WAIT));
    }
}

/// Whether this node counts the charge and reports it later.
pub(crate) const fn has_account(charge: &Charge<'_>) -> bool {
    matches!(charge.consistency.mode, StoreMode::WriteBack)
        && write_back::Ledger::counts(charge.algorithm)
}
