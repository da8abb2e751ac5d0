//! `limit: unlimited`: policies that only demand a key, or limit only some plans.

use super::Compiler;
use crate::config::field::{Field, Spanned};
use crate::config::node::Span;
use crate::config::raw::{RawMissingKey, RawPolicy};

impl Compiler<'_> {
    /// Reports what has no effect for the lack of a limit.
    pub(super) fn check_unlimited(&self, raw: &RawPolicy) {
        let Some(limit) = raw.limit.given().filter(|_| raw.is_unlimited()) else { return };
        let of_the_limit = [
            ("burst", place(&raw.burst)),
            ("elastic", place(&raw.elastic)),
            ("overrides", raw.overrides.given().filter(|given| given.value).map(|it| it.span)),
        ];
        self.without_effect(&of_the_limit, "the policy has no limit of its own");
        if raw.counted_limit().is_some() || raw.plans.is_broken() {
            return;
        }
        let of_a_count = [
            ("algorithm", place(&raw.algorithm)),
            ("buckets", place(&raw.buckets)),
            ("cost", place(&raw.cost)),
            ("count", place(&raw.count)),
            ("soft", place(&raw.soft)),
            ("plans", place(&raw.plans)),
            ("penalty", place(&raw.penalty)),
            ("response", place(&raw.response)),
            ("store_mode", place(&raw.store_mode)),
            ("on_store_failure", place(&raw.on_store_failure)),
        ];
        self.without_effect(&of_a_count, "the policy counts nothing");
        self.warn_idle(raw, limit.span);
    }

    fn without_effect(&self, fields: &[(&str, Option<Span>)], why: &str) {
        for (field, place) in fields {
            if let Some(place) = place {
                let message = format!("\"{field}\" has no effect: {why}");
                let advice = "leave it out, or write a limit, like limit: 100/minute";
                self.problems.error(*place, &message, advice);
            }
        }
    }

    /// A policy that counts nothing is there to demand its key.
    fn warn_idle(&self, raw: &RawPolicy, limit: Span) {
        let demands = match raw.missing_key.value() {
            Some(RawMissingKey::Deny | RawMissingKey::Unauthorized) => true,
            Some(RawMissingKey::Ip | RawMissingKey::Skip) | None => raw.missing_key.is_broken(),
        };
        if !demands {
            let message = "this policy neither limits nor refuses any request";
            let advice = "write missing_key: unauthorized or deny, or a limit";
            self.problems.warning(limit, message, advice);
        }
    }
}

fn place<T>(field: &Field<T>) -> Option<Span> {
    field.given().map(|Spanned { span, .. }| *span)
}
