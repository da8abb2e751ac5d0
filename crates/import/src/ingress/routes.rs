//! The routes of an Ingress, and the order of all routes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::backends::Backends;
use super::cors::cors;
use super::limits::{Annotations, access, policies};
use super::objects::Objects;
use super::paths::{Matching, PathOf, pattern, plain};
use super::settings::Settings;
use crate::files::Place;
use crate::nginx::values::size;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::quantity::size as size_text;
use crate::report::Loss;

/// A route before it has its place among the others.
#[derive(Clone)]
pub struct Draft {
    host: Option<String>,
    path: String,
    /// The path as it is written.
    text: String,
    /// Whether its path is a regular expression.
    is_pattern: bool,
    is_exact: bool,
    /// Whether it has only what no path of its host has.
    is_default: bool,
    place: Place,
    /// All fields but the path and the host.
    fields: Map,
}

/// An Ingress, and what it is read with.
pub struct Reader<'a> {
    /// The object.
    pub ingress: &'a Node,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its annotations.
    pub own: &'a Annotations<'a>,
    /// All objects.
    pub objects: &'a Objects,
    /// What holds for all.
    pub settings: &'a Settings,
    /// Hosts whose paths are regular expressions.
    pub patterns: &'a BTreeSet<String>,
    /// The other names of hosts.
    pub aliases: &'a BTreeMap<String, Vec<String>>,
    /// The hosts of older Ingresses.
    pub earlier: &'a BTreeSet<String>,
    /// How many pods counted apart.
    pub nodes: Option<u32>,
    /// What is made.
    pub plan: &'a mut Plan,
    /// What is said.
    pub notes: &'a mut Notes,
}

impl Reader<'_> {
    /// The routes of the Ingress.
    pub fn drafts(&mut self) -> Vec<Draft> {
        let name = self.ingress.at(&["metadata", "name"]).text().unwrap_or("unnamed");
        let base = format!("{}-{name}", self.namespace);
        let spec = self.ingress.get("spec");
        let mut guards = Map::default();
        let lists = access(&base, self.own, self.settings, self.plan, self.notes);
        if !lists.is_empty() {
            guards.put("access", lists);
        }
        let policies = policies(&base, self.own, self.settings, self.nodes, self.plan, self.notes);
        if !policies.is_empty() {
            guards.put("policies", policies);
        }
        if let Some(cors) = cors(self.own, self.notes) {
            guards.put("cors", cors);
        }
        self.tls(spec);
        let backends =
            Backends::new(self.namespace, self.objects, self.own, self.settings, self.notes);
        let ends = self.ends();
        let mut drafts = Vec::new();
        if let Some((_, place)) = self.own.get("server-alias") {
            self.notes.taken("server-alias", place, "more hosts");
        }
        for rule in spec.get("rules").items() {
            let hosts = self.hosts(rule);
            for path in rule.at(&["http", "paths"]).items() {
                for host in &hosts {
                    drafts.extend(self.path(path, host.as_deref(), &backends, &guards, &ends));
                }
            }
        }
        let other = ["defaultBackend", "backend"].map(|name| spec.get(name));
        if let Some(other) = other.iter().find(|it| !it.is_null()) {
            drafts.extend(self.default(other, &backends, &guards, &ends));
        }
        drafts.extend(self.app_root(spec));
        drafts
    }

    /// The host of a rule with its other names. None is any host.
    fn hosts(&self, rule: &Node) -> Vec<Option<String>> {
        let host = rule.str("host");
        let aliases = self.aliases.get(host).into_iter().flatten().cloned().map(Some);
        let own = (!host.is_empty()).then(|| host.to_owned());
        std::iter::once(own).chain(aliases).collect()
    }

    fn tls(&mut self, spec: &Node) {
        for tls in spec.get("tls").items() {
            let secret = tls.str("secretName");
            let what = format!("mount the Secret {secret:?}, and write a listener with tls");
            self.notes.not_taken("tls", tls.place, Loss::Harmless, what);
        }
        for name in ["ssl-redirect", "force-ssl-redirect"] {
            let Some((text, place)) = self.own.get(name) else { continue };
            match text {
                "true" => {
                    let what =
                        "routes do not know the listener: redirect in a second gateway at port 80";
                    self.notes.not_taken(name, place, Loss::Harmless, what);
                }
                _ => self.notes.needless(name, place, "there is no redirect unless told"),
            }
        }
    }

    /// The fields of routes to upstreams that annotations change.
    fn ends(&mut self) -> Map {
        let mut ends = Map::default();
        let mut most = self.settings.max_body;
        if let Some((text, place)) = self.own.get("proxy-body-size") {
            match size(text) {
                Some(size) => {
                    most = size;
                    self.notes.taken("proxy-body-size", place, "max_body");
                }
                None => self.notes.lost("proxy-body-size", place, "it is no size"),
            }
        }
        if most > 0 {
            ends.put("max_body", size_text(most));
        }
        let mut timeouts = Map::default();
        let own = self.own.get("proxy-read-timeout");
        let seconds = own.and_then(|(text, _)| text.trim_end_matches('s').parse::<u64>().ok());
        let seconds = seconds.filter(|it| *it > 0).unwrap_or(self.settings.read_timeout);
        let wait = format!("{}s", seconds.min(86_400));
        timeouts.put("response", &*wait);
        if seconds != 60 {
            timeouts.put("idle", &*wait);
        }
        if let Some((_, place)) = own {
            self.notes.taken("proxy-read-timeout", place, format!("timeouts: {wait}"));
        }
        ends.put("timeouts", timeouts);
        ends
    }

    fn path(
        &mut self,
        node: &Node,
        host: Option<&str>,
        backends: &Backends<'_>,
        guards: &Map,
        ends: &Map,
    ) -> Vec<Draft> {
        let text = node.str("path");
        let matching = match node.str("pathType") {
            "Exact" => Matching::Exact,
            "Prefix" => Matching::Segments,
            _ => Matching::Beginning,
        };
        let target = self.own.get("rewrite-target");
        let is_pattern = self.patterns.contains(host.unwrap_or_default());
        let made = match is_pattern {
            true => pattern(text, matching, target.map(|(text, _)| text)),
            false => plain(text, matching),
        };
        if let Some((text, place)) = target.filter(|_| made.is_ok()) {
            self.notes.taken("rewrite-target", place, format!("rewrite: {text}"));
        }
        if let Some((_, place)) = self.own.get("use-regex") {
            self.notes.taken("use-regex", place, "as far as expressions are prefixes");
        }
        let done = made.and_then(|made| {
            let action =
                self.action(&node.get("backend").clone(), backends, &made, guards, ends)?;
            Ok((made, action))
        });
        match done {
            Ok((made, fields)) => {
                let what = format!("path: {}", made.paths.join(", "));
                match &made.difference {
                    Some(how) => self.notes.different("path", node.place, format!("{what}: {how}")),
                    None => self.notes.taken("path", node.place, what),
                }
                let draft = |path: String| Draft {
                    host: host.map(str::to_owned),
                    path,
                    text: if text.is_empty() { "/" } else { text }.to_owned(),
                    is_pattern,
                    is_exact: matching == Matching::Exact,
                    is_default: false,
                    place: node.place,
                    fields: fields.clone(),
                };
                let mut drafts: Vec<Draft> = made.paths.into_iter().map(draft).collect();
                if let Some(bare) = made.bare {
                    let to = format!("{bare}/{{query}}");
                    let redirect = Map::default().with("to", to).with("status", 301_u64);
                    let fields =
                        Map::default().with("path_match", exact()).with("redirect", redirect);
                    let text = bare.clone();
                    let own = draft(bare);
                    drafts.push(Draft { text, is_exact: true, is_default: true, fields, ..own });
                }
                drafts
            }
            Err(why) => {
                self.notes.lost_route("path", node.place, why);
                Vec::new()
            }
        }
    }

    /// A redirect, or an upstream with its fields.
    fn action(
        &mut self,
        backend: &Node,
        backends: &Backends<'_>,
        made: &PathOf,
        guards: &Map,
        ends: &Map,
    ) -> Result<Map, String> {
        let mut fields = Map::default();
        if made.is_exact_case && made.paths.iter().all(|path| path != "/*") {
            fields.put("path_match", exact());
        }
        for (name, status) in [("permanent-redirect", 301), ("temporal-redirect", 302_u64)] {
            let Some((to, place)) = self.own.get(name) else { continue };
            let to = to.replace("$request_uri", "{path}{query}").replace("$host", "{host}");
            if to.contains('$') || !(to.starts_with("http") || to.starts_with('/')) {
                return Err(format!("the target of {name} has variables"));
            }
            let code = format!("{name}-code");
            let own = self.own.get(&code).and_then(|(text, _)| text.parse::<u64>().ok());
            let status = own.filter(|it| [301, 302, 303, 307, 308].contains(it)).unwrap_or(status);
            if let Some((_, place)) = self.own.get(&code) {
                self.notes.taken(&code, place, format!("the status {status}"));
            }
            self.notes.taken(name, place, format!("redirect to {to}"));
            fields.put("redirect", Map::default().with("to", to).with("status", status));
            return Ok(fields);
        }
        let upstream = backends.upstream(backend, self.plan)?;
        fields.0.extend(guards.0.clone());
        fields.put("upstream", upstream);
        let mut rewrite = Map::default();
        if let Some(strip) = &made.strip {
            rewrite.put("strip_prefix", &**strip);
        }
        if let Some(add) = &made.add {
            rewrite.put("add_prefix", &**add);
        }
        if let Some((text, place)) = self.own.get("upstream-vhost") {
            if text.contains('$') {
                self.notes.not_taken("upstream-vhost", place, Loss::Harmless, "it has variables");
            } else {
                self.notes.taken("upstream-vhost", place, "rewrite.host");
                rewrite.put("host", text);
            }
        }
        if !rewrite.is_empty() {
            fields.put("rewrite", rewrite);
        }
        fields.0.extend(ends.0.clone());
        Ok(fields)
    }

    /// The routes for what no path has: of any host without rules, and of the hosts of the rules that
    /// no older Ingress has. nginx does not use it for a rule without a host.
    fn default(
        &mut self,
        backend: &Node,
        backends: &Backends<'_>,
        guards: &Map,
        ends: &Map,
    ) -> Vec<Draft> {
        let rules = self.ingress.at(&["spec", "rules"]).items();
        let is_first = |rule: &&Node| {
            let host = rule.str("host");
            !host.is_empty() && !self.earlier.contains(host)
        };
        let hosts: Vec<Option<String>> = match rules.is_empty() {
            true => vec![None],
            false => rules.iter().filter(is_first).flat_map(|rule| self.hosts(rule)).collect(),
        };
        let name = "defaultBackend";
        if hosts.is_empty() {
            let what = "nginx does not use it: its rules have no host, or an older Ingress has it";
            self.notes.needless(name, backend.place, what);
            return Vec::new();
        }
        let made = match plain("/", Matching::Segments) {
            Ok(made) => made,
            Err(why) => {
                self.notes.lost_route(name, backend.place, why);
                return Vec::new();
            }
        };
        match self.action(backend, backends, &made, guards, ends) {
            Ok(fields) => {
                let what = match rules.is_empty() {
                    true => "path: /*",
                    false => "path: /* of the hosts of its rules",
                };
                self.notes.taken(name, backend.place, what);
                let draft = |host| Draft {
                    host,
                    path: "/*".to_owned(),
                    text: "/".to_owned(),
                    is_pattern: false,
                    is_exact: false,
                    is_default: true,
                    place: backend.place,
                    fields: fields.clone(),
                };
                hosts.into_iter().map(draft).collect()
            }
            Err(why) => {
                self.notes.lost_route(name, backend.place, why);
                Vec::new()
            }
        }
    }

    /// A redirect of the root.
    fn app_root(&mut self, spec: &Node) -> Vec<Draft> {
        let Some((to, place)) = self.own.get("app-root") else { return Vec::new() };
        if !to.starts_with('/') || to.contains(['{', '}', '$']) {
            self.notes.lost_route("app-root", place, "it is no path: write a redirect");
            return Vec::new();
        }
        self.notes.taken("app-root", place, format!("a redirect of / to {to}"));
        let redirect = Map::default().with("to", to).with("status", 302_u64);
        let fields = Map::default().with("redirect", redirect);
        let hosts = spec.get("rules").items().iter().flat_map(|rule| self.hosts(rule));
        let draft = |host| Draft {
            host,
            path: "/".to_owned(),
            text: String::new(),
            is_pattern: false,
            is_exact: true,
            is_default: false,
            place,
            fields: fields.clone(),
        };
        hosts.map(draft).collect()
    }
}

/// How paths are compared that are no expressions.
fn exact() -> Map {
    Map::default().with("case", "exact").with("trailing_slash", "exact")
}

/// The routes for `/a` of hosts with the paths `/a` and `/a/`: a route for `/a/*` matches `/a`, too.
fn without_slash(drafts: &[Draft]) -> Vec<Draft> {
    let is_own = |it: &&Draft| !it.is_default && !it.is_exact;
    let own: HashMap<(&Option<String>, &str), &Draft> =
        drafts.iter().filter(is_own).rev().map(|it| ((&it.host, &*it.text), it)).collect();
    let redirects = drafts.iter().filter(|it| it.is_default && it.is_exact);
    let made = redirects.filter_map(|it| {
        let own = (*own.get(&(&it.host, &*it.text))?).clone();
        Some(Draft { path: it.path.clone(), is_exact: true, ..own })
    });
    made.collect()
}

/// Of routes with the same host and path the first one, which is that of the oldest Ingress. What no
/// path has is behind all others.
fn first_ones(mut drafts: Vec<Draft>, notes: &mut Notes) -> Vec<Draft> {
    drafts.extend(without_slash(&drafts));
    drafts.sort_by_key(|it| it.is_default);
    let mut known: HashSet<(Option<String>, String, bool)> = HashSet::new();
    let mut own: HashSet<(Option<String>, String)> = HashSet::new();
    drafts.retain(|it| {
        let has = |text: &str| own.contains(&(it.host.clone(), text.to_owned()));
        if it.is_default && (has(&it.text) || has(&it.path)) {
            return false;
        }
        let is_first = known.insert((it.host.clone(), it.text.clone(), it.is_exact));
        if is_first {
            own.extend([&it.text, &it.path].map(|text| (it.host.clone(), text.clone())));
        } else if !it.is_default {
            let host = it.host.as_deref().unwrap_or("any host");
            let what = format!("{} of {host}: an older Ingress has it", it.text);
            notes.needless("path", it.place, what);
        }
        is_first
    });
    drafts
}

/// Puts the routes into the order in which nginx looks at them: hosts before hosts with `*`, exact
/// paths before long prefixes.
pub fn write(drafts: Vec<Draft>, plan: &mut Plan, notes: &mut Notes) {
    let mut drafts = first_ones(drafts, notes);
    let rank = |host: &Option<String>| match host.as_deref() {
        Some(host) if host.starts_with("*.") => 1,
        Some(_) => 0,
        None => 2,
    };
    let hosts: BTreeSet<&String> = drafts.iter().filter_map(|it| it.host.as_ref()).collect();
    // A request with a host of an Ingress never reaches the paths of other hosts.
    let others = drafts.iter().any(|it| rank(&it.host) > 0);
    let rooted: BTreeSet<&String> =
        drafts.iter().filter(|it| it.path == "/*").filter_map(|it| it.host.as_ref()).collect();
    let closed: Vec<String> = if others {
        hosts.difference(&rooted).map(|host| (*host).clone()).collect()
    } else {
        Vec::new()
    };
    for host in closed {
        let mut fields = Map::default();
        match notes.rest() {
            Some(url) => plan.rest(Some(url), &mut fields),
            None => fields.put("respond", Map::default().with("status", 404_u64)),
        }
        let path = "/*".to_owned();
        let place = Place::default();
        drafts.push(Draft {
            host: Some(host),
            text: path.clone(),
            path,
            is_pattern: false,
            is_exact: false,
            is_default: true,
            place,
            fields,
        });
    }
    drafts.sort_by(|one, other| {
        let key = |it: &Draft| {
            let host = it.host.clone().unwrap_or_default();
            let wildness = std::cmp::Reverse(if rank(&it.host) == 1 { host.len() } else { 0 });
            // Expressions are compared in the order of their texts, exact ones among them.
            let is_later = !it.is_exact && !it.is_pattern;
            let length = if it.is_pattern { it.text.len() } else { it.path.len() };
            (rank(&it.host), wildness, host, is_later, std::cmp::Reverse(length))
        };
        key(one).cmp(&key(other))
    });
    for draft in drafts {
        let mut route = Map::default().with("path", draft.path);
        if let Some(host) = draft.host {
            route.put("hosts", vec![host]);
        }
        route.0.extend(draft.fields.0);
        plan.routes.push((draft.place, route));
    }
}
