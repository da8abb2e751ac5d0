//! A descriptor as a configuration has it, and what can be wrong with it. Files and the messages of
//! an xDS server are checked here, so that they mean the same.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Amount, Duplicate, Level, Node, Rule, Unit};

/// The part of a descriptor that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole descriptor.
    Descriptor,
    /// Its key.
    Key,
    /// Its limit.
    Limit,
    /// The unit of its limit, or the limit if it has none.
    Unit,
    /// The entry with this index in the list of the limits that its limit replaces.
    Replaced(usize),
}

/// Takes what is found in one descriptor.
pub trait Findings {
    /// A mistake, and the advice.
    fn error(&self, place: Place, message: &str, advice: &str);

    /// Something that is most likely not intended.
    fn warning(&self, place: Place, message: &str, advice: &str);

    /// The names of the domain and of the descriptors above, with a dot behind each.
    fn above(&self) -> String;
}

/// A descriptor without those below it.
#[derive(Clone, Debug, Default)]
pub struct Written<'w> {
    /// Its key. An empty one is a mistake.
    pub key: &'w str,
    /// Empty: any value.
    pub value: &'w str,
    pub limit: Option<WrittenLimit<'w>>,
    pub shadow: bool,
    pub quota: bool,
    pub detailed_metric: bool,
    pub value_to_metric: bool,
    pub share_threshold: bool,
    pub metadata: Map<String, Value>,
}

/// The limit of a descriptor.
#[derive(Clone, Debug)]
pub struct WrittenLimit<'w> {
    /// None: there is no unit. The error is what stands in its place.
    pub unit: Option<Result<Unit, Cow<'w, str>>>,
    /// None: there is no number.
    pub requests: Option<u32>,
    pub unlimited: bool,
    /// It may be empty.
    pub name: &'w str,
    /// The names of the limits that it replaces.
    pub replaces: Vec<&'w str>,
}

impl Written<'_> {
    /// Adds the descriptor to `level`, with those that `below` adds below it. Mistakes go to `found`.
    pub fn add(self, level: &mut Level, found: &impl Findings, below: impl FnOnce(&mut Level)) {
        if self.key.is_empty() {
            found.error(Place::Descriptor, "the descriptor has no key", "like key: remote_address");
            return;
        }
        let mut node = Node {
            key: self.key.into(),
            value: self.value.into(),
            rule: self.rule(found),
            value_to_metric: self.value_to_metric,
            share_threshold: self.share_threshold,
            below: Level::default(),
        };
        if node.share_threshold && !self.has_wildcard() {
            let message = "only the values of a wildcard can share a threshold";
            found.error(Place::Key, message, "write a value with * in it");
        }
        below(&mut node.below);
        if let Err(Duplicate(name)) = level.add(node) {
            let message = format!("there is a second descriptor {}{name}", found.above());
            found.error(Place::Key, &message, "remove or change one of them");
        }
    }

    fn has_wildcard(&self) -> bool {
        self.key.contains('*') || self.value.contains('*')
    }

    fn rule(&self, found: &impl Findings) -> Option<Rule> {
        let limit = self.limit.as_ref()?;
        let amount = limit.amount(found);
        limit.check_replaced(found);
        Some(Rule {
            name: limit.name.into(),
            replaces: limit.replaces.iter().map(|name| Box::from(*name)).collect(),
            shadow: self.shadow,
            quota: self.quota,
            detailed_metric: self.detailed_metric,
            metadata: self.metadata.clone(),
            ..Rule::new(amount?)
        })
    }
}

impl WrittenLimit<'_> {
    fn amount(&self, found: &impl Findings) -> Option<Amount> {
        if self.unlimited {
            if let Some(Ok(_)) = self.unit {
                let message = "an unlimited limit has no unit";
                found.error(Place::Unit, message, "remove one of them");
            }
            return Some(Amount::Unlimited);
        }
        let unit = match &self.unit {
            Some(Ok(unit)) => *unit,
            other => {
                let message = match other {
                    Some(Err(text)) => format!("{text:?} is not a unit"),
                    _ => "the limit has no unit".to_owned(),
                };
                let names = Unit::ALL.map(Unit::name).join(", ");
                found.error(Place::Unit, &message, &format!("one of: {names}"));
                return None;
            }
        };
        if self.requests.is_none() {
            let advice = "write requests_per_unit, or unlimited: true";
            found.warning(Place::Limit, "the limit is 0, so that no request passes", advice);
        }
        Some(Amount::PerUnit(self.requests.unwrap_or(0), unit))
    }

    fn check_replaced(&self, found: &impl Findings) {
        for (index, name) in self.replaces.iter().enumerate() {
            let place = Place::Replaced(index);
            if name.is_empty() {
                found.error(place, "the replaced limit has no name", "like name: per-client");
            } else if *name == self.name {
                found.error(place, "a limit cannot replace itself", "name another one");
            }
        }
    }
}
