//! From a specification to the policy that judges requests.

use super::fault::{Faults, name_fault};
use super::{Compiled, CostSpec, Facts, Field, LimitSpec, PolicySpec};
use crate::consistency::{Consistency, StoreMode};
use crate::policy::{Cost, Overridable, Policy, Preflights};

impl PolicySpec {
    /// The policy, and all that is wrong with its specification.
    pub fn compile(&self, facts: &Facts<'_>) -> Compiled {
        let faults = Faults::default();
        let policy = self.in_units(facts, &faults).policy(facts, &faults);
        Compiled { policy, faults: faults.into_vec() }
    }

    fn policy(&self, facts: &Facts<'_>, faults: &Faults) -> Option<Policy> {
        if let Some(remark) = name_fault(&self.name, "policy") {
            faults.add(Field::Name, remark);
        }
        let message = format!("the policy \"{}\" has no \"limit\"", self.name);
        faults.required(&self.limit, Field::Name, &message, "like limit: 100/minute");
        self.check_key(facts, faults);
        self.check_combinations(faults);
        self.check_unlimited(faults);
        let consistency = self.consistency(facts, faults);
        self.advise_exactness(consistency, facts, faults);
        let overrides = self.overridable(facts, faults);
        let counted = self.counted_limit();
        let is_unlimited = self.is_unlimited();
        let counts = !is_unlimited || counted.is_some();
        let algorithm = self.counting(counted, faults);
        let own = algorithm.as_ref();
        let limiting = own.filter(|_| !is_unlimited);
        let soft = limiting.and_then(|own| self.soft(own, faults));
        let elastic = self.elastic.given().and_then(|elastic| elastic.compile(own, faults));
        let within = soft.as_ref().or(limiting);
        let beyond = elastic.as_ref().map(|elastic| &elastic.beyond);
        let admitting = within.into_iter().chain(beyond).max_by_key(|it| it.capacity());
        if let Some(admitting) = admitting {
            self.warn_of_cost(admitting, "the limit", Field::Limit, faults);
        }
        let plans = self.plans(own, facts, faults);
        let warn = self.warn(faults);
        let penalty = self.penalty.given().and_then(|penalty| penalty.compile(faults));
        let cost = self.cost(facts.has, faults);
        let count = self.counted(faults);
        let key = self.key.given()?.clone();
        let base = match counts {
            true => Policy { is_unlimited, ..Policy::new(&self.name, key, algorithm?) },
            false => Policy::unlimited(&self.name, key),
        };
        let cost = cost.unwrap_or(Cost::Fixed(1));
        let base = Policy { cost, ..base };
        let counter = base.identity(&base.algorithm);
        let policy = Policy {
            missing_key: self.missing_key.copied().unwrap_or_default(),
            exempt: self.exempt.clone(),
            response: self.response.given().cloned(),
            asks_usage: self.asks_usage(),
            counter,
            count,
            mode: self.mode,
            soft,
            plans,
            penalty,
            elastic,
            warn,
            consistency,
            overrides,
            ..base
        };
        Some(match self.counts_preflights {
            true => Policy { preflights: Preflights::Counted, ..policy },
            false => policy.sparing_preflights(),
        })
    }

    /// Whether the answers to its requests must state their tokens.
    fn asks_usage(&self) -> bool {
        matches!(self.cost.given(), Some(CostSpec::Reserve { asks_usage: true, .. }))
    }

    /// How a shared store keeps the counters.
    fn consistency(&self, facts: &Facts<'_>, faults: &Faults) -> Consistency {
        if !facts.shares_store {
            for field in [Field::StoreMode, Field::OnStoreFailure] {
                if self.is_given(&field) {
                    let name = field.name();
                    let message =
                        format!("\"{name}\" has no effect: the counters are in memory alone");
                    faults.warning(field, message, "name a server: store: { redis: { url: ... } }");
                }
            }
        }
        let mode = self.store_mode.copied().unwrap_or(facts.usual_mode);
        let on_failure = self.on_store_failure.copied().unwrap_or_default();
        match self.kind().filter(|kind| kind.rules().is_always_exact) {
            None => Consistency { mode, on_failure },
            Some(kind) => {
                if self.store_mode.copied().is_some_and(|mode| mode != StoreMode::Exact) {
                    let message =
                        format!("this has no effect: the algorithm {kind} is always exact");
                    let advice = "leave it out, or choose another algorithm";
                    faults.warning(Field::StoreMode, message, advice);
                }
                Consistency { mode: StoreMode::Exact, on_failure }
            }
        }
    }

    /// Set if single keys may have limits of their own.
    fn overridable(&self, facts: &Facts<'_>, faults: &Faults) -> Option<Overridable> {
        if self.overrides && !facts.keeps_overrides {
            let message = "overrides cannot be kept anywhere";
            let advice = "name a file, like store: { overrides: { path: overrides.redb } }, or \
                          count in Redis";
            faults.error(Field::Overrides, message, advice);
        }
        let soft = self.soft.copied().unwrap_or_default();
        let made = || match self.prices() {
            Some(prices) => Overridable::of_money(&self.name, prices.denomination, soft),
            None => Overridable::new(&self.name, soft),
        };
        self.overrides.then(made)
    }

    /// Whether the policy has no limit of its own.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limit.copied() == Some(None)
    }

    /// The limit that decides the window, and where it is written: that of the policy, or of its
    /// first plan that has one. None if the policy counts nothing, or if the limit is not known.
    pub(super) fn counted_limit(&self) -> Option<(LimitSpec, Field)> {
        match self.limit.copied()? {
            Some(limit) => Some((limit, Field::Limit)),
            None => {
                let plans = self.plans.given()?.limits.given()?;
                plans.iter().enumerate().find_map(|(index, plan)| {
                    Some((plan.limit.copied()??, Field::PlanLimit(index)))
                })
            }
        }
    }
}
