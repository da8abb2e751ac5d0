//! The counters that a request uses, each one once.
//!
//! A request may name one counter several times, and a store charges each counter once at a time.
//! If descriptors are counted alone, the counter is charged in several rounds, so that each
//! descriptor is told what it would be told in a request of its own. From a certain number of
//! rounds on, and if the request is judged as a whole, the hits are added, and all descriptors of
//! the counter are told the same.

use std::sync::Arc;

use serde_json::{Map, Value};
use smallvec::SmallVec;
use tollgate_core::algorithm::{Algorithm, FixedWindow, Quota, SlidingWindow, Verdict};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Principal, Secret};
use tollgate_core::policy::{KeyExpr, Mode, OverrideLimit, Policy};

use super::tree::Found;
use super::{Amount, Descriptor, Domains, Hits, Override, Series, Unit};

/// The most rounds in which hits are added to one counter.
const MAX_ROUNDS: usize = 16;

/// The first value of the digest of a counter's owner. The digest of a policy's key begins with a
/// tag below 32, and this one with the length of this text, so they are never equal.
const DIGESTED_FIRST: &[u8] = b"a descriptor of envoyproxy/ratelimit";

/// The settings that change all rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// No request is refused.
    pub shadow: bool,
    /// All limits are in quota mode.
    pub quota: bool,
    /// A domain may be spread over several files.
    pub merge_domains: bool,
    /// Responses contain the descriptors, and the metadata of the rules.
    pub metadata: bool,
    /// Windows slide, instead of beginning at full units.
    pub sliding: bool,
    /// A request counts on all of its limits, or on none.
    pub together: bool,
    /// How exact the counters are that nodes share, and what happens without their store.
    pub consistency: Consistency,
}

/// The rules under which requests are planned.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'d> {
    pub domains: &'d Domains,
    pub switches: Switches,
    /// The secret of the counters' names.
    pub secret: Secret,
}

/// What limits one descriptor.
#[derive(Clone, Debug)]
pub enum Matched<'d> {
    /// Nothing.
    None,
    /// A rule without a limit.
    Unlimited,
    /// A limit.
    Limited(Limited<'d>),
}

/// The limit of one descriptor.
#[derive(Clone, Debug)]
pub struct Limited<'d> {
    pub requests: u32,
    /// None: the window of the limit is no unit.
    pub unit: Option<Unit>,
    /// The name of the limit. It may be empty.
    pub name: &'d str,
    /// Whether the descriptor is never over its limit, for the client.
    pub is_shadow: bool,
    /// Whether the request is over this limit only together with all others of this kind.
    pub is_quota: bool,
    /// What the response says if the descriptor is within the limit.
    pub metadata: Option<&'d Map<String, Value>>,
    /// The labels in metrics.
    pub series: Arc<Series>,
}

/// The charge of one counter.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The limit.
    pub policy: Arc<Policy>,
    /// The owner of the counter.
    pub principal: Principal,
    /// The limit instead of that of the policy.
    pub instead: Option<OverrideLimit>,
    /// Whether it is judged alone, and counted even if it is over the limit. All others are
    /// judged together, and counted only if none of them is over its limit. Limits in shadow or
    /// quota mode refuse none of them.
    pub is_alone: bool,
    /// All hits of its descriptors.
    pub hits: Hits,
    /// It is charged when all slots of lower rounds have been that are alone too. Those that are
    /// not alone are charged first.
    pub round: usize,
    /// The indexes of its descriptors, in their order.
    pub descriptors: SmallVec<[usize; 2]>,
}

/// The answer of a store to a slot.
#[derive(Clone, Copy, Debug)]
pub enum Counted {
    /// The verdict on the hits. What remains is that after them.
    Judged(Verdict),
    /// The client has no limit.
    Unlimited,
    /// The store is not available, and such hits are admitted.
    FailedOpen,
    /// The store is not available, and such hits are refused.
    FailedClosed,
    /// The counter was not asked, because another limit refuses the request.
    Unasked,
}

/// What a request counts.
#[derive(Clone, Debug)]
pub struct Plan<'d> {
    /// What limits each descriptor.
    pub matched: SmallVec<[Matched<'d>; 4]>,
    /// The hits of each descriptor.
    pub hits: SmallVec<[Hits; 4]>,
    /// The charges, by their rounds.
    pub slots: SmallVec<[Slot; 4]>,
}

impl<'d> Rules<'d> {
    /// The plan for a request. The result does not depend on what was counted before.
    pub fn plan(&self, domain: &str, descriptors: &[Descriptor<'_>]) -> Plan<'d> {
        let found: SmallVec<[_; 4]> =
            descriptors.iter().map(|it| self.domains.search(domain, &it.entries)).collect();
        let replaced = replaced(descriptors, &found);
        let mut plan = Plan {
            matched: SmallVec::new(),
            hits: descriptors.iter().map(|it| it.hits).collect(),
            slots: SmallVec::new(),
        };
        for (index, (descriptor, found)) in descriptors.iter().zip(&found).enumerate() {
            let matched = self.matched(domain, descriptor, found.as_ref());
            let matched = match matched {
                Matched::Limited(it) if replaced.contains(&it.name) => Matched::None,
                other => other,
            };
            if let Matched::Limited(limited @ Limited { requests: 1.., unit: Some(unit), .. }) =
                &matched
            {
                let found = found.as_ref().filter(|_| descriptor.instead.is_none());
                let policy = self.policy(domain, limited, *unit);
                plan.add(self.slot(domain, descriptor, policy, found), index);
            }
            plan.matched.push(matched);
        }
        plan.slots.sort_by_key(|slot| slot.round);
        plan
    }

    /// What limits a descriptor, before limits are replaced.
    fn matched(
        &self,
        domain: &str,
        descriptor: &Descriptor<'_>,
        found: Option<&Found<'d>>,
    ) -> Matched<'d> {
        if let Some(Override { requests, unit }) = descriptor.instead {
            if !self.domains.contains(domain) {
                return Matched::None;
            }
            let mut series = Series::builder();
            descriptor.entries.iter().for_each(|it| series.level_of_request(it.key, it.value));
            return Matched::Limited(Limited {
                requests,
                unit: Some(unit),
                name: "",
                is_shadow: false,
                is_quota: false,
                metadata: None,
                series: Arc::new(series.finish()),
            });
        }
        let Some(found) = found else { return Matched::None };
        let rule = found.rule;
        let Amount::PerUnit(requests, unit) = rule.amount else { return Matched::Unlimited };
        Matched::Limited(Limited {
            requests,
            unit: Some(unit),
            name: &rule.name,
            is_shadow: rule.shadow,
            is_quota: rule.quota,
            metadata: (!rule.metadata.is_empty()).then_some(&rule.metadata),
            series: found.series(&descriptor.entries),
        })
    }

    /// The charge of a descriptor with a limit above 0.
    fn slot(
        &self,
        domain: &str,
        descriptor: &Descriptor<'_>,
        policy: Arc<Policy>,
        found: Option<&Found<'_>>,
    ) -> Slot {
        let mut digest = self.secret.digest();
        digest.value(DIGESTED_FIRST);
        digest.value(domain.as_bytes());
        let mut shared = found.into_iter().flat_map(Found::shared);
        for entry in &descriptor.entries {
            let pattern = shared.next().flatten();
            digest.value(entry.key.as_bytes());
            // A value is never equal to a pattern.
            digest.value(if pattern.is_some() { b"shared" } else { b"" });
            digest.value(pattern.unwrap_or(entry.value).as_bytes());
        }
        Slot {
            policy,
            principal: Principal::from_bits(digest.finish()),
            instead: None,
            is_alone: !self.switches.together,
            hits: descriptor.hits,
            round: 0,
            descriptors: SmallVec::new(),
        }
    }

    /// The policy of a limit. Its counter depends on the window and not on the limit. It enforces
    /// only a limit that refuses a request by itself: others must not prevent that the rest is
    /// counted.
    fn policy(&self, domain: &str, limited: &Limited<'_>, unit: Unit) -> Arc<Policy> {
        let quota = Quota::new(u64::from(limited.requests), unit.window())
            .expect("limits of 32 bits and units are in range");
        let algorithm = if self.switches.sliding {
            Algorithm::SlidingWindow(SlidingWindow::new(quota))
        } else {
            Algorithm::FixedWindow(FixedWindow::new(quota))
        };
        let counter = Counter::of(|digest| {
            digest.value(DIGESTED_FIRST);
            digest.value(algorithm.name().as_bytes());
            digest.value(unit.name().as_bytes());
        });
        let name = if limited.name.is_empty() { domain } else { limited.name };
        let Switches { consistency, shadow, quota, .. } = self.switches;
        let refuses = !(shadow || quota || limited.is_shadow || limited.is_quota);
        let mode = if refuses { Mode::Enforce } else { Mode::Shadow };
        let usual = Policy::new(name, KeyExpr::Global, algorithm);
        Arc::new(Policy { counter, consistency, mode, ..usual })
    }
}

/// The names of the limits that do not count for this request.
fn replaced<'d>(
    descriptors: &[Descriptor<'_>],
    found: &[Option<Found<'d>>],
) -> SmallVec<[&'d str; 4]> {
    let rules = descriptors.iter().zip(found).filter(|(it, _)| it.instead.is_none());
    let rules = rules.filter_map(|(_, found)| found.as_ref().map(|found| found.rule));
    rules.flat_map(|rule| rule.replaces.iter().map(|name| &**name)).collect()
}

impl Plan<'_> {
    /// Whether a descriptor has a limit of 0, which has no counter.
    pub fn has_limit_of_0(&self) -> bool {
        self.limits().any(|limit| limit.requests == 0)
    }

    /// Whether limits refuse the request only together.
    pub fn has_quota(&self, switches: Switches) -> bool {
        switches.quota || self.limits().any(|limit| limit.is_quota)
    }

    fn limits(&self) -> impl Iterator<Item = &Limited<'_>> {
        self.matched.iter().filter_map(|matched| match matched {
            Matched::Limited(limit) => Some(limit),
            Matched::None | Matched::Unlimited => None,
        })
    }

    /// Adds the charge of the descriptor with this index.
    pub fn add(&mut self, slot: Slot, index: usize) {
        let is_same = |it: &&mut Slot| {
            it.is_alone == slot.is_alone
                && it.principal == slot.principal
                && it.policy.counter == slot.policy.counter
        };
        let mut round = 0;
        // The last slot of the counter is the one with the highest round.
        if let Some(last) = self.slots.iter_mut().rev().find(is_same) {
            let is_last = !slot.is_alone || last.round + 1 >= MAX_ROUNDS;
            if is_last
                && last.policy.algorithm == slot.policy.algorithm
                && last.instead == slot.instead
                && let (Hits::Add(before), Hits::Add(more)) = (last.hits, slot.hits)
            {
                last.hits = Hits::Add(before + more);
                if slot.policy.mode == Mode::Enforce {
                    last.policy = slot.policy;
                }
                last.descriptors.push(index);
                return;
            }
            round = last.round + 1;
        }
        self.slots.push(Slot { round, descriptors: SmallVec::from_elem(index, 1), ..slot });
    }
}
