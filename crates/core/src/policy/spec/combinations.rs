//! Fields that contradict each other, or have no effect together.

use super::fault::Faults;
use super::{CostSpec, CountSpec, Field, PolicySpec, Written};
use crate::policy::MissingKey;

/// Fields that do not go together: one, the others, and why.
static CONFLICTS: [(Field, &[Field], &str); 3] = [
    (
        Field::Count,
        &[Field::Settle, Field::BodyBytes],
        "both would correct the count after the response",
    ),
    (Field::Elastic, &[Field::Soft], "together they would admit more than either of them allows"),
    (Field::Elastic, &[Field::Plans], "it is not clear which limit it raises"),
];

/// Fields without an effect in a policy that has no limit of its own.
static OF_THE_LIMIT: [Field; 3] = [Field::Burst, Field::Elastic, Field::Overrides];

/// Fields without an effect in a policy that counts nothing.
static OF_A_COUNT: [Field; 11] = [
    Field::Algorithm,
    Field::Buckets,
    Field::Cost,
    Field::Count,
    Field::Soft,
    Field::Plans,
    Field::Penalty,
    Field::Warn,
    Field::Response,
    Field::StoreMode,
    Field::OnStoreFailure,
];

impl PolicySpec {
    /// Whether the field has a value.
    pub(super) fn is_given(&self, field: &Field) -> bool {
        match field {
            Field::Algorithm => self.algorithm.is_given(),
            Field::Buckets => self.buckets.is_given(),
            Field::Burst => self.burst.is_given(),
            Field::MaxDelay => self.max_delay.is_given(),
            Field::Calendar => self.calendar.is_given(),
            Field::Cost => self.cost.is_given(),
            Field::BodyBytes => matches!(self.cost.given(), Some(CostSpec::Body(_))),
            Field::Settle => {
                let cost = self.cost.given();
                matches!(cost, Some(CostSpec::Reserve { settle, .. }) if settle.is_given())
            }
            Field::Count => self.count.is_given(),
            Field::StoreMode => self.store_mode.is_given(),
            Field::OnStoreFailure => self.on_store_failure.is_given(),
            Field::Soft => self.soft.is_given(),
            Field::Plans => self.plans.is_given(),
            Field::Penalty => self.penalty.is_given(),
            Field::Elastic => self.elastic.is_given(),
            Field::Warn => self.warn.is_given(),
            Field::Overrides => self.overrides,
            Field::Response => self.response.is_given(),
            _ => false,
        }
    }

    /// Whether the field has a value that is not harmless in every combination.
    fn matters(&self, field: &Field) -> bool {
        match field {
            Field::Count => matches!(self.count.given(), Some(CountSpec::Statuses { .. })),
            Field::Soft => self.soft.given().is_some_and(|percent| *percent > 0),
            _ => self.is_given(field),
        }
    }

    /// Reports fields that do not go with the algorithm or with each other.
    pub(super) fn check_combinations(&self, faults: &Faults) {
        let rules = self.kind().map(|kind| (kind, kind.rules().not_with));
        for (kind, (fields, why)) in
            rules.iter().flat_map(|(kind, rows)| rows.iter().map(move |row| (kind, row)))
        {
            for field in fields.iter().filter(|field| self.matters(field)) {
                let name = field.name();
                let message =
                    format!("\"{name}\" cannot be combined with the algorithm {kind}: {why}");
                let advice = "leave it out, or choose another algorithm";
                faults.error(field.clone(), message, advice);
            }
        }
        for (field, others, why) in CONFLICTS.iter().filter(|(field, ..)| self.matters(field)) {
            for other in others.iter().filter(|other| self.matters(other)) {
                let name = field.name();
                let other = other.name();
                let message = format!("\"{name}\" cannot be combined with \"{other}\": {why}");
                let advice = "leave one of them out, or write two policies";
                faults.error(field.clone(), message, advice);
            }
        }
    }

    /// In a policy without a limit of its own, reports fields that have no effect.
    pub(super) fn check_unlimited(&self, faults: &Faults) {
        if !self.is_unlimited() {
            return;
        }
        self.without_effect(&OF_THE_LIMIT, "the policy has no limit of its own", faults);
        if self.counted_limit().is_some() || self.has_unreadable_plan() {
            return;
        }
        self.without_effect(&OF_A_COUNT, "the policy counts nothing", faults);
        let refuses = match self.missing_key.copied() {
            Some(MissingKey::Deny | MissingKey::Unauthorized) => true,
            Some(MissingKey::Ip | MissingKey::Skip) => false,
            None => !self.missing_key.is_absent(),
        };
        if !refuses {
            let message = "this policy neither limits nor refuses any request";
            let advice = "write missing_key: unauthorized or deny, or a limit";
            faults.warning(Field::Limit, message, advice);
        }
    }

    /// Whether a plan may have a limit that cannot be read.
    fn has_unreadable_plan(&self) -> bool {
        let plans = match &self.plans {
            Written::Absent => return false,
            Written::Unreadable => return true,
            Written::Given(plans) => plans,
        };
        match &plans.limits {
            Written::Absent => false,
            Written::Unreadable => true,
            Written::Given(limits) => {
                limits.iter().any(|it| matches!(it.limit, Written::Unreadable))
            }
        }
    }

    fn without_effect(&self, fields: &[Field], why: &str, faults: &Faults) {
        for field in fields.iter().filter(|field| self.is_given(field)) {
            let message = format!("\"{}\" has no effect: {why}", field.name());
            let advice = "leave it out, or write a limit, like limit: 100/minute";
            faults.error(field.clone(), message, advice);
        }
    }
}
