//! Plugins that become fields of a route.

use super::entities::Plugin;
use crate::network::{masked, network};
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::size;
use crate::report::Loss;
use crate::secret::is_secret;

/// The fields of a route that plugins make.
#[derive(Default)]
pub struct Fields {
    /// Fields before the action: `access` and `cors`.
    pub guards: Map,
    /// `respond` or `redirect`, which replaces the upstream.
    pub action: Option<Map>,
    /// Fields after the action.
    pub ends: Map,
}

impl Fields {
    /// Adds what a plugin makes.
    pub fn add(&mut self, route: &str, plugin: &Plugin, plan: &mut Plan, notes: &mut Notes) {
        let node = &plugin.node;
        let name = node.str("name");
        let place = node.get("name").place;
        let config = node.get("config");
        let done = match plugin.kind() {
            "ip-restriction" => self.ip_restriction(route, node, plan),
            "cors" => self.cors(config),
            "request-size-limiting" => {
                let unit = config.get("size_unit").text().unwrap_or("megabytes");
                let factor = match unit {
                    "bytes" => 1,
                    "kilobytes" => 1 << 10,
                    _ => 1 << 20,
                };
                let most = config.number("allowed_payload_size").unwrap_or(128);
                let most = size(most.min(1 << 20) * factor);
                self.ends.put("max_body", &*most);
                Ok((format!("max_body: {most}"), false))
            }
            "request-termination" => self.termination(config),
            "redirect" => self.redirect(config),
            "request-transformer" | "response-transformer" => {
                self.transformer(name, config, plan, notes);
                return;
            }
            _ => return,
        };
        match done {
            Ok((what, false)) => notes.taken(name, place, what),
            Ok((what, true)) => notes.different(name, place, what),
            Err(why) => notes.lost(name, place, why),
        }
    }

    fn ip_restriction(
        &mut self,
        route: &str,
        node: &Node,
        plan: &mut Plan,
    ) -> Result<(String, bool), String> {
        let config = node.get("config");
        let list = |names: [&str; 2]| -> Vec<String> {
            let texts = names.iter().flat_map(|name| config.get(name).texts());
            texts.map(masked).collect()
        };
        let denied = list(["deny", "blacklist"]);
        let allowed = list(["allow", "whitelist"]);
        if let Some(bad) = denied.iter().chain(&allowed).find(|it| network(it).is_none()) {
            return Err(format!("{bad} is no network: write an access list"));
        }
        let mut rules = Vec::new();
        let rule = |verb: &str, ips: Vec<String>| -> Value {
            Map::default().with(verb, Map::default().with("ips", ips)).into()
        };
        let has_allowed = !allowed.is_empty();
        if !denied.is_empty() {
            rules.push(rule("deny", denied));
        }
        if has_allowed {
            rules.push(rule("allow", allowed));
        }
        if rules.is_empty() {
            return Err("it names no network".to_owned());
        }
        let other = if has_allowed { "deny" } else { "allow" };
        let mut access = Map::default().with("rules", Value::List(rules)).with("else", other);
        let status = config.number("status").unwrap_or(403);
        if [404, 503].contains(&status) {
            access.put("status", status);
        }
        let name = plan.access.shared(&format!("{route}-ips"), node.place, access);
        self.guards.put("access", vec![&*name]);
        match status {
            403 | 404 | 503 => Ok((format!("access list {name:?}"), false)),
            other => {
                let what =
                    format!("access list {name:?}; Kong refuses with {other}, here with 403");
                Ok((what, true))
            }
        }
    }

    fn cors(&mut self, config: &Node) -> Result<(String, bool), String> {
        let texts = |name: &str| -> Vec<String> {
            config.get(name).texts().into_iter().map(str::to_owned).collect()
        };
        let mut origins = texts("origins");
        if origins.is_empty() || origins.iter().any(|it| it == "*") {
            origins = vec!["*".to_owned()];
        }
        let is_plain = |it: &String| {
            let rest = it.strip_prefix("https://").or_else(|| it.strip_prefix("http://"));
            it == "*"
                || rest.is_some_and(|it| {
                    it.chars().all(|c| c.is_ascii_alphanumeric() || ".-:".contains(c))
                })
        };
        if !origins.iter().all(is_plain) {
            return Err("an origin is a regular expression: write cors".to_owned());
        }
        let is_any = origins == ["*"];
        let mut cors = Map::default().with("origins", origins);
        let mut methods = texts("methods");
        if methods.is_empty() {
            methods = ["PUT", "PATCH", "DELETE"].map(str::to_owned).to_vec();
        }
        methods.retain(|it| !["GET", "HEAD", "POST", "OPTIONS"].contains(&&**it));
        for (name, list) in [
            ("methods", methods),
            ("headers", texts("headers")),
            ("expose", texts("exposed_headers")),
        ] {
            if !list.is_empty() {
                cors.put(
                    name,
                    list.into_iter()
                        .map(|it| if name == "methods" { it } else { it.to_ascii_lowercase() })
                        .collect::<Vec<_>>(),
                );
            }
        }
        if config.is("credentials", false) && !is_any {
            cors.put("credentials", true);
        }
        if let Some(age) = config.number("max_age") {
            cors.put("max_age", format!("{}s", age.min(86_400)));
        }
        self.guards.put("cors", cors);
        let what = "cors; a preflight that is not allowed gets 403, and headers that are not listed are \
                    not allowed";
        Ok((what.to_owned(), true))
    }

    fn redirect(&mut self, config: &Node) -> Result<(String, bool), String> {
        let location = config.str("location");
        let status = config.number("status_code").unwrap_or(301);
        let is_target = location.starts_with("http") || location.starts_with('/');
        if !is_target
            || location.contains(['{', '$'])
            || ![301, 302, 303, 307, 308].contains(&status)
        {
            return Err("its target or status has no counterpart".to_owned());
        }
        let to = match (config.is("keep_incoming_path", false), location.split_once("://")) {
            (false, _) => location.to_owned(),
            (true, Some((scheme, rest))) => {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                format!("{scheme}://{authority}{{path}}{{query}}")
            }
            (true, None) => return Err("its target has no host, and it keeps the path".to_owned()),
        };
        let what = format!("redirect to {to}");
        let redirect = Map::default().with("to", to).with("status", status);
        self.action = Some(Map::default().with("redirect", redirect));
        Ok((what, false))
    }

    fn termination(&mut self, config: &Node) -> Result<(String, bool), String> {
        let status = config.number("status_code").unwrap_or(503);
        if !(200..600).contains(&status) || !config.get("trigger").is_null() {
            return Err("its status or its trigger has no counterpart".to_owned());
        }
        let mut respond = Map::default().with("status", status);
        if let Some(body) = config.get("body").text().or_else(|| config.get("message").text()) {
            respond.put("body", body.replace("${", "$${"));
        }
        if let Some(kind) = config.get("content_type").text() {
            respond.put("content_type", kind);
        }
        self.action = Some(Map::default().with("respond", respond));
        Ok((format!("respond with {status}"), false))
    }

    /// Fields that are set and removed. Kong adds a field only if it is not there; here it is set.
    fn transformer(&mut self, name: &str, config: &Node, plan: &mut Plan, notes: &mut Notes) {
        let mut set = Map::default();
        let mut remove: Vec<String> = Vec::new();
        for (verb, what) in config.fields() {
            for (part, list) in what.fields() {
                if part != "headers" || !["add", "replace", "remove"].contains(&&**verb) {
                    if !list.texts().is_empty() {
                        let loss = if part == "uri" { Loss::Severe } else { Loss::Harmless };
                        let what =
                            format!("{verb}.{part} is not taken: see {name} of docs/import.md");
                        notes.not_taken(name, list.place, loss, what);
                    }
                    continue;
                }
                for text in list.texts() {
                    let (field, value) = text.split_once(':').unwrap_or((text, ""));
                    let field = field.trim().to_ascii_lowercase();
                    let is_known = set.get(&field).is_some() || remove.contains(&field);
                    if is_known || field == "host" || value.contains('$') || !is_field(&field) {
                        let what = format!("{field}: it cannot be edited here");
                        notes.not_taken(name, list.place, Loss::Harmless, what);
                    } else if verb == "remove" {
                        remove.push(field);
                    } else {
                        let what = format!("the value of {field} in {name}");
                        let value = match is_secret(&field) {
                            true => plan.variable(&field, &what),
                            false => value.trim().to_owned(),
                        };
                        set.put(&field, value);
                    }
                }
                match &**verb {
                    "remove" => notes.taken(name, list.place, "fields are removed"),
                    _ => notes.different(
                        name,
                        list.place,
                        format!("{verb}: here fields are set, whether they are there or not"),
                    ),
                }
            }
        }
        let mut edits = Map::default();
        if !set.is_empty() {
            edits.put("set", set);
        }
        if !remove.is_empty() {
            edits.put("remove", remove);
        }
        if !edits.is_empty() {
            let section =
                if name.starts_with("request") { "request_headers" } else { "response_headers" };
            self.ends.put(section, edits);
        }
    }
}

fn is_field(name: &str) -> bool {
    const FIXED: [&str; 8] = [
        "connection",
        "content-length",
        "keep-alive",
        "retry-after",
        "te",
        "transfer-encoding",
        "upgrade",
        "x-request-id",
    ];
    let is_own = name.starts_with("x-ratelimit") || name.starts_with("ratelimit");
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(is_name) && !FIXED.contains(&name) && !is_own
}
