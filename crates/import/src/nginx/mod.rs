//! nginx: `limit_req` and all that decides which requests it limits.
//!
//! Sources: the documentation of nginx, and what nginx 1.22 and 1.31 do (scripts/test-import).

mod access;
mod actions;
mod exemptions;
mod fields;
mod includes;
mod key;
pub mod keys;
mod levels;
mod limits;
mod listeners;
pub mod locations;
mod pages;
mod proxies;
mod routes;
mod servers;
mod syntax;
mod table;
mod upstreams;
pub mod values;

use crate::files::{Files, Unreadable};
use crate::job::Job;
use crate::notes::Notes;
use crate::plan::Plan;
use access::Access;
use keys::Maps;
use levels::Levels;
use limits::Limits;
use routes::Maker;
use servers::{Server, ordered};
use syntax::Directive;
use table::TABLE;
use upstreams::Upstreams;

/// Blocks that are no lists of directives, or whose directives are not taken one by one.
const CLOSED: [&str; 10] = [
    "events",
    "if",
    "limit_except",
    "stream",
    "mail",
    "types",
    "map",
    "geo",
    "upstream",
    "split_clients",
];

/// Reads the files.
///
/// # Errors
/// If nginx could not read them either, or they have no server.
pub fn read(files: &mut Files, job: &Job, notes: &mut Notes) -> Result<Plan, Unreadable> {
    let directives = includes::directives(files, notes)?;
    // Files of `conf.d` have no `http` around them.
    let (blocks, mut http): (Vec<Directive>, Vec<Directive>) =
        directives.into_iter().partition(|it| it.name == "http");
    for block in &blocks {
        notes.taken("http", block.place, "all of its servers");
    }
    http.extend(blocks.into_iter().flat_map(|it| it.block.unwrap_or_default()));
    let mut reads = Vec::new();
    survey(&http, notes, &mut reads);
    let maps = Maps::of(&http);
    let servers: Vec<Server<'_>> =
        http.iter().filter(|it| it.name == "server").map(|it| Server::new(it, notes)).collect();
    if servers.is_empty() {
        return Err(files.unreadable(Default::default(), "there is no server in these files"));
    }
    let mut maker = Maker {
        http: Levels::default().with(&http),
        limits: Limits::new(&http, &maps),
        upstreams: Upstreams::new(&http, &maps, files),
        access: Access::new(maps.unlike("remote_addr")),
        rest: job.rest.as_deref(),
        plan: Plan::default(),
        notes,
    };
    let served = listeners::served(&servers, maker.notes);
    listeners::write(&served, files, &mut maker.plan, maker.notes);
    proxies::client(&served, &maker.http, &mut maker.plan, maker.notes);
    for (server, hosts) in ordered(&served) {
        maker.notes.taken("server", server.directive.place, "routes");
        maker.server(server, hosts.as_deref());
    }
    let Maker { plan, notes, .. } = maker;
    limits::unused(&http, notes);
    for directive in reads {
        if notes.knows(&directive.name, directive.place) {
            continue;
        }
        if directive.name == "error_page" {
            pages::unused(directive, notes);
        } else {
            notes.needless(&directive.name, directive.place, "it has no effect on a route here");
        }
    }
    Ok(plan)
}

/// Says what becomes of each directive that no code reads, and collects the others.
fn survey<'a>(directives: &'a [Directive], notes: &mut Notes, reads: &mut Vec<&'a Directive>) {
    for it in directives {
        if crate::table::survey(TABLE, &it.name, it.place, notes) {
            reads.push(it);
        }
        let is_pattern = it.name == "location" && it.arg(0).starts_with('~');
        if it.block.is_some() && !is_pattern && !CLOSED.contains(&&*it.name) {
            survey(it.inner(), notes, reads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_each_name_once() {
        assert!(crate::table::has_each_name_once(TABLE));
        assert!(crate::table::has_each_name_once(table::IN_UPSTREAM));
    }
}
