//! Limits beside the policy's own: what is admitted beyond it, plans, and the elastic limit.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::fault::{Faults, name_fault};
use super::key::check_plan_source;
use super::{ElasticSpec, Facts, Field, LimitSpec, PlanSpec, PlansSpec, PolicySpec, Remark};
use crate::algorithm::Algorithm;
use crate::policy::{Elastic, KeyExpr, Plan, Plans};
use crate::time::Span;

/// The most plans of one policy. Each request with a plan is compared with all of them.
const MAX_PLANS: usize = 64;

/// No upstream answers in less than a millisecond. One that needs more than ten minutes is broken.
const LATENCY: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(600);

/// The units of another limit that uses the counters of `own`. `whose` names that limit in
/// messages, and `others` names the limit of `own`.
fn same_window(
    limit: LimitSpec,
    field: Field,
    own: &Algorithm,
    [whose, others]: [&str; 2],
    faults: &Faults,
) -> Option<u64> {
    if limit.window() == own.window() {
        return Some(limit.units());
    }
    let message = format!("{whose} counts in another window than {others}");
    let advice = if own.window().is_zero() {
        "they share their counters: leave out the time, like 20"
    } else {
        "they share their counters: write the same time after the count"
    };
    faults.error(field, message, advice);
    None
}

impl PolicySpec {
    /// `own` with the units that are admitted beyond it, if there are any.
    pub(super) fn soft(&self, own: &Algorithm, faults: &Faults) -> Option<Algorithm> {
        let percent = self.soft.copied().filter(|percent| *percent > 0)?;
        if percent > 100 {
            let advice = "write a percentage from 0% to 100%";
            faults.error(Field::Soft, "\"soft\" is out of range", advice);
            return None;
        }
        let beyond = own.capacity() * u64::from(percent) / 100;
        if beyond == 0 {
            let message = "this share of the limit is less than one unit, and admits nothing";
            faults.warning(Field::Soft, message, "write a higher percentage, or leave it out");
            return None;
        }
        faults.valid(own.with_capacity(own.capacity() + beyond), Field::Soft)
    }

    /// The plans. `own` is the algorithm of the policy.
    pub(super) fn plans(
        &self,
        own: Option<&Algorithm>,
        facts: &Facts<'_>,
        faults: &Faults,
    ) -> Option<Plans> {
        let PlansSpec { from, limits } = self.plans.given()?;
        let message = "the plans have no \"from\"";
        let from = faults.required(from, Field::Plans, message, "like from: jwt:plan");
        let message = "the plans have no \"limits\"";
        let advice = "like limits: { pro: 1000/minute, internal: unlimited }";
        let limits = faults.required(limits, Field::Plans, message, advice);
        if let Some(from) = from {
            check_plan_source(from, facts.has, faults);
        }
        if limits.is_some_and(|limits| !(1..=MAX_PLANS).contains(&limits.len())) {
            let message = format!("a policy must have from 1 to {MAX_PLANS} plans");
            faults.error(Field::PlanLimits, message, "");
        }
        let mut names = HashSet::new();
        let compiled = limits?.iter().enumerate().filter_map(|(index, plan)| {
            let remarks = name_fault(&plan.name, "plan")
                .into_iter()
                .chain(from.and_then(|from| plan.location_fault(from)));
            remarks.for_each(|remark| faults.add(Field::PlanName(index), remark));
            if plan.limit.is_given() && !names.insert(&plan.name) {
                let message = format!("there are two plans \"{}\"", plan.name);
                faults.error(Field::PlanName(index), message, "remove or rename one of them");
            }
            Some((plan.name.as_str().into(), self.plan(index, plan, own, faults)?))
        });
        let limits = compiled.collect();
        Some(Plans { from: from?.clone(), limits })
    }

    fn plan(
        &self,
        index: usize,
        plan: &PlanSpec,
        own: Option<&Algorithm>,
        faults: &Faults,
    ) -> Option<Plan> {
        let Some(limit) = plan.limit.copied()? else { return Some(Plan::Unlimited) };
        let field = || Field::PlanLimit(index);
        let whose = format!("the plan \"{}\"", plan.name);
        let own = own?;
        let others = if self.is_unlimited() { "the first plan" } else { "the policy's own" };
        let units = same_window(limit, field(), own, [&whose, others], faults)?;
        let algorithm = faults.valid(own.with_limit(units), field())?;
        let soft = self.soft(&algorithm, faults);
        self.warn_of_cost(soft.as_ref().unwrap_or(&algorithm), &whose, field(), faults);
        Some(Plan::Limited { algorithm, soft })
    }
}

impl PlanSpec {
    /// If a location chooses the plan, the names of the plans are locations.
    fn location_fault(&self, from: &KeyExpr) -> Option<Remark> {
        let is_location = || self.name.parse().is_ok_and(|code| from.can_be(&code));
        (from.is_place() && !is_location()).then(|| {
            Remark::new(format!("no client has the plan \"{}\"", self.name), from.place_form())
        })
    }
}

impl ElasticSpec {
    /// The higher limit. `own` is the algorithm of the policy.
    pub(super) fn compile(&self, own: Option<&Algorithm>, faults: &Faults) -> Option<Elastic> {
        let message = "the elastic limit has no \"limit\"";
        let advice = "write the higher one, like limit: 300/minute";
        faults.required(&self.limit, Field::Elastic, message, advice);
        let message = "the elastic limit has no \"when\"";
        let advice = "like when: { upstream_latency_below: 200ms }";
        let when = faults.required(&self.when, Field::Elastic, message, advice);
        let beyond = own.and_then(|own| self.beyond(own, faults));
        let when = when?;
        if when.latency_below.is_absent() && when.in_flight_below_percent.is_absent() {
            faults.error(Field::When, "the elastic limit has no condition", advice);
        }
        let share = when.in_flight_below_percent.copied();
        if share == Some(0) {
            let message = "fewer requests than 0% are never in progress";
            let advice = "write a percentage above 0%, like 50%";
            faults.error(Field::InFlightBelow, message, advice);
        }
        Some(Elastic {
            latency_below: faults.duration(&when.latency_below, Field::LatencyBelow, LATENCY),
            in_flight_below_percent: share,
            beyond: beyond?,
        })
    }

    /// What is admitted beyond the limit of `own`.
    fn beyond(&self, own: &Algorithm, faults: &Faults) -> Option<Algorithm> {
        let limit = self.limit.copied()?;
        let names = ["the elastic limit", "the policy's own"];
        let units = same_window(limit, Field::ElasticLimit, own, names, faults)?;
        let beyond = units.checked_sub(own.limit()).filter(|beyond| *beyond > 0);
        if beyond.is_none() {
            let message = "the elastic limit is not above the policy's own";
            faults.error(Field::ElasticLimit, message, "write a higher one");
        }
        faults.valid(own.with_limit(beyond?), Field::ElasticLimit)
    }
}
