//! Domains whose descriptors are judged by policies of the gateway.
//!
//! The first rule that matches a descriptor judges it. A rule matches descriptors with as many
//! entries as it lists, in the same order.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, QuotaError};
use tollgate_core::digest::{Principal, Secret};
use tollgate_core::policy::{KeyExpr, Mode, OverrideLimit, Policy};

use super::plan::Limited;
use super::{Descriptor, Entry, Matched, Override, Plan, Series, Slot, Unit};

/// The first value of the digest of values that no policy has a word for. See the digest of
/// descriptors in `plan`.
const DIGESTED_FIRST: &[u8] = b"the free values of a rule for descriptors";

/// Which policy judges the descriptors that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeRule {
    pub entries: Vec<EntryMatch>,
    /// The name of the policy.
    pub policy: Box<str>,
    /// The words of the policy's key, and the entry that has the value of each. None: the values
    /// that the rule leaves free name the counter.
    pub key: Option<Vec<(KeyExpr, Box<str>)>>,
    /// Whether hits are counted even if they are over the limit.
    pub counts_always: bool,
}

/// What an entry must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryMatch {
    pub key: Box<str>,
    /// None: any value.
    pub value: Option<Box<str>>,
}

impl EntryMatch {
    fn fits(&self, entry: Entry<'_>) -> bool {
        *self.key == *entry.key && self.value.as_deref().is_none_or(|value| value == entry.value)
    }
}

/// A limit in a question that its policy cannot count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("descriptors[{index}].limit does not fit the policy {policy}: {why}")]
pub struct Misfit<'p> {
    /// The index of the descriptor.
    pub index: usize,
    /// The name of the policy.
    pub policy: &'p str,
    /// Why it cannot.
    pub why: QuotaError,
}

/// The policies of the gateway.
pub trait Policies<'p> {
    /// The policy of this name. None: it is off.
    fn policy(&self, name: &str) -> Option<&'p Arc<Policy>>;

    /// The principal of a client for the policy. `value` returns the values of the words of its
    /// key. None: no request has such a key.
    fn principal<'v>(
        &self,
        policy: &Policy,
        value: impl Fn(&KeyExpr) -> Option<&'v str>,
    ) -> Option<Principal>;
}

impl NativeRule {
    fn fits(&self, entries: &[Entry<'_>]) -> bool {
        self.entries.len() == entries.len()
            && self.entries.iter().zip(entries).all(|(it, entry)| it.fits(*entry))
    }

    /// The owner of the counter. Values that cannot be a key of the policy count as free.
    fn principal<'p>(
        &self,
        policy: &Policy,
        entries: &[Entry<'_>],
        policies: &impl Policies<'p>,
        secret: Secret,
    ) -> Principal {
        let known = self.key.as_ref().and_then(|key| {
            let value = |word: &KeyExpr| {
                let (_, name) = key.iter().find(|(own, _)| own == word)?;
                entries.iter().find(|entry| *entry.key == **name).map(|entry| entry.value)
            };
            policies.principal(policy, value)
        });
        known.unwrap_or_else(|| self.free(entries, secret))
    }

    /// The owner that the values name which the rule leaves free.
    fn free(&self, entries: &[Entry<'_>], secret: Secret) -> Principal {
        let mut digest = secret.digest();
        digest.value(DIGESTED_FIRST);
        for (it, entry) in self.entries.iter().zip(entries) {
            if it.value.is_none() {
                digest.value(entry.key.as_bytes());
                digest.value(entry.value.as_bytes());
            }
        }
        Principal::from_bits(digest.finish())
    }

    fn series(&self) -> Arc<Series> {
        let mut series = Series::builder();
        self.entries.iter().for_each(|it| series.level(&it.key, it.value.as_deref().unwrap_or("")));
        Arc::new(series.finish())
    }
}

/// The plan for a request to a domain with these rules.
///
/// # Errors
/// If the request brings along a limit that its policy cannot count. The limit of the policy does
/// not stand in for it, because it may admit more.
pub fn plan<'p>(
    rules: &'p [NativeRule],
    descriptors: &[Descriptor<'_>],
    policies: &impl Policies<'p>,
    secret: Secret,
) -> Result<Plan<'p>, Misfit<'p>> {
    let mut plan = Plan {
        matched: SmallVec::new(),
        hits: descriptors.iter().map(|it| it.hits).collect(),
        slots: SmallVec::new(),
    };
    for (index, descriptor) in descriptors.iter().enumerate() {
        let entries = &descriptor.entries;
        let rule = rules.iter().find(|rule| rule.fits(entries));
        let found = rule.and_then(|rule| Some((rule, policies.policy(&rule.policy)?)));
        let Some((rule, policy)) = found else {
            plan.matched.push(Matched::None);
            continue;
        };
        let counted = descriptor.instead.filter(|it| it.requests > 0);
        let instead = counted.map(|it| own_limit(policy, it)).transpose();
        let instead = instead.map_err(|why| Misfit { index, policy: &policy.name, why })?;
        let algorithm = instead.as_ref().map_or(&policy.algorithm, |it| &it.algorithm);
        let is_zero = descriptor.instead.is_some_and(|it| it.requests == 0);
        if policy.is_unlimited && descriptor.instead.is_none() {
            plan.matched.push(Matched::Unlimited);
            continue;
        }
        let limited = limited(rule, policy, algorithm);
        if is_zero {
            plan.matched.push(Matched::Limited(Limited { requests: 0, ..limited }));
            continue;
        }
        plan.matched.push(Matched::Limited(limited));
        let slot = Slot {
            policy: Arc::clone(policy),
            principal: rule.principal(policy, entries, policies, secret),
            instead,
            is_alone: rule.counts_always,
            hits: descriptor.hits,
            round: 0,
            descriptors: SmallVec::new(),
        };
        plan.add(slot, index);
    }
    plan.slots.sort_by_key(|slot| slot.round);
    Ok(plan)
}

/// The limit that a request brings along, as the policy counts it.
fn own_limit(
    policy: &Policy,
    Override { requests, unit }: Override,
) -> Result<OverrideLimit, QuotaError> {
    let window = unit.window_beside(policy.algorithm.window());
    policy.override_limit(requests.into(), Some(window))
}

fn limited<'p>(rule: &NativeRule, policy: &'p Policy, algorithm: &Algorithm) -> Limited<'p> {
    Limited {
        requests: u32::try_from(algorithm.limit()).unwrap_or(u32::MAX),
        unit: Unit::of_window(algorithm.window()),
        name: &policy.name,
        is_shadow: policy.mode == Mode::Shadow,
        is_quota: false,
        metadata: None,
        series: rule.series(),
    }
}
