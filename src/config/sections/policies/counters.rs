//! Policies whose counters Redis could not distinguish.
//!
//! In a state, three bytes of its digest identify a counter. In the field of a limit of a single
//! key, four bytes identify a policy. Two that have the same bytes would be one. With two hundred
//! counters, this happens in one of 840 configurations.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tollgate_core::policy::Policy;

use super::RawPolicy;
use crate::config::field::{Entries, Field};
use crate::config::model::Config;
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;

/// Reports policies of `config` whose counters Redis would mix up.
pub fn check(raw: &Field<Entries<RawPolicy>>, config: &Config, cx: &Context<'_>) {
    if config.store.redis.is_none() {
        return;
    }
    let mut counters = HashMap::new();
    let mut overrides = HashMap::new();
    for policy in &config.policies {
        let stored = policy.counters().map(|counter| u64::from(counter.stored()));
        let limits = policy.overrides.iter().map(|it| it.kept_as.bits() >> 32);
        let other = first_taken(&mut counters, policy, stored)
            .or_else(|| first_taken(&mut overrides, policy, limits));
        if let Some(other) = other {
            let message = format!(
                "the policies \"{}\" and \"{}\" would share a counter in Redis: it cannot \
                 distinguish their names and windows",
                other.name, policy.name
            );
            let advice = "give one of them another name; its counters then start again";
            cx.error(span_of(raw, policy), &message, advice);
        }
    }
}

/// Where the name of a policy is written.
pub fn span_of(raw: &Field<Entries<RawPolicy>>, policy: &Policy) -> TextSpan {
    let written = raw.entries().iter().find(|(name, _)| *name.value == *policy.name);
    written.map_or(TextSpan::FILE, |(name, _)| name.span)
}

/// The policy that has one of these identifiers already, if there is one.
fn first_taken<'p>(
    taken: &mut HashMap<u64, &'p Policy>,
    policy: &'p Policy,
    identifiers: impl Iterator<Item = u64>,
) -> Option<&'p Policy> {
    let mut first = None;
    for identifier in identifiers {
        match taken.entry(identifier) {
            Entry::Vacant(entry) => drop(entry.insert(policy)),
            Entry::Occupied(entry) => first = first.or(Some(*entry.get())),
        }
    }
    first
}
