//! Counters that Redis could not tell apart.
//!
//! In a state a counter is called by three bytes of its digest, and in the field
//! of a single key's limit a policy by four. Two that are called alike would be
//! one. Of two hundred counters two are called alike in one of 840 configurations.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Compiler;
use crate::config::model::Config;
use crate::config::node::Span;
use crate::config::raw::RawConfig;
use crate::policy::Policy;

impl Compiler<'_> {
    /// Finds policies whose counters Redis would take for one.
    pub(super) fn check_counters(&self, raw: &RawConfig, config: &Config) {
        if config.store.redis.is_none() {
            return;
        }
        let (mut counters, mut overrides) = (HashMap::new(), HashMap::new());
        for policy in &config.policies {
            let stored = policy.counters().map(|counter| u64::from(counter.stored()));
            let limits = policy.overrides.iter().map(|it| it.kept_as.bits() >> 32);
            let other = first_taken(&mut counters, policy, stored)
                .or_else(|| first_taken(&mut overrides, policy, limits));
            if let Some(other) = other {
                self.report_alike(raw, policy, other);
            }
        }
    }

    fn report_alike(&self, raw: &RawConfig, policy: &Policy, other: &Policy) {
        let entries = raw.policies.value().map_or(&[][..], |entries| &entries.0);
        let written = entries.iter().find(|(name, _)| *name.value == *policy.name);
        let place = written.map_or(Span::FILE, |(name, _)| name.span);
        let message = format!(
            "the policies \"{}\" and \"{}\" would share a counter in Redis: by their names and windows \
             it cannot tell them apart",
            other.name, policy.name
        );
        let advice = "give one of them another name; what it has counted starts again";
        self.problems.error(place, &message, advice);
    }
}

/// The policy that has one of these already, if there is one.
fn first_taken<'p>(
    taken: &mut HashMap<u64, &'p Policy>,
    policy: &'p Policy,
    names: impl Iterator<Item = u64>,
) -> Option<&'p Policy> {
    let mut first = None;
    for name in names {
        match taken.entry(name) {
            Entry::Vacant(entry) => drop(entry.insert(policy)),
            Entry::Occupied(entry) => first = first.or(Some(*entry.get())),
        }
    }
    first
}
