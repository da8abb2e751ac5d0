//! Traefik: files of its file provider, with entry points if they are there.
//!
//! Sources: the documentation of Traefik 3, and what 3.7.15 does (scripts/test-import).

mod entry_points;
mod limits;
mod middlewares;
mod rule;
mod services;
mod table;

use std::collections::{HashMap, HashSet};

use crate::files::{Files, Place, Unreadable};
use crate::job::Job;
use crate::nginx::locations::path as written;
use crate::node::{Node, Value as Yaml, documents};
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::secret::is_secret;
use crate::table::survey_fields;
use entry_points::EntryPoints;
use middlewares::{Made, Reader};
use rule::{Case, PathRule, cases};
use services::Services;

/// A router, with its routes or why it has none.
struct Outcome<'a> {
    name: &'a str,
    router: &'a Node,
    priority: i64,
    routes: Result<Vec<Map>, String>,
}

/// Reads the files.
///
/// # Errors
/// If one is no YAML, or there is no router.
pub fn read(files: &Files, _job: &Job, notes: &mut Notes) -> Result<Plan, Unreadable> {
    let mut plan = Plan::default();
    let mut entry_points = EntryPoints::default();
    let mut http: [Vec<(String, Node)>; 3] = Default::default();
    for source in files.sources() {
        for document in documents(files, source)? {
            survey_fields(table::FILE, &document, notes);
            survey_fields(table::HTTP, document.get("http"), notes);
            for (list, name) in http.iter_mut().zip(["routers", "services", "middlewares"]) {
                list.extend(document.at(&["http", name]).fields().iter().cloned());
            }
            entry_points.read(document.get("entryPoints"), &mut plan, notes);
            entry_points::tls(document.get("tls"), notes);
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
    entry_points.trust(&mut plan, notes);
    // Traefik counts each IPv6 address apart, unless told.
    plan.client.put("ipv6_prefix", limits::ipv6_prefix(&middlewares));
    let mut context = Context {
        routers: &routers,
        services: &services,
        middlewares: &middlewares,
        used: HashSet::new(),
    };
    let mut outcomes = Vec::new();
    for (name, router) in &routers {
        survey_fields(table::ROUTER, router, notes);
        let priority = priority(router);
        let order = *priority.as_ref().unwrap_or(&0);
        let routes = priority.and_then(|_| context.router(name, router, &mut plan, notes));
        outcomes.push(Outcome { name, router, priority: order, routes });
    }
    let used = context.used;
    write(outcomes, &routers, &entry_points, &mut plan, notes);
    for (name, middleware) in middlewares.fields() {
        if used.contains(name) || entry_points.middlewares.contains(name) {
            continue;
        }
        for (kind, node) in middleware.fields() {
            let what = format!("{name}: no route that is taken uses it");
            notes.needless(kind, node.place, what);
        }
    }
    Ok(plan)
}

/// Of two routers the one with the longer rule comes first, unless they say it. A negative priority is
/// behind all lengths, and 0 is none.
fn priority(router: &Node) -> Result<i64, String> {
    let length = i64::try_from(router.str("rule").len()).unwrap_or(i64::MAX);
    let own = router.get("priority");
    if own.is_null() {
        return Ok(length);
    }
    match own.text().and_then(|it| it.parse().ok()) {
        Some(0) => Ok(length),
        Some(priority) => Ok(priority),
        None => Err("its priority is no number".to_owned()),
    }
}

/// The routes in the order in which Traefik looks at them, and what became of the routers.
fn write(
    mut outcomes: Vec<Outcome<'_>>,
    routers: &[(String, Node)],
    entry_points: &EntryPoints,
    plan: &mut Plan,
    notes: &mut Notes,
) {
    outcomes.sort_by_key(|it| (std::cmp::Reverse(it.priority), it.name));
    let all = entry_points.names(routers);
    // The routers that are taken, by their rule.
    let mut known: HashMap<&str, Vec<&Outcome<'_>>> = HashMap::new();
    for outcome in &outcomes {
        let place = outcome.router.place;
        let own = entry_points.of(outcome.router, &all);
        let earlier = known.entry(outcome.router.str("rule")).or_default();
        let first = earlier.iter().find(|it| !own.is_subset(&entry_points.of(it.router, &all)));
        let routes = match (&outcome.routes, first) {
            (Err(why), _) => Err(why.clone()),
            (Ok(_), Some(first)) => Err(format!(
                "{} has its rule at another entry point, and routes do not know the entry point: run a second \
                 gateway for it",
                first.name
            )),
            (Ok(routes), None) => Ok(routes),
        };
        let field = outcome.router.get("entryPoints");
        if routes.is_ok() && own.len() < all.len() {
            let shown: Vec<&str> = own.into_iter().collect();
            let what = format!(
                "{}: it is for {} alone; here each route is served at all addresses",
                outcome.name,
                shown.join(", ")
            );
            let place = if field.is_null() { place } else { field.place };
            notes.different("entryPoints", place, what);
        } else if !field.is_null() {
            notes.needless("entryPoints", field.place, "routes are served at all listeners");
        }
        match routes {
            Ok(routes) => {
                let what = format!("{}: {} routes", outcome.name, routes.len());
                notes.taken("routers", place, what);
                plan.routes.extend(routes.iter().map(|route| (place, route.clone())));
                earlier.push(outcome);
            }
            Err(why) => notes.lost_route("routers", place, format!("{}: {why}", outcome.name)),
        }
    }
}

/// All routers, services and middlewares.
struct Context<'a> {
    routers: &'a [(String, Node)],
    services: &'a Node,
    middlewares: &'a Node,
    /// The names of the middlewares that routers have.
    used: HashSet<String>,
}

impl Context<'_> {
    fn router(
        &mut self,
        name: &str,
        router: &Node,
        plan: &mut Plan,
        notes: &mut Notes,
    ) -> Result<Vec<Map>, String> {
        let rule = router.str("rule");
        let cases = cases(rule)?;
        let mut made = Made::default();
        let mut reader = Reader {
            all: self.middlewares,
            router: name,
            has_tls: !router.get("tls").is_null(),
            used: &mut self.used,
            plan,
            notes,
        };
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
        let mut routes = Vec::new();
        for case in &cases {
            let held = |field: &str, value: &str| description(field, value, name, &cases);
            routes.push(route(case, &made, &action, held, plan)?);
            if let Some(what) = beside(case, !made.strip.is_empty()) {
                notes.different("rule", router.get("rule").place, format!("{name}: {what}"));
            }
        }
        if routes.is_empty() {
            return Err("no request has all that its rule demands".to_owned());
        }
        Ok(routes)
    }
}

/// How the paths of a case differ: a route takes `/a` with `/a/*`, and removes whole segments.
fn beside(case: &Case, is_stripped: bool) -> Option<String> {
    let Some(PathRule::Prefix(path)) = &case.path else { return None };
    let bare = path.trim_end_matches('/');
    if bare.is_empty() {
        return None;
    }
    if path.ends_with('/') {
        return Some(format!("Traefik does not take {bare} itself; here it is taken"));
    }
    is_stripped.then(|| format!("Traefik also takes paths that go on after {path} without a slash"))
}

/// What the variable for a value of a router holds. Each value has a variable of its own.
fn description(field: &str, value: &str, router: &str, cases: &[Case]) -> String {
    let mut values: Vec<&str> = Vec::new();
    for (own, other) in cases.iter().flat_map(|it| it.headers.iter().chain(&it.query)) {
        if own == field && !values.contains(&other.as_str()) {
            values.push(other);
        }
    }
    match values.iter().position(|it| *it == value) {
        Some(at) if values.len() > 1 => {
            format!("value {} of {field} of router {router}", at + 1)
        }
        _ => format!("the {field} of router {router}"),
    }
}

/// The route of a case. `held` describes what the variable for a field and its value holds.
fn route(
    case: &Case,
    made: &Made,
    action: &Map,
    held: impl Fn(&str, &str) -> String,
    plan: &mut Plan,
) -> Result<Map, String> {
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
                true => map.put(name, plan.variable(name, &held(name, value))),
                false => map.put(name, value.replace("${", "$${")),
            }
        }
        if !map.is_empty() {
            route.put(section, map);
        }
    }
    route.0.extend(made.guards().0);
    if made.redirect.is_some() {
        route.0.extend(action.0.clone());
        route.0.extend(made.fields_of_redirect().0);
        return Ok(route);
    }
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
        for rows in [
            table::FILE,
            table::HTTP,
            table::ENTRY_POINT,
            table::ENTRY_POINT_HTTP,
            table::FORWARDED_HEADERS,
            table::ROUTER,
            table::MIDDLEWARES,
            table::RATE_LIMIT,
            table::IN_FLIGHT,
            table::STRIP_PREFIX,
            table::ADD_PREFIX,
            table::ALLOW_LIST,
            table::FORWARD_AUTH,
            table::BUFFERING,
            table::COMPRESS,
            table::RETRY,
            table::REDIRECT,
            table::LOAD_BALANCER,
            table::SERVER,
            table::HEALTH_CHECK,
            table::COMBINED,
        ] {
            assert!(has_each_name_once(rows));
        }
    }
}
