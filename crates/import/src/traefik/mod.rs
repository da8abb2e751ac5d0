//! Traefik: files of its file provider, with entry points if they are there.
//!
//! Sources: the documentation of Traefik 3, and what 3.7.15 does (scripts/test-import).

mod limits;
mod middlewares;
mod rule;
mod services;
mod table;

use crate::files::{Files, Place, Unreadable};
use crate::job::Job;
use crate::nginx::locations::path as written;
use crate::node::{Node, Value as Yaml, documents};
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::secret::is_secret;
use middlewares::{Made, Reader};
use rule::{Case, PathRule, cases};
use services::Services;

/// A route before it has its place among the others.
struct Draft {
    priority: u64,
    name: String,
    place: Place,
    route: Map,
}

/// Reads the files.
///
/// # Errors
/// If one is no YAML, or there is no router.
pub fn read(files: &Files, _job: &Job, notes: &mut Notes) -> Result<Plan, Unreadable> {
    let mut plan = Plan::default();
    let mut http: [Vec<(String, Node)>; 3] = Default::default();
    for source in files.sources() {
        for document in documents(files, source)? {
            survey(table::FILE, &document, notes);
            survey(table::HTTP, document.get("http"), notes);
            for (list, name) in http.iter_mut().zip(["routers", "services", "middlewares"]) {
                list.extend(document.at(&["http", name]).fields().iter().cloned());
            }
            entry_points(document.get("entryPoints"), &mut plan, notes);
        }
    }
    let [routers, services, middlewares] = http;
    if routers.is_empty() {
        return Err(
            files.unreadable(Place::default(), "there is no router of Traefik in these files")
        );
    }
    let map = |fields| Node { value: Yaml::Map(fields), place: Place::default() };
    let services = map(services);
    let middlewares = map(middlewares);
    if plan.listeners.is_empty() {
        plan.listeners.push((Place::default(), Map::default().with("address", "0.0.0.0:80")));
    }
    // Traefik counts each IPv6 address apart.
    plan.client.put("ipv6_prefix", 128);
    let mut drafts = Vec::new();
    for (name, router) in &routers {
        survey(table::ROUTER, router, notes);
        let place = router.place;
        let mut context =
            Context { routers: &routers, services: &services, middlewares: &middlewares };
        match context.router(name, router, &mut plan, notes) {
            Ok(routes) => {
                notes.taken("routers", place, format!("{name}: {} routes", routes.len()));
                drafts.extend(routes);
            }
            Err(why) => notes.lost("routers", place, format!("{name}: {why}")),
        }
    }
    drafts.sort_by(|one, other| {
        (std::cmp::Reverse(one.priority), &one.name)
            .cmp(&(std::cmp::Reverse(other.priority), &other.name))
    });
    plan.routes.extend(drafts.into_iter().map(|it| (it.place, it.route)));
    if plan.routes.is_empty() {
        return Err(files.unreadable(Place::default(), "no router of these files can be taken"));
    }
    Ok(plan)
}

fn survey(rows: &[crate::table::Row], node: &Node, notes: &mut Notes) {
    for (name, value) in node.fields() {
        crate::table::survey(rows, name, value.place, notes);
    }
}

fn entry_points(node: &Node, plan: &mut Plan, notes: &mut Notes) {
    for (name, point) in node.fields() {
        let address = point.str("address");
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let host = address.rsplit_once(':').map_or("", |(host, _)| host);
        let is_host = host.is_empty() || host.parse::<std::net::Ipv4Addr>().is_ok();
        let (Some(port), true) = (port, is_host) else {
            notes.lost("entryPoints", point.place, format!("{name}: its address cannot be read"));
            continue;
        };
        let host = if host.is_empty() { "0.0.0.0" } else { host };
        let address = format!("{host}:{port}");
        notes.taken("entryPoints", point.place, format!("listener {address}"));
        let item = Map::default().with("address", address);
        if !plan.listeners.iter().any(|(_, own)| *own == item) {
            plan.listeners.push((point.place, item));
        }
        let trusted = point.at(&["forwardedHeaders", "trustedIPs"]).texts();
        if !trusted.is_empty() && plan.client.get("trusted_proxies").is_none() {
            notes.taken(
                "forwardedHeaders",
                point.get("forwardedHeaders").place,
                "client.trusted_proxies",
            );
            plan.client.put("trusted_proxies", trusted);
        }
    }
}

/// All routers, services and middlewares.
struct Context<'a> {
    routers: &'a [(String, Node)],
    services: &'a Node,
    middlewares: &'a Node,
}

impl Context<'_> {
    fn router(
        &mut self,
        name: &str,
        router: &Node,
        plan: &mut Plan,
        notes: &mut Notes,
    ) -> Result<Vec<Draft>, String> {
        let rule = router.str("rule");
        let cases = cases(rule)?;
        let mut made = Made::default();
        let mut reader = Reader { all: self.middlewares, router: name, plan, notes };
        reader.add(router.get("middlewares"), 0, &mut made);
        let is_shared = self.routers.iter().any(|(own, it)| own != name && it.str("rule") == rule);
        if made.redirect.is_some() && is_shared {
            let why = "a redirect beside a router with the same rule: routes do not know the entry point; \
                       run a second gateway with it";
            return Err(why.to_owned());
        }
        let action = match &made.redirect {
            Some(redirect) => Map::default().with("redirect", redirect.clone()),
            None => Services { all: self.services, plan, notes }.action(router.str("service"))?,
        };
        // Of two routers the one with the longer rule comes first, unless they say it.
        let length = u64::try_from(rule.chars().count()).unwrap_or(u64::MAX);
        let priority = router.number("priority").filter(|it| *it > 0).unwrap_or(length);
        let mut drafts = Vec::new();
        for case in &cases {
            let route = route(case, &made, &action, plan)?;
            drafts.push(Draft { priority, name: name.to_owned(), place: router.place, route });
        }
        if drafts.is_empty() {
            return Err("no request has all that its rule demands".to_owned());
        }
        Ok(drafts)
    }
}

/// The route of a case.
fn route(case: &Case, made: &Made, action: &Map, plan: &mut Plan) -> Result<Map, String> {
    let (text, is_exact) = match &case.path {
        Some(PathRule::Exact(path)) => (written(path)?, true),
        Some(PathRule::Prefix(path)) => (written(path)?, false),
        None => ("/".to_owned(), false),
    };
    let bare = text.trim_end_matches('/');
    let strip = match &made.strip[..] {
        [] => None,
        prefixes => Some(
            prefixes
                .iter()
                .map(|it| it.trim_end_matches('/'))
                .find(|it| !it.is_empty() && (*it == bare || bare.starts_with(&format!("{it}/"))))
                .ok_or("stripPrefix removes what its path does not begin with")?,
        ),
    };
    let mut route = match (is_exact, strip.is_some() || text.ends_with('/')) {
        (true, _) => Map::default().with("path", &*text),
        (false, true) => Map::default().with("path", format!("{bare}/*")),
        (false, false) => Map::default().with("path", format!("{text}*")),
    };
    if !case.hosts.is_empty() {
        route.put("hosts", case.hosts.clone());
    }
    if text != "/" {
        route.put(
            "path_match",
            Map::default().with("case", "exact").with("trailing_slash", "exact"),
        );
    }
    if !case.methods.is_empty() {
        route.put("methods", case.methods.clone());
    }
    for (section, list) in [("headers", &case.headers), ("query", &case.query)] {
        let mut map = Map::default();
        for (name, value) in list {
            match is_secret(name) {
                true => map.put(name, plan.variable(name, &format!("the {name} of a rule"))),
                false => map.put(name, value.replace("${", "$${")),
            }
        }
        if !map.is_empty() {
            route.put(section, map);
        }
    }
    if made.redirect.is_some() {
        route.0.extend(action.0.clone());
        return Ok(route);
    }
    route.0.extend(made.guards().0);
    let mut rewrite = Map::default();
    if let Some(strip) = strip {
        rewrite.put("strip_prefix", strip);
    }
    if let Some(add) = &made.add {
        let add = written(add)?;
        if !add.trim_end_matches('/').is_empty() {
            rewrite.put("add_prefix", add.trim_end_matches('/'));
        }
    }
    for (name, value) in &action.0 {
        match (&**name, value) {
            ("rewrite", Value::Map(host)) => rewrite.0.extend(host.0.clone()),
            _ => route.put(name, value.clone()),
        }
    }
    if !rewrite.is_empty() {
        route.put("rewrite", rewrite);
    }
    route.0.extend(made.fields().0);
    Ok(route)
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::table::has_each_name_once;

    #[test]
    fn the_tables_have_each_name_once() {
        for rows in [table::FILE, table::HTTP, table::ROUTER, table::MIDDLEWARES] {
            assert!(has_each_name_once(rows));
        }
    }
}
