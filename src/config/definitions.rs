//! The policies of a file as they are written, which can be compiled again with other values.
//!
//! A changed policy is the written one with some fields replaced, and is compiled like the file:
//! so a change can have the same mistakes as the file, and no others.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tollgate_core::algorithm::WindowText;
use tollgate_core::policy::{Overridable, Policy};
use tollgate_core::time::{Span, Timestamp};

use super::NO_FILES;
use super::document::Document;
use super::excerpt::Excerpts;
use super::kind::{SCHEMA, belongs_to};
use super::model::Config;
use super::node::{Entry, Node, Text, TextSpan, Value};
use super::problem::Problems;
use super::progress::Progress;
use super::scalar::{Period, ScalarError};
use super::secrecy::Secrecy;
use super::sections::{Live, RawConfig};
use super::shared_sections;
use super::shown;
use super::surroundings::Surroundings;
use crate::patches::{
    CANDIDATE, ConfigIdentity, Definition, Definitions, ListDefinition, Mistake, Purpose, Values,
};

/// The policies of `config`, which was compiled from `raw`, which was read from `tree`.
/// `document` shows the whole file.
pub fn definitions(
    tree: &Node,
    document: &Document,
    raw: RawConfig,
    config: &Config,
) -> Definitions {
    let section = field(tree, "policies").cloned();
    let written: Vec<Entry> = match section.map(|section| section.value) {
        Some(Value::Map(entries)) => entries,
        _ => Vec::new(),
    };
    let by_name: HashMap<&str, &Entry> = written.iter().map(|it| (it.name(), it)).collect();
    let policies = config.policies.iter().filter_map(|policy| {
        let entry = by_name.get(&*policy.name)?;
        let policy = Arc::clone(policy);
        let written = shown::shown(&entry.value);
        Some(Definition { policy, digest: digest_of(&entry.value), written })
    });
    let policies: Vec<Definition> = policies.collect();
    drop(by_name);
    let live: Vec<Arc<Policy>> = config.policies.clone();
    let client = config.client.clone();
    let store = config.store.clone();
    let prices = config.prices.clone();
    let compile = move |name: &str, values: &Values, purpose: Purpose| {
        let find = |policy: &&Arc<Policy>| *policy.name == *name;
        let (Some(entry), Some(live)) =
            (written.iter().find(|entry| entry.name() == name), live.iter().find(find))
        else {
            return Err(vec![Mistake::new(format!("there is no policy {name:?}"), "")]);
        };
        let (changed, name) = match purpose {
            Purpose::Patch => (patched(entry, values)?, name.to_owned()),
            Purpose::Candidate => (candidate(entry, values)?, format!("{name}{CANDIDATE}")),
        };
        let problems = Problems::default();
        let around = Surroundings {
            env: &|_| None,
            directory: Path::new(""),
            now: Timestamp::default(),
            files: RefCell::default(),
            certificates: RefCell::default(),
            key_file: RefCell::default(),
            held: &NO_FILES,
            progress: &Progress::default(),
        };
        let in_use = Live { client: &client, store: &store, prices: prices.as_ref() };
        let policy = raw.compile_policy(&name, &changed, &in_use, &around, &problems);
        let policy = policy.ok_or_else(|| mistakes(problems))?;
        match purpose {
            Purpose::Patch => with_counters_of(live, policy),
            Purpose::Candidate => Ok(beside(live, policy)),
        }
    };
    let identity = ConfigIdentity {
        config: shown::digest(&document.written),
        config_sections: shared_sections::digests(&document.expanded, config),
    };
    let lists = lists(tree, config);
    Definitions::new(policies, identity, Arc::new(compile), duration).with_lists(lists)
}

/// The access lists of `config`, which was compiled from `tree`.
fn lists(tree: &Node, config: &Config) -> Vec<ListDefinition> {
    let section = field(tree, "access");
    let lists = config.access.iter().filter_map(|list| {
        let node = field(section?, &list.name)?;
        let digest = digest_of(node);
        let written = shown::shown(node);
        Some(ListDefinition { list: Arc::clone(list), digest, written })
    });
    lists.collect()
}

/// The definition with the values of a patch.
fn patched(entry: &Entry, values: &Values) -> Result<Node, Vec<Mistake>> {
    let mistake = |message: &str, help: &str| Err(vec![Mistake::new(message, help)]);
    match (values.mode.as_deref(), values.limit.as_deref()) {
        (Some("off"), _) => {
            return mistake(
                "a patch cannot switch a policy off: its routes would have to change",
                "write shadow, which counts and refuses nothing; or change the file",
            );
        }
        (_, Some("unlimited")) => {
            return mistake(
                "a patch keeps the counters of a policy, so it cannot take the limit away",
                "write \"mode\": \"shadow\", which counts and refuses nothing",
            );
        }
        _ => {}
    }
    replaced(entry.value.clone(), values)
}

/// The definition with the values of a candidate, in shadow.
fn candidate(entry: &Entry, values: &Values) -> Result<Node, Vec<Mistake>> {
    let mut node = entry.value.clone();
    if let (Some(algorithm), Value::Map(fields)) = (&values.algorithm, &mut node.value) {
        let known = &SCHEMA["$defs"]["policy"]["properties"];
        fields.retain(|field| belongs_to(&known[field.name()], algorithm));
    }
    let shadow = Values { mode: Some("shadow".to_owned()), ..values.clone() };
    replaced(node, &shadow)
}

/// A definition with other values.
pub fn replaced(mut node: Node, values: &Values) -> Result<Node, Vec<Mistake>> {
    let Values { limit, burst, soft, mode, algorithm, plans } = values;
    for (name, value) in
        [("limit", limit), ("soft", soft), ("mode", mode), ("algorithm", algorithm)]
    {
        if let Some(value) = value {
            set(&mut node, name, text(value));
        }
    }
    if let Some(burst) = burst {
        set(&mut node, "burst", at_file(Value::Number(burst.to_string())));
    }
    if plans.is_empty() {
        return Ok(node);
    }
    let limits = field_mut(&mut node, "plans").and_then(|plans| field_mut(plans, "limits"));
    let Some(limits) = limits else {
        return Err(vec![Mistake::new("the policy has no plans", "leave out \"plans\"")]);
    };
    for (name, limit) in plans {
        match field_mut(limits, name) {
            Some(present) => *present = text(limit),
            None => {
                let message = format!("the policy has no plan {name:?}");
                return Err(vec![Mistake::new(message, "name a plan that the file defines")]);
            }
        }
    }
    Ok(node)
}

/// The changed policy, if it counts as the one in the file does.
fn with_counters_of(live: &Policy, changed: Policy) -> Result<Policy, Vec<Mistake>> {
    if changed.counters().eq(live.counters()) {
        return Ok(changed);
    }
    let window = live.algorithm.window();
    let rule = match live.unit().denomination() {
        money if money != changed.unit().denomination() => match money {
            Some(money) => format!("is an amount in {}", money.currency),
            None => "is a number of units".to_owned(),
        },
        _ if window.is_zero() => "has no time, like 20".to_owned(),
        _ => format!("has the same window, {}", WindowText(window)),
    };
    let message = format!("a patch keeps the counters, so the limit {rule}");
    Err(vec![Mistake::new(message, "try another window as a candidate, or change the file")])
}

/// The candidate goes by the limits of single keys that the policy has, if both count the same units.
fn beside(live: &Policy, candidate: Policy) -> Policy {
    let is_same_unit = live.unit().denomination() == candidate.unit().denomination();
    let of_live = live.overrides.filter(|_| is_same_unit).map(|it| it.kept_as);
    let own = |it: Overridable| Some(Overridable { kept_as: of_live?, ..it });
    Policy { overrides: candidate.overrides.and_then(own), ..candidate }
}

fn mistakes(problems: Problems) -> Vec<Mistake> {
    let report = problems.report("", "", &Excerpts::default());
    let errors = report.problems().filter(|problem| !problem.is_warning);
    errors.map(|problem| Mistake::new(problem.message, problem.advice)).collect()
}

fn duration(text: &str) -> Result<Span, Mistake> {
    let mistake = |error: ScalarError| Mistake::new(error.to_string(), "");
    text.parse().map(|Period(duration)| duration.into()).map_err(mistake)
}

/// A digest of what is written. Values of `${...}` count, so that a change of one is noticed.
/// Texts that may be secret do not: others can read the digest.
fn digest_of(node: &Node) -> String {
    shown::digest(&shown::shown_expanded(node))
}

/// The field of this name of a map.
pub fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.name() == name).map(|entry| &entry.value)
}

fn field_mut<'n>(node: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    let Value::Map(entries) = &mut node.value else { return None };
    entries.iter_mut().find(|entry| entry.name() == name).map(|entry| &mut entry.value)
}

fn set(node: &mut Node, name: &str, value: Node) {
    if let Some(present) = field_mut(node, name) {
        *present = value;
    } else if let Value::Map(entries) = &mut node.value {
        entries.push(Entry { key: text(name), value });
    }
}

fn text(value: &str) -> Node {
    at_file(Value::Text(Text { value: value.to_owned(), written: None }))
}

const fn at_file(value: Value) -> Node {
    Node { value, span: TextSpan::FILE, secrecy: Secrecy::OfUrl }
}
