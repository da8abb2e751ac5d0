//! Routes: which requests, and what is done with them.

use std::collections::{HashMap, HashSet};

use super::consumers::{Consumers, key_auth};
use super::entities::{Entities, Plugin, Route};
use super::limits::Limits;
use super::plugins::Fields;
use super::table::{PLUGINS, config_of};
use super::upstreams::{Host, Target, Upstream, Upstreams, base_path};
use crate::files::Place;
use crate::nginx::locations::path as written;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::quantity::period;
use crate::report::Loss;
use crate::secret::is_secret;
use crate::table;

/// A route before it has its place among the others.
pub struct Draft {
    /// How many kinds of conditions it has; then fields, hosts, hosts without `*`, the longest path.
    rank: (usize, usize, bool, bool, usize),
    place: Place,
    route: Map,
}

/// What routes are made with.
pub struct Reader<'a> {
    /// All entities.
    pub entities: &'a Entities,
    /// How many nodes counted apart.
    pub nodes: Option<u32>,
    /// What is made.
    pub plan: &'a mut Plan,
    /// What is said.
    pub notes: &'a mut Notes,
    /// The policies of instances of plugins.
    pub limits: HashMap<Counted, Vec<String>>,
    /// The numbers of the instances of plugins that routes have.
    pub used: HashSet<usize>,
}

/// What has counters of its own: the number of an instance of a plugin, the word for consumers if it counts by them,
/// and the service if it counts by services.
pub type Counted = (usize, Option<&'static str>, Option<String>);

impl Reader<'_> {
    /// The routes of a route of Kong: one for each path.
    pub fn drafts(&mut self, own: &Route) -> Vec<Draft> {
        let node = &own.node;
        match self.read(own) {
            // Each of its paths is told as a loss.
            Ok(drafts) if drafts.is_empty() => drafts,
            Ok(drafts) => {
                self.notes.taken(
                    "routes",
                    node.place,
                    format!("{}: {} routes", own.name, drafts.len()),
                );
                drafts
            }
            Err(why) => {
                self.notes.lost_route("routes", node.place, format!("{}: {why}", own.name));
                Vec::new()
            }
        }
    }

    fn read(&mut self, own: &Route) -> Result<Vec<Draft>, String> {
        let node = &own.node;
        let protocols = node.get("protocols").texts();
        if protocols.iter().any(|it| !["http", "https", "grpc", "grpcs"].contains(it)) {
            return Err("its protocols are not those of HTTP".to_owned());
        }
        if !protocols.is_empty() && !protocols.contains(&"http") && !protocols.contains(&"grpc") {
            let what = "requests without TLS get 426 there; here they are served";
            self.notes.not_taken("protocols", node.get("protocols").place, Loss::Harmless, what);
        }
        let kinds = ["hosts", "paths", "methods", "headers"];
        let kinds = kinds.iter().filter(|name| {
            !node.get(name).texts().is_empty() || !node.get(name).fields().is_empty()
        });
        let kinds = kinds.count();
        let mut others = ["expression", "snis", "sources", "destinations"].iter();
        // Without its only conditions it would have all requests.
        if kinds == 0 && others.any(|name| !node.get(name).is_null()) {
            return Err("no condition of it is taken: write a route".to_owned());
        }
        let conditions = self.conditions(own)?;
        let service = own.service.as_deref().and_then(|name| self.entities.service_named(name));
        let mut texts = node.get("paths").texts();
        if texts.is_empty() {
            texts.push("/");
        }
        for text in texts.iter().filter(|text| text.starts_with('~')) {
            let what = format!("{text}: no regular expressions: write routes for its paths");
            self.notes.lost_route("paths", node.get("paths").place, what);
        }
        texts.retain(|text| !text.starts_with('~'));
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let fields = self.plugins(own);
        let has_hosts = !node.get("hosts").texts().is_empty();
        let is_plain = !node.get("hosts").texts().iter().any(|host| host.contains('*'));
        let headers = node.get("headers").fields().len();
        let mut drafts = Vec::new();
        for text in texts {
            let path = written(text)?;
            let (mut route, difference) = self.path(&path, node, service);
            if let Some(what) = difference {
                self.notes.different("paths", node.get("paths").place, what);
            }
            route.0.extend(conditions.0.clone());
            route.0.extend(self.end(own, service, &path, &fields)?.0);
            let rank = (kinds, headers, has_hosts, has_hosts && is_plain, text.len());
            drafts.push(Draft { rank, place: node.place, route });
        }
        Ok(drafts)
    }

    /// The conditions besides the path.
    fn conditions(&mut self, own: &Route) -> Result<Map, String> {
        let node = &own.node;
        let mut map = Map::default();
        let mut hosts = Vec::new();
        for host in node.get("hosts").texts() {
            if host.contains(':') {
                let what = format!("{host}: here the host matches with any port");
                self.notes.different("hosts", node.get("hosts").place, what);
            }
            let host = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
            let inner = host.strip_prefix("*.").unwrap_or(&host);
            if inner.is_empty()
                || !inner.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            {
                return Err(format!("the host {host} has no counterpart"));
            }
            hosts.push(host.clone());
        }
        if !hosts.is_empty() {
            map.put("hosts", hosts);
        }
        let methods: Vec<&str> = node.get("methods").texts();
        if !methods.is_empty() {
            map.put("methods", methods);
        }
        let mut headers = Map::default();
        for (name, values) in node.get("headers").fields() {
            let values = values.texts();
            if values.iter().any(|it| it.starts_with("~*")) {
                return Err(format!("the field {name} has a regular expression"));
            }
            let name = name.to_ascii_lowercase();
            let values: Vec<String> = match is_secret(&name) {
                true => self.secrets(&name, &values, &own.name),
                false => values.into_iter().map(|it| it.replace("${", "$${")).collect(),
            };
            headers.put(&name, Map::default().with("any", values));
        }
        if !headers.is_empty() {
            map.put("headers", headers);
        }
        Ok(map)
    }

    /// The variables for the values of a field of a route. Each value has one of its own.
    fn secrets(&mut self, field: &str, values: &[&str], route: &str) -> Vec<String> {
        let mut variables = Vec::new();
        for number in 1..=values.len() {
            let what = match values.len() {
                1 => format!("the value of {field} of route {route}"),
                _ => format!("value {number} of {field} of route {route}"),
            };
            variables.push(self.plan.variable(field, &what));
        }
        variables
    }

    /// The path of a route, and how paths are compared.
    fn path(&self, path: &str, node: &Node, service: Option<&Node>) -> (Map, Option<String>) {
        let bare = path.trim_end_matches('/');
        let strips = node.is("strip_path", true) && !bare.is_empty();
        let adds = service.is_some_and(|it| !base_path(it).is_empty());
        if bare.is_empty() {
            return (Map::default().with("path", "/*"), None);
        }
        let exact = Map::default().with("case", "exact").with("trailing_slash", "exact");
        let is_segment = path.ends_with('/') || strips || adds;
        let shown = if is_segment { format!("{bare}/*") } else { format!("{path}*") };
        let difference = match (path.ends_with('/'), is_segment) {
            (true, _) => Some(format!("Kong does not take {bare} itself; here it is taken")),
            (_, true) => {
                Some(format!("Kong also takes paths that go on after {path} without a slash"))
            }
            _ => None,
        };
        (Map::default().with("path", shown).with("path_match", exact), difference)
    }

    /// The fields that plugins make, with the policies.
    fn plugins(&mut self, own: &Route) -> Fields {
        let mut fields = Fields::default();
        let chosen = self.entities.plugins_of(own);
        let consumers = Consumers::of(&chosen);
        let mut policies = Vec::new();
        for plugin in &chosen {
            let base = plugin.kind();
            if !table::survey(PLUGINS, base, plugin.node.get("name").place, self.notes) {
                continue;
            }
            self.used.insert(plugin.number);
            if let Some(rows) = config_of(base) {
                table::survey_fields(rows, plugin.node.get("config"), self.notes);
            }
            match base {
                "rate-limiting" | "rate-limiting-advanced" => {
                    consumers.say(&own.name, &plugin.node, self.notes);
                    policies.extend(self.limits(own, plugin, consumers.word));
                }
                "key-auth" => key_auth(&plugin.node, self.plan, self.notes),
                _ => fields.add(&own.name, plugin, self.plan, self.notes),
            }
        }
        if !policies.is_empty() {
            fields.guards.put("policies", policies);
        }
        fields
    }

    /// The policies of an instance of a plugin that limits. All routes of the instance share them.
    fn limits(
        &mut self,
        own: &Route,
        plugin: &Plugin,
        consumer: Option<&'static str>,
    ) -> Vec<String> {
        let config = plugin.node.get("config");
        let by = config.get("limit_by").text().or_else(|| config.get("identifier").text());
        let service = own.service.clone().filter(|_| by == Some("service"));
        // Other counters do not depend on what a route knows of consumers.
        let consumer = consumer.filter(|_| matches!(by, None | Some("consumer" | "credential")));
        let counted = (plugin.number, consumer, service.clone());
        if let Some(made) = self.limits.get(&counted) {
            return made.clone();
        }
        let (name, scope) = match (&plugin.route, plugin.service.as_ref().or(service.as_ref())) {
            (Some(_), _) => (&*own.name, format!("route {}", own.name)),
            (None, Some(service)) => (&**service, format!("service {service}")),
            (None, None) => ("all", "all routes".to_owned()),
        };
        let mut limits = Limits {
            name,
            scope: &scope,
            consumer,
            nodes: self.nodes,
            plan: self.plan,
            notes: self.notes,
        };
        let made = match plugin.node.str("name").starts_with("rate-limiting-advanced") {
            true => limits.advanced(&plugin.node),
            false => limits.plain(&plugin.node),
        };
        self.limits.insert(counted, made.clone());
        made
    }

    /// What is done with a request.
    fn end(
        &mut self,
        own: &Route,
        service: Option<&Node>,
        path: &str,
        fields: &Fields,
    ) -> Result<Map, String> {
        let mut map = fields.guards.clone();
        if let Some(action) = &fields.action {
            map.0.extend(action.0.clone());
            // Changes of requests are for an upstream.
            let ends = fields.ends.0.iter().filter(|(name, _)| name != "request_headers");
            map.0.extend(ends.cloned());
            return Ok(map);
        }
        let service = service.ok_or("it has no service that is in these files")?;
        if !service.is("enabled", true) {
            return Err("its service is not enabled".to_owned());
        }
        let target = Target::of(service)?;
        let mut upstreams =
            Upstreams { entities: self.entities, plan: self.plan, notes: self.notes };
        let Upstream { name, host } = upstreams.of(service, &target)?;
        map.put("upstream", name);
        let mut rewrite = Map::default();
        let bare = path.trim_end_matches('/');
        if own.node.is("strip_path", true) && !bare.is_empty() {
            rewrite.put("strip_prefix", bare);
        }
        let base = base_path(service);
        if !base.is_empty() {
            rewrite.put("add_prefix", written(&base)?);
        }
        match host {
            _ if own.node.is("preserve_host", false) => {}
            Host::One(host) => rewrite.put("host", host),
            Host::Several => {
                let node = own.node.get("preserve_host");
                let place = if node.is_null() { own.node.place } else { node.place };
                let what = "an endpoint gets the host of its target there, and the host of the client here";
                self.notes.different("preserve_host", place, format!("{}: {what}", own.name));
            }
        }
        if !rewrite.is_empty() {
            map.put("rewrite", rewrite);
        }
        let wait = service.number("read_timeout").filter(|it| *it > 0).unwrap_or(60_000);
        let wait = period(wait.min(86_400_000));
        map.put("timeouts", Map::default().with("response", &*wait).with("idle", &*wait));
        map.0.extend(fields.ends.0.clone());
        Ok(map)
    }
}

/// The routes in the order in which Kong looks at them.
pub fn write(mut drafts: Vec<Draft>, plan: &mut Plan) {
    drafts.sort_by_key(|it| std::cmp::Reverse(it.rank));
    plan.routes.extend(drafts.into_iter().map(|it| (it.place, it.route)));
}
