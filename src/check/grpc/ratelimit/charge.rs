//! Charges the counters of a plan.

use std::time::Instant;

use tollgate_limiter::decision::{KnownClaim, MAX_POLICIES, Report, Ruling};
use tollgate_limiter::policy::LimitChoice;

use crate::check::grpc::framing::Failed;
use crate::check::rls::{Counted, Hits, Plan, Slot};
use crate::gateway::Gateway;

/// The answers to all slots of the plan, in their order.
///
/// # Errors
/// If more counters are to be judged together than one decision can have.
pub(super) async fn all(
    gateway: &Gateway,
    plan: &Plan<'_>,
    deadline: Option<Instant>,
) -> Result<Vec<Counted>, Failed> {
    let together: Vec<&Slot> = plan.slots.iter().filter(|slot| !slot.is_alone).collect();
    if together.len() > MAX_POLICIES || together.iter().any(|slot| slot.round > 0) {
        let message =
            format!("at most {MAX_POLICIES} counters, each one once, can be judged together");
        return Err(Failed::invalid(message));
    }
    let mut counted = vec![Counted::FailedOpen; plan.slots.len()];
    let mut judged = judge(gateway, &together, deadline).await.into_iter();
    for (slot, counted) in plan.slots.iter().zip(&mut counted) {
        if !slot.is_alone {
            *counted = judged.next().unwrap_or(Counted::FailedOpen);
        }
    }
    for (slot, counted) in plan.slots.iter().zip(&mut counted).filter(|(slot, _)| slot.is_alone) {
        *counted = each(gateway, slot, deadline).await;
    }
    Ok(counted)
}

/// Judges these slots at once: all of them are counted, or none.
async fn judge(gateway: &Gateway, slots: &[&Slot], _deadline: Option<Instant>) -> Vec<Counted> {
    if slots.is_empty() {
        return Vec::new();
    }
    let decision = gateway.judge_known(slots.iter().map(|slot| claim(slot))).await;
    decision.reports.iter().map(counted).collect()
}

fn claim(slot: &Slot) -> KnownClaim<'_> {
    KnownClaim {
        policy: &slot.policy,
        client: slot.principal,
        limit: LimitChoice::Own,
        instead: slot.instead.clone(),
        cost: match slot.hits {
            Hits::Add(hits) => hits,
            Hits::GiveBack(_) => 0,
        },
    }
}

fn counted<P>(report: &Report<P>) -> Counted {
    match report.ruling {
        Ruling::FailedOpen => Counted::FailedOpen,
        Ruling::FailedClosed => Counted::FailedClosed,
        _ => Counted::Together(report.verdict),
    }
}

/// Charges one slot, also if it is over its limit.
async fn each(gateway: &Gateway, slot: &Slot, deadline: Option<Instant>) -> Counted {
    let counted = judge(gateway, &[slot], deadline).await;
    counted.first().copied().unwrap_or(Counted::FailedOpen)
}
