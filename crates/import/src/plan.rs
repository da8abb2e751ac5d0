//! The `gateway.yaml` that is made: its sections, the names in them, and its text.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use crate::files::Place;
use crate::kind::Kind;
use crate::out::{self, Map, Value};
use crate::secret;

/// The longest name.
const MAX_NAME: usize = 100;

/// A section whose items have names.
#[derive(Debug, Default)]
pub struct Named {
    items: Vec<(String, Place, Map)>,
    taken: HashSet<String>,
    /// The names of items by what they are and what is in them.
    known: HashMap<(String, String), String>,
    /// The last number behind a name.
    numbers: HashMap<String, u32>,
}

impl Named {
    /// Adds an item, and returns its name: the wish, or the wish with a number.
    pub fn add(&mut self, wish: &str, place: Place, item: Map) -> String {
        let base = name_of(wish);
        let mut name = base.clone();
        while !self.taken.insert(name.clone()) {
            let number = self.numbers.entry(base.clone()).or_insert(1);
            *number += 1;
            name = format!("{base}-{number}");
        }
        self.items.push((name.clone(), place, item));
        name
    }

    /// The same, but an equal item with the same wish is used again.
    pub fn shared(&mut self, wish: &str, place: Place, item: Map) -> String {
        let identity = (wish.to_owned(), out::flow(&Value::Map(item.clone())));
        if let Some(name) = self.known.get(&identity) {
            return name.clone();
        }
        let name = self.add(wish, place, item);
        self.known.insert(identity, name.clone());
        name
    }
}

/// A name without characters that a name cannot have.
fn name_of(wish: &str) -> String {
    let name: String = wish
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .take(MAX_NAME)
        .collect();
    match name.trim_matches('-') {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    }
}

/// What is made.
#[derive(Debug, Default)]
pub struct Plan {
    /// The section `listeners`.
    pub listeners: Vec<(Place, Map)>,
    /// The section `client`.
    pub client: Map,
    /// The section `access`.
    pub access: Named,
    /// The section `upstreams`.
    pub upstreams: Named,
    /// The section `policies`.
    pub policies: Named,
    /// The section `routes`.
    pub routes: Vec<(Place, Map)>,
    /// Other sections.
    pub others: Map,
    /// The domains of `check.grpc`, with their rules.
    pub domains: Vec<(String, Vec<(Place, Map)>)>,
    variables: Vec<(String, String)>,
    /// The names of variables by their beginning and what they hold.
    known_variables: HashMap<(String, String), String>,
    /// The last number behind the beginning of a variable.
    numbers: HashMap<String, u32>,
}

impl Plan {
    /// A reference to a variable that holds a secret, which `what` describes.
    pub fn variable(&mut self, name: &str, what: &str) -> String {
        let base = secret::variable(name);
        let identity = (base.clone(), what.to_owned());
        let name = match self.known_variables.get(&identity) {
            Some(name) => name.clone(),
            None => {
                let number = self.numbers.entry(base.clone()).or_insert(0);
                *number += 1;
                let name = if *number == 1 { base } else { format!("{base}_{number}") };
                self.known_variables.insert(identity, name.clone());
                self.variables.push((name.clone(), what.to_owned()));
                name
            }
        };
        format!("${{{name}}}")
    }

    /// The variables, with what they hold.
    pub fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }

    /// A route without an upstream here: to the old server, or a fixed answer.
    pub fn rest(&mut self, rest: Option<&str>, route: &mut Map) {
        match rest {
            Some(url) => {
                let endpoints = Map::default().with("endpoints", vec![url]);
                let name = self.upstreams.shared("rest", Place::default(), endpoints);
                route.put("upstream", name);
            }
            None => route.put("respond", Map::default().with("status", 501)),
        }
    }

    /// A last route to the old server, for the requests that no other route has.
    pub fn others_to(&mut self, url: &str) {
        let mut route = Map::default().with("path", "/*");
        self.rest(Some(url), &mut route);
        self.routes.push((Place::default(), route));
    }

    /// Why a gateway has no use for it, if so. The report says what became of each construct.
    pub fn lack(&self) -> Option<String> {
        if let Some((name, _)) = self.domains.iter().find(|(_, rules)| rules.is_empty()) {
            let why = format!("the domain {name} has no limit that can be taken: see envoy_config");
            return Some(why);
        }
        let is_empty = self.routes.is_empty() && self.domains.is_empty();
        is_empty.then(|| "no route of these files can be taken".to_owned())
    }

    /// The text of the file. Of the files that were read, the first ones are named in its title.
    pub fn text(&self, kind: Kind, names: &[String], first: usize) -> String {
        let title: Vec<&str> = names.iter().take(first).map(String::as_str).collect();
        let mut text = format!("# Made by `tollgate import {kind}` from {}\n", title.join(", "));
        let write = Writer { names };
        write.list("listeners", &self.listeners, &mut text);
        if !self.client.is_empty() {
            text.push_str("\nclient:\n");
            for (name, value) in &self.client.0 {
                out::item(&format!("{}: ", out::scalar(name)), value, &mut text);
            }
        }
        write.named("access", &self.access, &mut text);
        write.named("policies", &self.policies, &mut text);
        write.list("routes", &self.routes, &mut text);
        write.named("upstreams", &self.upstreams, &mut text);
        write.domains(&self.domains, &mut text);
        for (name, value) in &self.others.0 {
            let _ = write!(text, "\n{}: {}\n", out::scalar(name), out::flow(value));
        }
        text
    }
}

struct Writer<'a> {
    names: &'a [String],
}

impl Writer<'_> {
    fn list(&self, name: &str, items: &[(Place, Map)], text: &mut String) {
        if items.is_empty() {
            return;
        }
        let _ = write!(text, "\n{name}:\n");
        let mut last = None;
        for (place, item) in items {
            self.comment(*place, &mut last, text);
            out::item("- ", &Value::Map(item.clone()), text);
        }
    }

    fn named(&self, name: &str, section: &Named, text: &mut String) {
        if section.items.is_empty() {
            return;
        }
        let _ = write!(text, "\n{name}:\n");
        let mut last = None;
        for (name, place, item) in &section.items {
            self.comment(*place, &mut last, text);
            out::item(&format!("{}: ", out::scalar(name)), &Value::Map(item.clone()), text);
        }
    }

    /// The listener for Envoy's rate limit service. It has the address of the original. As the original
    /// does, it answers every client that can reach it.
    fn domains(&self, domains: &[(String, Vec<(Place, Map)>)], text: &mut String) {
        if domains.is_empty() {
            return;
        }
        text.push_str("\ncheck:\n  grpc:\n    address: \"0.0.0.0:8081\"\n");
        text.push_str("    trust: [0.0.0.0/0, \"::/0\"]\n    domains:\n");
        for (name, rules) in domains {
            let _ = writeln!(text, "      {}:", out::scalar(name));
            let mut last = None;
            for (place, rule) in rules {
                let mut lines = String::new();
                self.comment(*place, &mut last, &mut lines);
                out::item("- ", &Value::Map(rule.clone()), &mut lines);
                for line in lines.lines() {
                    let _ = writeln!(text, "      {line}");
                }
            }
        }
    }

    /// Where an item comes from, unless the item before it says so.
    fn comment(&self, place: Place, last: &mut Option<Place>, text: &mut String) {
        if *last == Some(place) {
            return;
        }
        *last = Some(place);
        let name = usize::try_from(place.file).ok().and_then(|at| self.names.get(at));
        if let (Some(name), 1..) = (name, place.line) {
            let _ = writeln!(text, "  # {name}:{}", place.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_of_few_characters() {
        let mut named = Named::default();
        assert_eq!(named.add("a b/ü", Place::default(), Map::default()), "a-b");
        assert_eq!(named.add("a b", Place::default(), Map::default()), "a-b-2");
        assert_eq!(named.add("", Place::default(), Map::default()), "unnamed");
        let item = Map::default().with("key", "ip");
        assert_eq!(named.shared("x", Place::default(), item.clone()), "x");
        assert_eq!(named.shared("x", Place::default(), item), "x");
        assert_eq!(named.shared("x", Place::default(), Map::default()), "x-2");
    }

    #[test]
    fn each_secret_has_a_variable_of_its_own() {
        let mut plan = Plan::default();
        assert_eq!(plan.variable("x-api-key", "one"), "${X_API_KEY}");
        assert_eq!(plan.variable("x-api-key", "one"), "${X_API_KEY}");
        assert_eq!(plan.variable("x-api-key", "two"), "${X_API_KEY_2}");
    }
}
