//! Middlewares of a router: the fields of its routes.

use std::collections::HashSet;

use super::limits::{in_flight, rate};
use super::table::{MIDDLEWARES, fields_of};
use crate::network::{masked, network};
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::size;
use crate::report::Loss;
use crate::secret::is_secret;
use crate::table;

/// The deepest nesting of chains.
const MAX_DEPTH: usize = 16;

/// Changes of fields.
#[derive(Default)]
struct Edits {
    set: Map,
    remove: Vec<String>,
}

impl Edits {
    fn set(&mut self, field: &str, value: String) {
        self.set.0.retain(|(name, _)| name != field);
        self.set.put(field, value);
    }

    /// The section of a route. None if nothing is changed.
    fn section(&self) -> Option<Map> {
        let mut map = Map::default();
        if !self.set.is_empty() {
            map.put("set", self.set.clone());
        }
        let remove: Vec<String> =
            self.remove.iter().filter(|name| self.set.get(name).is_none()).cloned().collect();
        if !remove.is_empty() {
            map.put("remove", remove);
        }
        (!map.is_empty()).then_some(map)
    }
}

/// What the middlewares of a router make.
#[derive(Default)]
pub struct Made {
    /// The access lists.
    access: Vec<String>,
    /// The policies.
    policies: Vec<String>,
    /// Changes of requests and responses.
    requests: Edits,
    responses: Edits,
    /// Other fields of a route to an upstream.
    fields: Map,
    /// The prefixes that are removed, of which one is that of the path.
    pub strip: Vec<String>,
    /// The prefix that is added.
    pub add: Option<String>,
    /// A redirect to https.
    pub redirect: Option<Map>,
}

impl Made {
    /// The fields after the upstream.
    pub fn fields(&self) -> Map {
        let mut fields = Map::default();
        for (name, edits) in
            [("request_headers", &self.requests), ("response_headers", &self.responses)]
        {
            if let Some(section) = edits.section() {
                fields.put(name, section);
            }
        }
        fields.0.extend(self.fields.0.clone());
        fields
    }

    /// The fields of a redirect, besides the guards. Others are for an upstream.
    pub fn fields_of_redirect(&self) -> Map {
        let mut fields = self.fields();
        let names = ["response_headers", "authorizer", "cors", "max_body"];
        fields.0.retain(|(name, _)| names.contains(&&**name));
        fields
    }

    /// The fields before the upstream or the redirect.
    pub fn guards(&self) -> Map {
        let mut guards = Map::default();
        if !self.access.is_empty() {
            guards.put("access", self.access.clone());
        }
        if !self.policies.is_empty() {
            guards.put("policies", self.policies.clone());
        }
        guards
    }
}

/// What middlewares are read with.
pub struct Reader<'a> {
    /// All middlewares.
    pub all: &'a Node,
    /// The name of the router.
    pub router: &'a str,
    /// Whether its requests come by TLS.
    pub has_tls: bool,
    /// The names of the middlewares that routers have.
    pub used: &'a mut HashSet<String>,
    /// What is made.
    pub plan: &'a mut Plan,
    /// What is said.
    pub notes: &'a mut Notes,
}

impl Reader<'_> {
    /// Adds the middlewares with these names.
    pub fn add(&mut self, names: &Node, depth: usize, made: &mut Made) {
        for name in names.items() {
            let text = name.text().unwrap_or_default();
            let short = text.strip_suffix("@file").unwrap_or(text);
            let middleware = self.all.get(short);
            if middleware.is_null() || depth > MAX_DEPTH {
                let what = format!("{text}: it is not in these files, or its chain is too deep");
                self.notes.lost("middlewares", name.place, what);
                continue;
            }
            self.used.insert(short.to_owned());
            for (kind, node) in middleware.fields() {
                if table::survey(MIDDLEWARES, kind, node.place, self.notes) {
                    if let Some(rows) = fields_of(kind) {
                        table::survey_fields(rows, node, self.notes);
                    }
                    self.one(kind, short, node, depth, made);
                }
            }
        }
    }

    fn one(&mut self, kind: &str, name: &str, node: &Node, depth: usize, made: &mut Made) {
        let done: Result<String, String> = match kind {
            "rateLimit" => {
                made.policies.extend(rate(self.router, name, node, self.plan, self.notes));
                return;
            }
            "inFlightReq" => {
                made.policies.extend(in_flight(self.router, name, node, self.plan, self.notes));
                return;
            }
            "chain" => {
                self.add(node.get("middlewares"), depth + 1, made);
                Ok("all of its middlewares".to_owned())
            }
            "stripPrefix" => {
                made.strip.extend(node.get("prefixes").texts().into_iter().map(str::to_owned));
                Ok("rewrite.strip_prefix".to_owned())
            }
            "addPrefix" => {
                made.add = Some(node.str("prefix").to_owned());
                Ok("rewrite.add_prefix".to_owned())
            }
            "headers" => {
                self.headers(node, made);
                return;
            }
            "ipAllowList" | "ipWhiteList" => self.allow_list(name, node, made),
            "forwardAuth" => {
                self.forward_auth(name, node, made);
                return;
            }
            "buffering" => {
                if let Some(most) = node.number("maxRequestBodyBytes").filter(|it| *it > 0) {
                    made.fields.put("max_body", size(most));
                }
                Ok("max_body".to_owned())
            }
            "compress" => {
                made.fields.put("compress", Map::default().with("encodings", vec!["gzip"]));
                self.notes.different("compress", node.place, "gzip, for texts of 1 KiB and more");
                return;
            }
            "retry" => self.retry(node, made),
            // Traefik redirects only requests that have come by another scheme.
            _ if node.str("scheme") == if self.has_tls { "https" } else { "http" } => {
                let what = "the requests of its router have this scheme";
                self.notes.needless("redirectScheme", node.place, what);
                return;
            }
            _ => match self.redirect(node, made) {
                Ok(()) => return,
                Err(why) => Err(why),
            },
        };
        match done {
            Ok(what) => self.notes.taken(kind, node.place, what),
            Err(why) => self.notes.lost(kind, node.place, why),
        }
    }

    fn allow_list(&mut self, name: &str, node: &Node, made: &mut Made) -> Result<String, String> {
        let networks = node.get("sourceRange").texts();
        if networks.is_empty() || networks.iter().any(|it| network(it).is_none()) {
            return Err("its networks cannot be read: write an access list".to_owned());
        }
        if !node.get("ipStrategy").is_null() {
            return Err(
                "it takes an address of X-Forwarded-For: see client.trusted_proxies".to_owned()
            );
        }
        let networks: Vec<String> = networks.into_iter().map(masked).collect();
        let rule = Map::default().with("allow", Map::default().with("ips", networks));
        let mut access =
            Map::default().with("rules", Value::List(vec![rule.into()])).with("else", "deny");
        let status = node.number("rejectStatusCode").unwrap_or(403);
        match status {
            404 | 503 => access.put("status", status),
            403 => {}
            other => {
                let what = format!("Traefik refuses with {other}, here with 403");
                self.notes.different("rejectStatusCode", node.get("rejectStatusCode").place, what);
            }
        }
        let list = self.plan.access.shared(name, node.place, access);
        let what = format!("access list {list:?}");
        made.access.push(list);
        Ok(what)
    }

    fn forward_auth(&mut self, name: &str, node: &Node, made: &mut Made) {
        let address = node.str("address");
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:/-".contains(c);
        if !address.starts_with("http") || !address.chars().all(is_safe) {
            self.notes.lost(
                "forwardAuth",
                node.place,
                "its address has no counterpart: write an authorizer",
            );
            return;
        }
        let mut authorizer = Map::default().with("http", address);
        let take: Vec<String> = node
            .get("authResponseHeaders")
            .texts()
            .iter()
            .map(|it| it.to_ascii_lowercase())
            .collect();
        if !take.is_empty() {
            authorizer.put("take", take);
        }
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        match self.plan.others.0.iter_mut().find(|(own, _)| own == "authorizers") {
            Some((_, Value::Map(all))) => {
                if all.get(&name).is_none() {
                    all.put(&name, authorizer);
                }
            }
            _ => self.plan.others.put("authorizers", Map::default().with(&name, authorizer)),
        }
        if made.fields.get("authorizer").is_some() {
            self.notes.lost("forwardAuth", node.place, "a route has one authorizer");
            return;
        }
        made.fields.put("authorizer", &*name);
        let what =
            "an authorizer; the policies of the route judge first, unless they need its answer";
        self.notes.different("forwardAuth", node.place, what);
    }

    fn retry(&mut self, node: &Node, made: &mut Made) -> Result<String, String> {
        let attempts = node.number("attempts").unwrap_or(0).saturating_sub(1).min(10);
        if attempts > 0 {
            let on = Value::from(vec!["connect", "reset"]);
            let retries = Map::default().with("attempts", attempts).with("on", on);
            made.fields.put("retries", retries);
        }
        Ok(format!("retries: {attempts} more"))
    }

    fn redirect(&mut self, node: &Node, made: &mut Made) -> Result<(), String> {
        let scheme = node.str("scheme");
        let port = node.get("port").text().map(str::to_owned);
        if !["http", "https"].contains(&scheme)
            || port.as_ref().is_some_and(|it| it.parse::<u16>().is_err())
        {
            return Err("its scheme or port has no counterpart".to_owned());
        }
        let port = port.filter(|it| it != "443").map(|it| format!(":{it}")).unwrap_or_default();
        // A status that keeps the method of a request, so that a POST stays one.
        let (status, of_get) = match node.is("permanent", false) {
            true => (308, 301),
            false => (307, 302),
        };
        let what = format!("redirect with {status}; Traefik answers GET with {of_get}");
        self.notes.different("redirectScheme", node.place, what);
        let to = format!("{scheme}://{{host}}{port}{{path}}{{query}}");
        made.redirect = Some(Map::default().with("to", to).with("status", status));
        Ok(())
    }

    /// Fields of requests and responses, and CORS.
    fn headers(&mut self, node: &Node, made: &mut Made) {
        let mut cors = Map::default();
        for (name, value) in node.fields() {
            let text = value.text().unwrap_or_default();
            if let "customRequestHeaders" | "customResponseHeaders" = &**name {
                self.custom(value, name == "customRequestHeaders", made);
            } else if let Some((field, text)) = response_field(name, text) {
                if text.contains('$') {
                    self.notes.not_taken(name, value.place, Loss::Harmless, "it has variables");
                    continue;
                }
                made.responses.set(field, text);
                self.notes.taken(name, value.place, format!("response_headers.set: {field}"));
            } else if cors_field(name, value, &mut cors) {
                self.notes.taken(name, value.place, "a part of cors");
            } else if name == "accessControlAllowOriginListRegex" {
                let what = "an origin is a regular expression: write cors";
                self.notes.lost(name, value.place, what);
            } else {
                let what = "see response_headers of a route";
                self.notes.not_taken(name, value.place, Loss::Harmless, what);
            }
        }
        let is_any = cors.get("origins") == Some(&Value::from(vec!["*"]));
        if cors.get("origins").is_some() && !(is_any && cors.get("credentials").is_some()) {
            made.fields.put("cors", cors);
        } else if !cors.is_empty() {
            let what = "cors without origins, or with credentials for all: write cors";
            self.notes.lost("headers", node.place, what);
        }
    }

    fn custom(&mut self, fields: &Node, are_of_requests: bool, made: &mut Made) {
        const FIXED: [&str; 6] =
            ["host", "connection", "content-length", "retry-after", "x-request-id", "upgrade"];
        let section = if are_of_requests { "request_headers" } else { "response_headers" };
        let edits = if are_of_requests { &mut made.requests } else { &mut made.responses };
        for (name, value) in fields.fields() {
            let field = name.to_ascii_lowercase();
            let text = value.text().unwrap_or_default();
            let is_own = field.starts_with("x-ratelimit") || field.starts_with("ratelimit");
            let is_name = field.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            if is_own || !is_name || FIXED.contains(&&*field) || text.contains('$') {
                let what = format!("{field}: it cannot be edited here");
                self.notes.not_taken(section, value.place, Loss::Harmless, what);
                continue;
            }
            self.notes.taken(section, value.place, field.clone());
            if text.is_empty() {
                edits.remove.push(field);
            } else if is_secret(&field) {
                let reference = self.plan.variable(&field, &format!("the value of {field}"));
                edits.set(&field, reference);
            } else {
                edits.set(&field, text.to_owned());
            }
        }
    }
}

/// The field of responses that an option sets.
fn response_field(name: &str, text: &str) -> Option<(&'static str, String)> {
    let field = match (name, text) {
        ("stsSeconds", text) => ("strict-transport-security", format!("max-age={text}")),
        ("frameDeny", "true") => ("x-frame-options", "DENY".to_owned()),
        ("contentTypeNosniff", "true") => ("x-content-type-options", "nosniff".to_owned()),
        ("browserXssFilter", "true") => ("x-xss-protection", "1; mode=block".to_owned()),
        ("customFrameOptionsValue", text) => ("x-frame-options", text.to_owned()),
        ("referrerPolicy", text) => ("referrer-policy", text.to_owned()),
        ("contentSecurityPolicy", text) => ("content-security-policy", text.to_owned()),
        ("permissionsPolicy", text) => ("permissions-policy", text.to_owned()),
        _ => return None,
    };
    (!field.1.is_empty()).then_some(field)
}

/// Adds an option about other origins. Returns whether it is one.
fn cors_field(name: &str, value: &Node, cors: &mut Map) -> bool {
    let text = value.text().unwrap_or_default();
    match name {
        "accessControlAllowOriginList" => cors.put("origins", value.texts()),
        "accessControlAllowMethods" => {
            let simple = ["GET", "HEAD", "POST", "OPTIONS"];
            let methods: Vec<&str> =
                value.texts().into_iter().filter(|it| !simple.contains(it)).collect();
            if !methods.is_empty() {
                cors.put("methods", methods);
            }
        }
        "accessControlAllowHeaders" | "accessControlExposeHeaders" => {
            let field = if name.contains("Allow") { "headers" } else { "expose" };
            let names: Vec<String> =
                value.texts().iter().map(|it| it.to_ascii_lowercase()).collect();
            cors.put(field, names);
        }
        "accessControlAllowCredentials" if text == "true" => cors.put("credentials", true),
        "accessControlAllowCredentials" => {}
        "accessControlMaxAge" => {
            let seconds = text.parse::<u64>().unwrap_or(5).min(86_400);
            cors.put("max_age", format!("{seconds}s"));
        }
        _ => return false,
    }
    true
}
