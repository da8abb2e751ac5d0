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

use std::collections::BTreeSet;

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
    let patterns = hosts_with_patterns(&objects);
    let mut drafts: Vec<Draft> = Vec::new();
    for ingress in &objects.ingresses {
        let annotations = annotations(ingress, notes);
        // The requests of a canary go to the Ingress that it is a canary of.
        let is_canary = ingress.at(&["metadata", "annotations", &format!("{PREFIX}canary")]).text();
        if is_of_another_controller(ingress, notes) || is_canary == Some("true") {
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
            nodes: job.nodes,
            plan: &mut plan,
            notes,
        };
        drafts.extend(reader.drafts());
    }
    write(drafts, &mut plan);
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

fn is_of_another_controller(ingress: &Node, notes: &mut Notes) -> bool {
    let class = ingress.at(&["spec", "ingressClassName"]);
    let annotated = ingress.at(&["metadata", "annotations", "kubernetes.io/ingress.class"]);
    let class = if class.is_null() { annotated } else { class };
    match class.text() {
        Some(name) if !name.contains("nginx") => {
            let what = format!("its class is {name}: another controller serves it");
            notes.needless("Ingress", class.place, what);
            true
        }
        _ => false,
    }
}

/// The hosts whose paths are all regular expressions, because an Ingress of theirs says so.
fn hosts_with_patterns(objects: &Objects) -> BTreeSet<String> {
    let mut hosts = BTreeSet::new();
    for ingress in &objects.ingresses {
        let annotations = ingress.at(&["metadata", "annotations"]);
        let has =
            |name: &str| annotations.get(&format!("{PREFIX}{name}")).text().map(str::to_owned);
        let is_pattern =
            has("use-regex").is_some_and(|it| it == "true") || has("rewrite-target").is_some();
        if is_pattern {
            let rules = ingress.at(&["spec", "rules"]).items();
            hosts.extend(rules.iter().map(|rule| rule.str("host").to_owned()));
        }
    }
    hosts
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
