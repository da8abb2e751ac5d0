//! The rules in a response, or all that is wrong with it. One mistake rejects the whole response.
//!
//! Mistakes are worded as in files, because both are checked by `rls`. Their place is the name of
//! the resource with the path to the descriptor.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use prost::Message as _;

use super::exchange::TYPE_URL;
use super::messages::{Any, RateLimitConfig, RateLimitDescriptor, RateLimitPolicy};
use crate::check::rls::{Domains, Findings, Level, Place, Unit, Written, WrittenLimit};

/// The most descriptors of a response.
const MAX_DESCRIPTORS: usize = 1_000_000;
/// The most mistakes that an answer names.
const MAX_NAMED: usize = 16;
/// The longest message of a mistake, in characters: it may quote a value.
const MAX_CHARS: usize = 400;

/// What the configuration of this node says about the domains of others.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'t> {
    /// Whether several resources may be about one domain.
    pub merge: bool,
    /// The domains that the configuration itself contains.
    pub own: &'t BTreeSet<Box<str>>,
}

/// The rules of these resources.
///
/// # Errors
/// All mistakes, one in each line.
pub fn read(resources: Vec<Any>, terms: Terms<'_>) -> Result<Domains, String> {
    let mistakes = Mistakes::default();
    let mut levels = BTreeMap::<Box<str>, Level>::new();
    let mut descriptors = 0;
    for (index, resource) in resources.into_iter().enumerate() {
        let unnamed = format!("resource {}", index + 1);
        if resource.type_url != TYPE_URL {
            let message = format!("the type {:?} is not {TYPE_URL}", resource.type_url);
            mistakes.add(&unnamed, &message, "");
            continue;
        }
        let config = match RateLimitConfig::decode(resource.value) {
            Ok(config) => config,
            Err(error) => {
                mistakes.add(&unnamed, &format!("the message is malformed: {error}"), "");
                continue;
            }
        };
        descriptors += count(&config.descriptors);
        if descriptors > MAX_DESCRIPTORS {
            let message = format!("there are more than {MAX_DESCRIPTORS} descriptors");
            mistakes.add(&unnamed, &message, "");
            break;
        }
        let name = if config.name.is_empty() { unnamed } else { config.name.clone() };
        add(&config, &name, terms, &mut levels, &mistakes);
    }
    if mistakes.number.get() > 0 { Err(mistakes.text()) } else { Ok(Domains::new(levels)) }
}

/// The descriptors of this list and all below them.
fn count(descriptors: &[RateLimitDescriptor]) -> usize {
    descriptors.iter().map(|it| 1 + count(&it.descriptors)).sum()
}

/// Adds the domain of a resource, which has this name.
fn add(
    config: &RateLimitConfig,
    name: &str,
    terms: Terms<'_>,
    levels: &mut BTreeMap<Box<str>, Level>,
    mistakes: &Mistakes,
) {
    let domain = &*config.domain;
    if domain.is_empty() {
        mistakes.add(name, "the resource has no domain", "like domain: edge");
        return;
    }
    if terms.own.contains(domain) {
        let message = format!("the domain {domain:?} is in check.grpc.domains too");
        mistakes.add(name, &message, "rename one of them");
        return;
    }
    if levels.contains_key(domain) && !terms.merge {
        let message = format!("another resource is about the domain {domain:?} too");
        mistakes.add(name, &message, "rename it, or set envoy: { merge_domains: true }");
        return;
    }
    let level = levels.entry(domain.into()).or_default();
    let root = Step { above: None, index: 0, text: domain };
    add_all(&config.descriptors, &root, level, name, mistakes);
}

/// Adds these descriptors, which are below `above`.
fn add_all(
    descriptors: &[RateLimitDescriptor],
    above: &Step<'_>,
    level: &mut Level,
    resource: &str,
    mistakes: &Mistakes,
) {
    for (index, descriptor) in descriptors.iter().enumerate() {
        let name = Level::name(&descriptor.key, &descriptor.value);
        let step = Step { above: Some(above), index, text: &name };
        let found = Found { step: &step, resource, mistakes };
        written(descriptor).add(level, &found, |below| {
            add_all(&descriptor.descriptors, &step, below, resource, mistakes);
        });
    }
}

fn written(descriptor: &RateLimitDescriptor) -> Written<'_> {
    Written {
        key: &descriptor.key,
        value: &descriptor.value,
        limit: descriptor.rate_limit.as_ref().map(limit),
        shadow: descriptor.shadow_mode,
        quota: descriptor.quota_mode,
        detailed_metric: descriptor.detailed_metric,
        metadata: descriptor.metadata.clone().map(Into::into).unwrap_or_default(),
        // Messages have no words for these.
        value_to_metric: false,
        share_threshold: false,
    }
}

fn limit(policy: &RateLimitPolicy) -> WrittenLimit<'_> {
    let unit = match policy.unit {
        0 => None,
        number => Some(Unit::of_number(number).ok_or(number.to_string().into())),
    };
    WrittenLimit {
        unit,
        // Messages cannot tell 0 from an absent number, and 0 blocks.
        requests: Some(policy.requests_per_unit),
        unlimited: policy.unlimited,
        name: &policy.name,
        replaces: policy.replaces.iter().map(|it| &*it.name).collect(),
    }
}

/// One step of the path to a descriptor. The first one is the domain.
#[derive(Clone, Copy, Debug)]
struct Step<'s> {
    above: Option<&'s Step<'s>>,
    /// The index in the list of descriptors.
    index: usize,
    /// The name of the domain or the descriptor.
    text: &'s str,
}

impl Step<'_> {
    /// `descriptors[0].descriptors[3]`
    fn path(&self) -> String {
        let Some(above) = self.above else { return String::new() };
        let before = above.path();
        let dot = if before.is_empty() { "" } else { "." };
        format!("{before}{dot}descriptors[{}]", self.index)
    }

    /// The names, with a dot behind each.
    fn names(&self) -> String {
        format!("{}{}.", self.above.map(Step::names).unwrap_or_default(), self.text)
    }
}

/// Takes what is found in the descriptor at a step.
struct Found<'f> {
    step: &'f Step<'f>,
    resource: &'f str,
    mistakes: &'f Mistakes,
}

impl Findings for Found<'_> {
    fn error(&self, place: Place, message: &str, advice: &str) {
        let part = match place {
            Place::Descriptor => String::new(),
            Place::Key => ".key".to_owned(),
            Place::Limit => ".rate_limit".to_owned(),
            Place::Unit => ".rate_limit.unit".to_owned(),
            Place::Replaced(index) => format!(".rate_limit.replaces[{index}]"),
        };
        let place = format!("{}: {}{part}", self.resource, self.step.path());
        self.mistakes.add(&place, message, advice);
    }

    /// A server writes no words without effect, and there is no operator to read of them.
    fn warning(&self, _: Place, _: &str, _: &str) {}

    fn above(&self) -> String {
        self.step.above.map(Step::names).unwrap_or_default()
    }
}

/// The mistakes of a response.
#[derive(Debug, Default)]
struct Mistakes {
    named: RefCell<String>,
    number: Cell<usize>,
}

impl Mistakes {
    fn add(&self, place: &str, message: &str, advice: &str) {
        self.number.set(self.number.get() + 1);
        if self.number.get() > MAX_NAMED {
            return;
        }
        let shown = |text: &str| -> String {
            let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
            text.chars().take(MAX_CHARS).map(printable).collect()
        };
        let mut named = self.named.borrow_mut();
        let line_end = if named.is_empty() { "" } else { "\n" };
        let _ = write!(named, "{line_end}{}: error: {}", shown(place), shown(message));
        if !advice.is_empty() {
            let _ = write!(named, " ({advice})");
        }
    }

    fn text(self) -> String {
        let mut text = self.named.into_inner();
        if let Some(more) = self.number.get().checked_sub(MAX_NAMED).filter(|it| *it > 0) {
            let _ = write!(text, "\nand {more} more mistakes");
        }
        text
    }
}

#[cfg(test)]
mod tests;
