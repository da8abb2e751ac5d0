//! The rules as a whole: the documented examples, and random trees against a model.

mod examples;
mod model;

use std::collections::HashMap;

use smallvec::SmallVec;
use tollgate_core::algorithm::{Op, Retry, Verdict};
use tollgate_core::digest::{Principal, Secret};
use tollgate_core::policy::Mode;
use tollgate_core::time::{Span, Timestamp};

use super::*;

/// Counters of windows that are aligned to the epoch, and rules that count on them.
struct Service {
    domains: Domains,
    switches: Switches,
    counters: HashMap<(Principal, u64, u64), u64>,
    now: Timestamp,
}

/// One descriptor, in the form of a test.
type Asked<'q> = (&'q [(&'q str, &'q str)], Option<(u32, Unit)>, Hits);

impl Service {
    fn new(domains: Domains) -> Self {
        let switches = Switches::default();
        let now = Timestamp::from_micros(1_790_000_000_500_000);
        Self { domains, switches, counters: HashMap::new(), now }
    }

    /// The answer to a request with these descriptors.
    fn ask<T>(
        &mut self,
        domain: &str,
        asked: &[Asked<'_>],
        see: impl FnOnce(&Plan<'_>, &Answer<'_>) -> T,
    ) -> T {
        let descriptors: Vec<Descriptor<'_>> = asked.iter().map(descriptor).collect();
        let secret = Secret::from_bytes([7; 16]);
        let domains = &self.domains;
        let switches = self.switches;
        let plan = Rules { domains, switches, secret }.plan(domain, &descriptors);
        let counters = &mut self.counters;
        let counted: Vec<Counted> =
            plan.slots.iter().map(|slot| count(counters, slot, self.now)).collect();
        see(&plan, &answer(&plan, &counted, switches, self.now))
    }

    /// The codes of single requests with one hit: whether each is over its limit.
    fn over(&mut self, domain: &str, entries: &[(&str, &str)], times: usize) -> Vec<bool> {
        let asked = [(entries, None, Hits::Add(1))];
        (0..times).map(|_| self.ask(domain, &asked, |_, answer| answer.is_over)).collect()
    }
}

fn descriptor<'q>((entries, instead, hits): &Asked<'q>) -> Descriptor<'q> {
    let entries: SmallVec<_> = entries.iter().map(|&(key, value)| Entry { key, value }).collect();
    let instead = instead.map(|(requests, unit)| Override { requests, unit });
    Descriptor { entries, instead, hits: *hits }
}

/// Charges one slot.
fn count(
    counters: &mut HashMap<(Principal, u64, u64), u64>,
    slot: &Slot,
    now: Timestamp,
) -> Counted {
    let algorithm = &slot.policy.algorithm;
    let limit = algorithm.limit();
    let window_us = algorithm.window().as_micros();
    let window = now.as_micros() / window_us;
    let count = counters.entry((slot.principal, slot.policy.counter.bits(), window)).or_default();
    match slot.hits {
        Hits::Add(hits) => *count += hits,
        Hits::GiveBack(hits) => *count = count.saturating_sub(hits),
    }
    let end = Span::from_micros((window + 1) * window_us - now.as_micros());
    let admitted = *count <= limit;
    let verdict = Verdict {
        admitted,
        limit,
        remaining: limit.saturating_sub(*count),
        retry: if admitted { Retry::Now } else { Retry::After(end) },
        reset_after: if *count > 0 { end } else { Span::ZERO },
        delay: Span::ZERO,
    };
    Counted::Judged(verdict)
}

/// A node with a limit.
fn node(key: &str, value: &str, requests: u32, unit: Unit) -> Node {
    let rule = Some(Rule::new(Amount::PerUnit(requests, unit)));
    Node { key: key.into(), value: value.into(), rule, ..Node::default() }
}

/// A node with others below it, and without a limit.
fn above(key: &str, value: &str, below: impl IntoIterator<Item = Node>) -> Node {
    Node { key: key.into(), value: value.into(), below: level(below), ..Node::default() }
}

fn level(nodes: impl IntoIterator<Item = Node>) -> Level {
    let mut level = Level::default();
    nodes.into_iter().for_each(|node| level.add(node).unwrap());
    level
}

fn service(domain: &str, nodes: impl IntoIterator<Item = Node>) -> Service {
    Service::new(Domains::new([(domain.into(), level(nodes))]))
}
