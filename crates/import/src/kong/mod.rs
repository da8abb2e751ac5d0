//! Kong: declarative files, `_format_version` 1.1 to 3.0.
//!
//! Sources: the documentation of Kong, and its plugins at 22246ef. Kong cannot be run in the tests.

mod consumers;
mod entities;
mod limits;
mod plugins;
mod routes;
mod table;
mod upstreams;

use std::collections::{HashMap, HashSet};

use crate::files::{Files, Place, Unreadable};
use crate::job::Job;
use crate::node::documents;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use entities::Entities;
use routes::{Reader, write};

/// Reads the files.
///
/// # Errors
/// If one is no YAML, or there is no route.
pub fn read(files: &Files, job: &Job, notes: &mut Notes) -> Result<Plan, Unreadable> {
    let mut entities = Entities::default();
    for source in files.sources() {
        for document in documents(files, source)? {
            let version = document.get("_format_version");
            match version.text() {
                Some("1.1" | "2.1" | "3" | "3.0") => {
                    notes.taken("_format_version", version.place, "known");
                }
                Some(text) => {
                    return Err(files.unreadable(
                        version.place,
                        format!("_format_version {text:?} is not known"),
                    ));
                }
                None => {}
            }
            entities.add(&document, notes);
        }
    }
    if entities.routes.is_empty() {
        return Err(files.unreadable(Place::default(), "there is no route of Kong in these files"));
    }
    let mut plan = Plan::default();
    plan.listeners.push((Place::default(), Map::default().with("address", "0.0.0.0:8000")));
    // Kong counts each IPv6 address apart.
    plan.client.put("ipv6_prefix", 128);
    let mut drafts = Vec::new();
    let mut reader = Reader {
        entities: &entities,
        nodes: job.nodes,
        plan: &mut plan,
        notes,
        limits: HashMap::new(),
        used: HashSet::new(),
    };
    for route in &entities.routes {
        drafts.extend(reader.drafts(route));
    }
    let used = reader.used;
    for plugin in &entities.plugins {
        let place = plugin.node.get("name").place;
        let name = plugin.node.str("name");
        if !plugin.node.is("enabled", true) {
            notes.needless(name, place, "it is not enabled");
        } else if plugin.consumer.is_some() {
            notes.lost(name, place, "it is for one consumer: see plans and overrides of a policy");
        } else if plugin.group.is_some() {
            notes.lost(name, place, "it is for one group of consumers: see plans of a policy");
        } else if !notes.knows(name, place) && !notes.knows(plugin.kind(), place) {
            // The fields of an instance that a route has are told one by one.
            let what = match used.contains(&plugin.number) {
                true if !plugin.node.get("config").fields().is_empty() => continue,
                true => "it has no fields",
                false => "no route that is taken has it, or another instance is more specific",
            };
            notes.needless(name, place, what);
        }
    }
    for (name, service) in &entities.services {
        notes.taken("services", service.place, format!("{name}: an upstream"));
    }
    write(drafts, &mut plan);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::table::has_each_name_once;

    #[test]
    fn the_tables_have_each_name_once() {
        for rows in [
            table::FILE,
            table::SERVICE,
            table::ROUTE,
            table::UPSTREAM,
            table::PLUGIN,
            table::PLUGINS,
            table::RATE_LIMITING,
            table::ADVANCED,
            table::IP_RESTRICTION,
            table::CORS,
            table::SIZE,
            table::TERMINATION,
            table::REDIRECT,
            table::KEY_AUTH,
            table::TRANSFORMER,
        ] {
            assert!(has_each_name_once(rows));
        }
    }
}
