//! Charges the counters of a plan.

use std::sync::Arc;
use std::time::Instant;

use tollgate_core::decision::{Decision, KnownClaim, MAX_POLICIES, Report, Ruling};
use tollgate_core::policy::{LimitChoice, Policy};
use tollgate_core::store::Source;

use crate::check::grpc::framing::Failed;
use crate::check::rls::{Counted, Hits, Plan, Slot};
use crate::gateway::Gateway;

/// Charges counters.
#[derive(Clone, Copy, Debug)]
pub struct Charging<'g> {
    pub gateway: &'g Gateway,
    /// When the client stops waiting.
    pub until: Option<Instant>,
    /// Whether the policies are those of the configuration, whose decisions are counted.
    pub is_native: bool,
}

impl Charging<'_> {
    /// The answers to all slots of the plan, in their order.
    ///
    /// # Errors
    /// If more counters are to be judged together than one decision can have.
    pub async fn all(self, plan: &Plan<'_>) -> Result<Vec<Counted>, Failed> {
        let (alone, together): (Vec<usize>, Vec<usize>) =
            (0..plan.slots.len()).partition(|index| plan.slots[*index].is_alone);
        let is_repeated = together.iter().any(|index| plan.slots[*index].round > 0);
        if together.len() > MAX_POLICIES || is_repeated {
            let message =
                format!("at most {MAX_POLICIES} counters, each one once, can be judged together");
            return Err(Failed::invalid(message));
        }
        let mut counted = vec![Counted::Unlimited; plan.slots.len()];
        self.judge(plan, &together, false, &mut counted).await;
        // The slots are in the order of their rounds, and a round has each counter once.
        let mut rest = &alone[..];
        while let Some(first) = rest.first() {
            let round = plan.slots[*first].round;
            let in_round = |index: &&usize| plan.slots[**index].round == round;
            let len = rest.iter().take(MAX_POLICIES).take_while(in_round).count();
            let (now, later) = rest.split_at(len);
            self.judge(plan, now, true, &mut counted).await;
            rest = later;
        }
        Ok(counted)
    }

    /// Charges the slots with these indexes, and writes the answers.
    async fn judge(
        self,
        plan: &Plan<'_>,
        indexes: &[usize],
        counts_all: bool,
        counted: &mut [Counted],
    ) {
        if indexes.is_empty() {
            return;
        }
        let slots = || indexes.iter().map(|index| &plan.slots[*index]);
        for slot in slots() {
            if let Hits::GiveBack(cost) = slot.hits {
                self.gateway.engine().give_back_known(KnownClaim { cost, ..claim(slot) });
            }
        }
        let claims = slots().map(claim);
        let decision = self.gateway.engine().judge_known(claims, counts_all, self.until).await;
        if self.is_native {
            self.gateway.decided(&decision);
        }
        for index in indexes {
            counted[*index] = answer(&decision, &plan.slots[*index]);
        }
    }
}

/// What a slot charges.
fn claim(slot: &Slot) -> KnownClaim<'_> {
    KnownClaim {
        policy: &slot.policy,
        client: slot.principal,
        limit: LimitChoice::Own,
        instead: slot.instead.clone(),
        cost: slot.hits.added(),
    }
}

/// The answer to a slot. A key without a limit has no report.
fn answer(decision: &Decision<&Arc<Policy>>, slot: &Slot) -> Counted {
    let is_own = |report: &&Report<&Arc<Policy>>| {
        report.client == slot.principal && Arc::ptr_eq(report.policy, &slot.policy)
    };
    match decision.reports.iter().find(is_own) {
        None => Counted::Unlimited,
        Some(report) => match (report.source, report.ruling) {
            (Source::Unasked, _) => Counted::Unasked,
            (_, Ruling::FailedOpen) => Counted::FailedOpen,
            (_, Ruling::FailedClosed) => Counted::FailedClosed,
            _ => Counted::Judged(report.verdict),
        },
    }
}
