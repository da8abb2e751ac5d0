//! The rules of all domains, and the search for the limit of a descriptor.
//!
//! Each level of a tree has nodes by name. The name is the key, or the key and the value with `_`
//! between them. For each entry of a descriptor the search takes the node that is named like the
//! entry's key and value; or else the first one in the order of the files whose name has wildcards
//! and fits them; or else the node that is named like the key alone. It never goes back to another
//! node of an upper level.
//!
//! A key with `_` in it can lead to the node of another key and value, as it does in
//! envoyproxy/ratelimit. Their counters are not the same.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::series::SeriesBuilder;
use super::{Entry, Series, Unit};
use crate::check::Wildcard;

/// The limit of a node.
#[derive(Clone, Debug)]
pub struct Rule {
    pub amount: Amount,
    /// The name that other rules can replace. It may be empty.
    pub name: Box<str>,
    /// The names of the limits that do not count for a request that has this limit too.
    pub replaces: Vec<Box<str>>,
    /// Whether it never refuses a request.
    pub shadow: bool,
    /// Whether it refuses a request only together with all other limits of this kind.
    pub quota: bool,
    /// Whether metrics have the values of its descriptors.
    pub detailed_metric: bool,
    /// What a response says about a descriptor that is within the limit.
    pub metadata: Map<String, Value>,
    /// The labels in metrics, unless they depend on the request.
    pub series: Arc<Series>,
}

/// How much a limit admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many hits in each window. With 0, every request is over the limit.
    PerUnit(u32, Unit),
    /// All.
    Unlimited,
}

impl Rule {
    /// A rule with this amount and nothing else.
    pub fn new(amount: Amount) -> Self {
        Self {
            amount,
            name: Box::default(),
            replaces: Vec::new(),
            shadow: false,
            quota: false,
            detailed_metric: false,
            metadata: Map::new(),
            series: Arc::default(),
        }
    }
}

/// One node of a tree.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub key: Box<str>,
    /// Empty: any value.
    pub value: Box<str>,
    pub rule: Option<Rule>,
    /// Whether metrics contain the value of a request.
    pub value_to_metric: bool,
    /// Whether all values that fit the wildcard share one counter.
    pub share_threshold: bool,
    /// The nodes for the next entry.
    pub below: Level,
}

impl Node {
    /// The name by which it is found.
    pub fn name(&self) -> String {
        Level::name(&self.key, &self.value)
    }
}

/// The nodes of one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    nodes: Vec<Node>,
    named: HashMap<Box<str>, usize>,
    /// The nodes with wildcards in their names, in the order of the files.
    wildcards: Vec<(Wildcard, usize)>,
}

/// The error of a second node of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate(pub String);

impl Level {
    /// The name of the node of this key and this value.
    pub fn name(key: &str, value: &str) -> String {
        if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") }
    }

    /// Adds a node behind those that were added before.
    ///
    /// # Errors
    /// If there is a node of its name.
    pub fn add(&mut self, node: Node) -> Result<(), Duplicate> {
        let name = node.name();
        if self.named.contains_key(&*name) {
            return Err(Duplicate(name));
        }
        let index = self.nodes.len();
        if name.contains('*') {
            self.wildcards.push((Wildcard::new(&name), index));
        }
        self.named.insert(name.into(), index);
        self.nodes.push(node);
        Ok(())
    }

    /// The nodes, in the order in which they were added.
    #[cfg(test)]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The number of nodes on this level and below it.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| 1 + node.below.len()).sum()
    }

    /// The node for this entry, and how it fits. `name` is a buffer.
    fn find(&self, entry: Entry<'_>, name: &mut String) -> Option<Step<'_>> {
        name.clear();
        name.extend([entry.key, "_", entry.value]);
        let step = |index: usize, fit| Step { node: &self.nodes[index], fit };
        if let Some(index) = self.named.get(&**name) {
            return Some(step(*index, Fit::Value));
        }
        if let Some((_, index)) = self.wildcards.iter().find(|(it, _)| it.matches(name)) {
            return Some(step(*index, Fit::Wildcard));
        }
        self.named.get(entry.key).map(|index| step(*index, Fit::Key))
    }

    /// The limit of a descriptor with these entries.
    fn search(&self, entries: &[Entry<'_>]) -> Option<Found<'_>> {
        let mut level = self;
        let mut name = String::new();
        let mut steps = SmallVec::new();
        for entry in entries {
            let step = level.find(*entry, &mut name)?;
            level = &step.node.below;
            steps.push(step);
        }
        let rule = steps.last().and_then(|step: &Step<'_>| step.node.rule.as_ref())?;
        Some(Found { rule, steps })
    }

    /// Writes into all rules the labels that do not depend on requests.
    fn label(&mut self, above: &mut Vec<(Box<str>, Box<str>)>) {
        for node in &mut self.nodes {
            above.push((node.key.clone(), node.value.clone()));
            if let Some(rule) = &mut node.rule {
                let mut series = Series::builder();
                above.iter().for_each(|(key, value)| series.level(key, value));
                rule.series = Arc::new(series.finish());
            }
            node.below.label(above);
            above.pop();
        }
    }
}

/// How a node fits an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// Its value is the entry's.
    Value,
    /// Its wildcard stands for the entry's value.
    Wildcard,
    /// It has no value.
    Key,
}

#[derive(Clone, Copy, Debug)]
struct Step<'d> {
    node: &'d Node,
    fit: Fit,
}

impl<'d> Step<'d> {
    /// The pattern that stands for the value of the entry in the name of the counter.
    fn shared(&self) -> Option<&'d str> {
        let is_shared = self.fit == Fit::Wildcard && self.node.share_threshold;
        is_shared.then_some(&*self.node.value)
    }

    /// Whether the label of the entry is not that of the node.
    fn is_labelled_by_value(&self) -> bool {
        self.node.value_to_metric && self.fit != Fit::Value && self.shared().is_none()
    }

    fn label(&self, entry: Entry<'_>, is_detailed: bool, series: &mut SeriesBuilder) {
        match self.shared() {
            Some(pattern) => series.level(entry.key, pattern),
            None if is_detailed || self.is_labelled_by_value() => {
                series.level_of_request(entry.key, entry.value);
            }
            None => series.level(entry.key, &self.node.value),
        }
    }
}

/// The limit of a descriptor, and the way to it.
#[derive(Clone, Debug)]
pub struct Found<'d> {
    pub rule: &'d Rule,
    /// One for each entry.
    steps: SmallVec<[Step<'d>; 4]>,
}

impl<'d> Found<'d> {
    /// For each entry the pattern that stands for its value in the name of the counter.
    pub fn shared(&self) -> impl Iterator<Item = Option<&'d str>> {
        self.steps.iter().map(Step::shared)
    }

    /// The labels in metrics of the descriptor with these entries.
    pub fn series(&self, entries: &[Entry<'_>]) -> Arc<Series> {
        let is_detailed = self.rule.detailed_metric;
        if !is_detailed && !self.steps.iter().any(Step::is_labelled_by_value) {
            return Arc::clone(&self.rule.series);
        }
        let mut series = Series::builder();
        for (step, entry) in self.steps.iter().zip(entries) {
            step.label(*entry, is_detailed, &mut series);
        }
        Arc::new(series.finish())
    }
}

/// The rules of all domains.
#[derive(Clone, Debug, Default)]
pub struct Domains(HashMap<Box<str>, Arc<Level>>);

impl Domains {
    /// The domains of these names, with their rules.
    pub fn new(domains: impl IntoIterator<Item = (Box<str>, Level)>) -> Self {
        let label = |(name, mut level): (_, Level)| {
            level.label(&mut Vec::new());
            (name, Arc::new(level))
        };
        Self(domains.into_iter().map(label).collect())
    }

    /// These domains, and those of `others` whose names are not among them.
    #[must_use]
    pub fn with_missing(&self, others: &Self) -> Self {
        let mut all = others.0.clone();
        all.extend(self.0.iter().map(|(name, level)| (name.clone(), Arc::clone(level))));
        Self(all)
    }

    /// The names of the domains.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    /// Whether there is a domain of this name.
    pub fn contains(&self, domain: &str) -> bool {
        self.0.contains_key(domain)
    }

    /// The number of nodes in all trees.
    pub fn len(&self) -> usize {
        self.0.values().map(|level| level.len()).sum()
    }

    /// The limit of a descriptor with these entries.
    pub fn search(&self, domain: &str, entries: &[Entry<'_>]) -> Option<Found<'_>> {
        self.0.get(domain)?.search(entries)
    }
}
