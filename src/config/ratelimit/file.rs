//! One file of the directory: a domain and its descriptors.
//!
//! It has the 16 words of envoyproxy/ratelimit. All others are mistakes. A word that stands where
//! it has no meaning is a warning, because envoyproxy/ratelimit ignores it. A word without a value
//! counts as left out.

use serde_json::{Map, Number, Value as Json};

use super::Reading;
use crate::check::rls::{Findings, Level, Place, Unit, Written, WrittenLimit};
use crate::config::node::{Entry, Node, TextSpan, Value};
use crate::config::problem::Problems;
use crate::config::{suggest, yaml};

/// All words.
const WORDS: [&str; 16] = [
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "shadow_mode",
    "quota_mode",
    "name",
    "replaces",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
const IN_FILE: &[&str] = &["domain", "descriptors"];
const IN_DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
const IN_LIMIT: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];
const IN_REPLACES: &[&str] = &["name"];

impl Reading {
    /// Adds the domain of the file with this text.
    pub fn file(&mut self, text: &str, problems: &Problems) {
        let advice = "write at least a domain";
        let Some(mut tree) = yaml::parse_advised(text, advice, problems) else { return };
        yaml::check_names(&mut tree, problems);
        let Some(root) = Fields::read(&tree, "file", IN_FILE, problems) else { return };
        let Some((domain, span)) = root.text("domain").filter(|(name, _)| !name.is_empty()) else {
            root.error(tree.span, "the file has no domain", "like domain: edge");
            return;
        };
        if self.levels.contains_key(domain) && !self.merge {
            let message = format!("another file is about the domain {domain:?} too");
            problems.error(span, &message, "rename it, or set envoy: { merge_domains: true }");
            return;
        }
        let level = self.levels.entry(domain.into()).or_default();
        root.descriptors(level, &format!("{domain}."));
    }
}

/// The fields of one map.
#[derive(Clone, Copy)]
struct Fields<'f> {
    entries: &'f [Entry],
    problems: &'f Problems,
}

impl<'f> Fields<'f> {
    /// The fields of `node`, which has a meaning for these words.
    fn read(
        node: &'f Node,
        what: &str,
        known: &[&'static str],
        problems: &'f Problems,
    ) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            let message = format!("expected a {what}, found {}", node.kind());
            problems.error(node.span, &message, &format!("its fields are: {}", known.join(", ")));
            return None;
        };
        for entry in entries {
            let name = entry.name();
            let span = entry.key.span;
            if !WORDS.contains(&name) {
                let message = format!("\"{name}\" is not a word of a {what}");
                let known = known.iter().copied();
                let advice = suggest::advice(name, known, "its words are", problems);
                problems.error(span, &message, &advice);
            } else if !known.contains(&name) {
                let message = format!("\"{name}\" has no effect in a {what}");
                let advice = format!("a {what} has: {}", known.join(", "));
                problems.warning(span, &message, &advice);
            }
        }
        Some(Self { entries, problems })
    }

    fn error(&self, span: TextSpan, message: &str, advice: &str) {
        self.problems.error(span, message, advice);
    }

    /// The value of a field that has one.
    fn value(&self, name: &str) -> Option<&'f Node> {
        let value = self.entries.iter().find(|entry| entry.name() == name).map(|it| &it.value);
        value.filter(|node| !matches!(node.value, Value::Null))
    }

    /// A text, which may be written as a number, or as true or false.
    fn text(&self, name: &str) -> Option<(&'f str, TextSpan)> {
        let node = self.value(name)?;
        let text = node.scalar();
        if text.is_none() {
            let message = format!("\"{name}\" is {}", node.kind());
            self.error(node.span, &message, "write a single value");
        }
        Some((text?, node.span))
    }

    /// Whether the field is true. As in YAML 1.1, there are other words for it.
    fn is_set(&self, name: &str) -> bool {
        let Some((text, span)) = self.text(name) else { return false };
        match &*text.to_ascii_lowercase() {
            "true" | "yes" | "on" | "y" => true,
            "false" | "no" | "off" | "n" => false,
            _ => {
                let message = format!("\"{name}\" is true or false");
                self.error(span, &message, "write true or false");
                false
            }
        }
    }

    fn list(&self, name: &str) -> &'f [Node] {
        match self.value(name) {
            None => &[],
            Some(Node { value: Value::List(items), .. }) => items,
            Some(node) => {
                let message = format!("\"{name}\" is {}", node.kind());
                self.error(node.span, &message, "write a list");
                &[]
            }
        }
    }

    /// Adds the descriptors of the map to `level`. `above` is the path to them.
    fn descriptors(&self, level: &mut Level, above: &str) {
        for node in self.list("descriptors") {
            if let Some(fields) = Self::read(node, "descriptor", IN_DESCRIPTOR, self.problems) {
                fields.descriptor(node.span, level, above);
            }
        }
    }

    /// Adds a descriptor, which is written at `span`, with those below it.
    fn descriptor(&self, span: TextSpan, level: &mut Level, above: &str) {
        let key = self.text("key");
        let limit_node = self.value("rate_limit");
        let limit_fields =
            limit_node.and_then(|node| Self::read(node, "rate_limit", IN_LIMIT, self.problems));
        let replaced = limit_fields.map(|fields| fields.replaced()).unwrap_or_default();
        let limit = limit_fields.and_then(|fields| fields.limit(&replaced));
        let key_span = key.map_or(span, |(_, span)| span);
        let limit_span = limit_node.map_or(span, |node| node.span);
        let unit = limit_fields.and_then(|it| it.value("unit"));
        let found = Found {
            problems: self.problems,
            descriptor: span,
            key: key_span,
            limit: limit_span,
            unit: unit.map_or(limit_span, |node| node.span),
            replaced: &replaced,
            above,
        };
        let written = Written {
            key: key.map_or("", |(key, _)| key),
            value: self.text("value").map_or("", |(value, _)| value),
            limit,
            shadow: self.is_set("shadow_mode"),
            quota: self.is_set("quota_mode"),
            detailed_metric: self.is_set("detailed_metric"),
            value_to_metric: self.is_set("value_to_metric"),
            share_threshold: self.is_set("share_threshold"),
            metadata: self.metadata(),
        };
        let name = Level::name(written.key, written.value);
        written.add(level, &found, |below| self.descriptors(below, &format!("{above}{name}.")));
    }

    /// The limit with these fields, which replaces the limits of these names.
    fn limit(&self, replaced: &[(&'f str, TextSpan)]) -> Option<WrittenLimit<'f>> {
        let unlimited = self.is_set("unlimited");
        let unit = self.text("unit").map(|(name, _)| Unit::of_name(name).ok_or(name.into()));
        let requests = self.text("requests_per_unit").filter(|_| !unlimited);
        let requests = requests.map(|(text, span)| self.requests(text, span));
        Some(WrittenLimit {
            unit,
            requests: match requests {
                None => None,
                // The mistake is reported.
                Some(number) => Some(number?),
            },
            unlimited,
            name: self.text("name").map_or("", |(name, _)| name),
            replaces: replaced.iter().map(|(name, _)| *name).collect(),
        })
    }

    fn requests(&self, text: &str, span: TextSpan) -> Option<u32> {
        let parsed = text.replace('_', "").parse();
        if parsed.is_err() {
            let message = format!("{text:?} is not a number of requests");
            self.error(span, &message, &format!("write a number from 0 to {}", u32::MAX));
        }
        parsed.ok()
    }

    /// The names of the limits that the limit replaces, with their positions.
    fn replaced(&self) -> Vec<(&'f str, TextSpan)> {
        let name = |node| {
            let fields = Self::read(node, "replaced limit", IN_REPLACES, self.problems)?;
            Some(fields.text("name").unwrap_or(("", node.span)))
        };
        self.list("replaces").iter().filter_map(name).collect()
    }

    fn metadata(&self) -> Map<String, Json> {
        let Some(node) = self.value("metadata") else { return Map::new() };
        match json(node) {
            Json::Object(map) => map,
            _ => {
                let message = format!("\"metadata\" is {}", node.kind());
                self.error(node.span, &message, "write a map");
                Map::new()
            }
        }
    }
}

/// Takes what is found in a descriptor, and where its parts are written.
struct Found<'f> {
    problems: &'f Problems,
    descriptor: TextSpan,
    key: TextSpan,
    limit: TextSpan,
    unit: TextSpan,
    replaced: &'f [(&'f str, TextSpan)],
    above: &'f str,
}

impl Found<'_> {
    fn span(&self, place: Place) -> TextSpan {
        match place {
            Place::Descriptor => self.descriptor,
            Place::Key => self.key,
            Place::Limit => self.limit,
            Place::Unit => self.unit,
            Place::Replaced(index) => self.replaced[index].1,
        }
    }
}

impl Findings for Found<'_> {
    fn error(&self, place: Place, message: &str, advice: &str) {
        self.problems.error(self.span(place), message, advice);
    }

    fn warning(&self, place: Place, message: &str, advice: &str) {
        self.problems.warning(self.span(place), message, advice);
    }

    fn above(&self) -> String {
        self.above.to_owned()
    }
}

/// Any value. Numbers become floating point numbers, as the protocol has no others.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null | Value::Unresolved => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(written) => {
            let number = written.replace('_', "").parse().ok().and_then(Number::from_f64);
            number.map_or_else(|| Json::String(written.clone()), Json::Number)
        }
        Value::Text(text) => Json::String(text.value.clone()),
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(entries) => {
            entries.iter().map(|it| (it.name().to_owned(), json(&it.value))).collect()
        }
    }
}
