//! Charges the counters of a plan.

use std::sync::Arc;
use std::time::Instant;

use tollgate_core::decision::{Decision, KnownClaim, MAX_POLICIES, Outcome, Report, Ruling};
use tollgate_core::policy::{LimitChoice, Policy};
use tollgate_core::store::Source;

use crate::check::grpc::framing::Failed;
use crate::check::rls::{self, Counted, Hits, Plan, Slot, Switches};
use crate::gateway::Gateway;

/// Charges counters.
#[derive(Clone, Copy, Debug)]
pub struct Charging<'g> {
    pub gateway: &'g Gateway,
    /// When the client stops waiting.
    pub until: Option<Instant>,
    /// Whether the policies are those of the configuration, whose decisions are counted.
    pub is_native: bool,
    /// What changes the rules of the domain.
    pub switches: Switches,
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
        if !together.is_empty() {
            self.together(plan, &together, &mut counted).await;
        }
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

    /// Charges the slots with these indexes, unless the request is over a limit: then none of them
    /// is charged. Writes the answers.
    async fn together(self, plan: &Plan<'_>, indexes: &[usize], counted: &mut [Counted]) {
        let asks = |index: &usize| is_question(&plan.slots[*index]);
        let (asking, charging): (Vec<usize>, Vec<usize>) = indexes.iter().partition(|it| asks(it));
        self.judge(plan, &asking, true, counted).await;
        let may_be_over = !asking.is_empty() || plan.has_limit_of_0();
        if may_be_over && self.is_over(plan, counted) {
            for index in charging {
                self.give_back(&plan.slots[index]);
                counted[index] = Counted::Unasked;
            }
            return;
        }
        let Some(mut decision) = self.judge(plan, &charging, false, counted).await else { return };
        // The store does not know that limits in quota mode refuse a request if all of them do.
        let is_admitted = matches!(decision.outcome, Outcome::Admit);
        if is_admitted && plan.has_quota(self.switches) && self.is_over(plan, counted) {
            self.gateway.engine().give_back_decided(&mut decision);
            for index in charging {
                if let Counted::Judged(verdict) = &mut counted[index]
                    && verdict.admitted
                {
                    let remaining = verdict.remaining + plan.slots[index].hits.added();
                    verdict.remaining = remaining.min(verdict.limit);
                }
            }
        }
    }

    /// Whether the request is over a limit by these answers. Those to come are [`Counted::Unlimited`].
    fn is_over(self, plan: &Plan<'_>, counted: &[Counted]) -> bool {
        let now = self.gateway.engine().clock().wall();
        rls::answer(plan, counted, self.switches, now).is_over
    }

    fn give_back(self, slot: &Slot) {
        if let Hits::GiveBack(cost) = slot.hits {
            self.gateway.engine().give_back_known(KnownClaim { cost, ..claim(slot) });
        }
    }

    /// Charges the slots with these indexes, and writes the answers. None: there are no slots.
    async fn judge<'p>(
        self,
        plan: &'p Plan<'_>,
        indexes: &[usize],
        counts_all: bool,
        counted: &mut [Counted],
    ) -> Option<Decision<&'p Arc<Policy>>> {
        if indexes.is_empty() {
            return None;
        }
        let slots = || indexes.iter().map(|index| &plan.slots[*index]);
        slots().for_each(|slot| self.give_back(slot));
        let claims = slots().map(claim);
        let decision = self.gateway.engine().judge_known(claims, counts_all, self.until).await;
        if self.is_native {
            self.gateway.decided(&decision);
        }
        for index in indexes {
            counted[*index] = answer(&decision, &plan.slots[*index]);
        }
        Some(decision)
    }
}

/// Whether a slot only asks whether its counter is above the limit, or above it after hits were given
/// back. A decision admits 0 hits on any counter, so they are counted alone. A decision is necessary
/// for a policy that bans clients.
fn is_question(slot: &Slot) -> bool {
    slot.hits.added() == 0 && slot.policy.penalty.is_none()
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
