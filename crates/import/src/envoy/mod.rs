//! envoyproxy/ratelimit: its files, as policies and `check.grpc.domains`. The gateway also reads these
//! files unchanged (`envoy_config`); as policies their limits can be shared with routes.
//!
//! Source: the configuration of envoyproxy/ratelimit at f2fb157.

mod descriptors;
mod table;

use crate::files::{Files, Place, Unreadable};
use crate::node::documents;
use crate::notes::Notes;
use crate::plan::Plan;
use descriptors::Reader;
use table::FILE;

/// Reads the files.
///
/// # Errors
/// If one is no YAML, or has no domain.
pub fn read(files: &Files, notes: &mut Notes) -> Result<Plan, Unreadable> {
    let mut plan = Plan::default();
    for source in files.sources() {
        for document in documents(files, source)? {
            if document.is_null() {
                continue;
            }
            let domain = document.str("domain").to_owned();
            if domain.is_empty() {
                let place = Place { file: source.file, line: document.place.line };
                return Err(files
                    .unreadable(place, "it has no domain: it is no file of envoyproxy/ratelimit"));
            }
            for (name, value) in document.fields() {
                crate::table::survey(FILE, name, value.place, notes);
            }
            notes.taken(
                "domain",
                document.get("domain").place,
                format!("check.grpc.domains: {domain}"),
            );
            let mut rules = Vec::new();
            let mut reader = Reader { domain: &domain, plan: &mut plan, notes, rules: &mut rules };
            reader.level(document.get("descriptors"), &[], 0);
            match plan.domains.iter_mut().find(|(name, _)| *name == domain) {
                Some((_, all)) => all.extend(rules),
                None => plan.domains.push((domain, rules)),
            }
        }
    }
    if plan.domains.is_empty() {
        return Err(files.unreadable(Place::default(), "there is no domain in these files"));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::table::has_each_name_once;

    #[test]
    fn the_tables_have_each_name_once() {
        for rows in [table::FILE, table::DESCRIPTOR, table::RATE_LIMIT] {
            assert!(has_each_name_once(rows));
        }
    }
}
