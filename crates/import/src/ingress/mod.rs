//! ingress-nginx: Ingress objects, their annotations, and the ConfigMap of the controller.
//!
//! Sources: the documentation of ingress-nginx, and its template of nginx at dbb11b9.

mod backends;
mod cors;
mod limits;
mod objects;
mod paths;
mod routes;
mod settings;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Files, Unreadable};
use crate::job::Job;
use crate::node::Node;
use crate::notes::Notes;
use crate::plan::Plan;
use limits::Annotations;
use objects::{Objects, namespace, objects};
use routes::{Draft, Reader, write};
use settings::Settings;
use table::ANNOTATIONS;

/// The beginning of the annotations of the controller.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// Reads the files.
///
/// # Errors
/// If one is no YAML, or there is no Ingress.
pub fn read(files: &Files, job: &Job, notes: &mut Notes) -> Result<Plan, Unreadable> {
    let objects = objects(files, notes)?;
    let mut plan = Plan::default();
    let settings = Settings::read(&objects.settings, &mut plan, notes);
    let aliases = aliases(&objects);
    let patterns = hosts_with_patterns(&objects, &aliases);
    let mut earlier: BTreeSet<String> = BTreeSet::new();
    let mut drafts: Vec<Draft> = Vec::new();
    for ingress in &objects.ingresses {
        let annotations = annotations(ingress, notes);
        if is_canary(ingress) {
            continue;
        }
        let namespace = namespace(ingress);
        let mut reader = Reader {
            ingress,
            namespace: &namespace,
            own: &annotations,
            objects: &objects,
            settings: &settings,
            patterns: &patterns,
            aliases: &aliases,
            earlier: &earlier,
            nodes: job.nodes,
            plan: &mut plan,
            notes,
        };
        drafts.extend(reader.drafts());
        earlier.extend(hosts(ingress).map(str::to_owned));
    }
    write(drafts, &mut plan, notes);
    Ok(plan)
}

/// The annotations of the controller. Those of other programs are needless here.
fn annotations<'a>(ingress: &'a Node, notes: &mut Notes) -> Annotations<'a> {
    let mut own = Vec::new();
    for (name, node) in ingress.at(&["metadata", "annotations"]).fields() {
        match name.strip_prefix(PREFIX) {
            Some(name) => {
                if crate::table::survey(ANNOTATIONS, name, node.place, notes) {
                    own.push((name, node));
                }
            }
            None => notes.needless(name, node.place, "an annotation of another program"),
        }
    }
    Annotations(own)
}

/// An annotation of the controller, or an empty text.
fn annotation<'a>(ingress: &'a Node, name: &str) -> &'a str {
    let annotations = ingress.at(&["metadata", "annotations"]);
    annotations.get(&format!("{PREFIX}{name}")).text().unwrap_or_default()
}

/// Whether an Ingress is a canary. It has no hosts and no paths of its own: its requests go to the
/// Ingress that it is a canary of.
fn is_canary(ingress: &Node) -> bool {
    annotation(ingress, "canary") == "true"
}

/// The Ingresses with hosts and paths of their own.
fn primary(objects: &Objects) -> impl Iterator<Item = &Node> {
    objects.ingresses.iter().filter(|it| !is_canary(it))
}

/// The hosts of the rules of an Ingress.
fn hosts(ingress: &Node) -> impl Iterator<Item = &str> {
    let rules = ingress.at(&["spec", "rules"]).items();
    rules.iter().map(|rule| rule.str("host"))
}

/// The other names of hosts. They have all paths of their host, whichever Ingress has these. A name
/// belongs to one host, and a host of a rule is no other name.
fn aliases(objects: &Objects) -> BTreeMap<String, Vec<String>> {
    let mut known: BTreeSet<String> = primary(objects).flat_map(hosts).map(str::to_owned).collect();
    let mut aliases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ingress in primary(objects) {
        let Some(host) = hosts(ingress).find(|host| !host.is_empty()) else { continue };
        for alias in settings::list(annotation(ingress, "server-alias")) {
            if known.insert(alias.clone()) {
                aliases.entry(host.to_owned()).or_default().push(alias);
            }
        }
    }
    aliases
}

/// The hosts whose paths are all regular expressions, because an Ingress of theirs says so.
fn hosts_with_patterns(
    objects: &Objects,
    aliases: &BTreeMap<String, Vec<String>>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for ingress in primary(objects) {
        let has_target = !annotation(ingress, "rewrite-target").is_empty();
        if has_target || annotation(ingress, "use-regex") == "true" {
            for host in hosts(ingress) {
                found.insert(host.to_owned());
                found.extend(aliases.get(host).into_iter().flatten().cloned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_each_name_once() {
        assert!(crate::table::has_each_name_once(ANNOTATIONS));
        assert!(crate::table::has_each_name_once(table::SETTINGS));
    }
}
