//! Consumers: which plugins identify the client of a request, and by what it is counted here.

use super::entities::Plugin;
use crate::files::Place;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::report::Loss;

/// Plugins besides `key-auth` that find a consumer.
const OTHERS: [&str; 11] = [
    "jwt",
    "jwt-signer",
    "basic-auth",
    "hmac-auth",
    "key-auth-enc",
    "ldap-auth",
    "ldap-auth-advanced",
    "mtls-auth",
    "oauth2",
    "oauth2-introspection",
    "openid-connect",
];

/// How a route knows consumers.
#[derive(Clone, Copy)]
pub struct Consumers<'a> {
    /// The word for the key of a request, if the route has `key-auth`.
    pub word: Option<&'static str>,
    /// Another plugin of the route that finds a consumer.
    other: Option<&'a str>,
}

impl<'a> Consumers<'a> {
    /// By the plugins of a route.
    pub fn of(chosen: &[&'a Plugin]) -> Self {
        let has_keys = chosen.iter().any(|it| it.kind() == "key-auth");
        let other = chosen.iter().map(|it| it.kind()).find(|it| OTHERS.contains(it));
        Self { word: has_keys.then_some("api_key"), other }
    }

    /// Says how the counters of a limit by consumers or credentials differ on a route.
    pub fn say(self, route: &str, plugin: &Node, notes: &mut Notes) {
        let config = plugin.get("config");
        let written = ["limit_by", "identifier"].map(|name| config.get(name));
        let written = written.into_iter().find(|it| !it.is_null());
        let by = written.and_then(Node::text).unwrap_or("consumer");
        if !["consumer", "credential"].contains(&by) {
            return;
        }
        let place: Place = written.map_or(plugin.get("name").place, |it| it.place);
        if let Some(other) = self.other {
            let word = self.word.unwrap_or("ip");
            let what = format!(
                "{route}: Kong counts by the {by} of {other}; here key: {word} counts: see client.user \
                 and key: user"
            );
            notes.different("limit_by", place, what);
        } else if self.word.is_some() && by == "consumer" {
            let what = "key: api_key: Kong counts all keys of a consumer together; here each key counts alone";
            notes.different("limit_by", place, what);
        }
    }
}

/// Where keys are. Which keys are known is in a file of keys. The section is one for all routes, so
/// it has the names of all instances.
pub fn key_auth(plugin: &Node, plan: &mut Plan, notes: &mut Notes) {
    let config = plugin.get("config");
    let place = plugin.get("name").place;
    let mut names = config.get("key_names").texts();
    if names.is_empty() {
        names.push("apikey");
    }
    let is_name = |it: &&str| it.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let (names, others): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_name);
    if let Some(other) = others.first() {
        notes.lost("key_names", place, format!("{other:?} is no name of a field"));
    }
    let mut section = match plan.client.get("api_key") {
        Some(Value::Map(section)) => section.clone(),
        _ => Map::default().with("headers", Value::List(Vec::new())).with("bearer", false),
    };
    let before = section.get("headers").cloned();
    for name in &names {
        let field = Value::from(name.to_ascii_lowercase());
        if let Some((_, Value::List(fields))) = section.0.iter_mut().find(|it| it.0 == "headers")
            && !fields.contains(&field)
        {
            fields.push(field);
        }
    }
    let is_first = before == Some(Value::List(Vec::new()));
    if !is_first && before != section.get("headers").cloned() {
        let what =
            "client.api_key is one for all routes: a key is read from the names of all instances";
        notes.different("key_names", place, what);
    }
    if config.is("key_in_query", true)
        && let Some(name) = names.first()
    {
        let own = Value::from(*name);
        if section.get("query").is_none() {
            section.put("query", own.clone());
        }
        if names.len() > 1 || section.get("query") != Some(&own) {
            let what = "client.api_key reads one parameter, the first name of the first instance";
            notes.different("key_in_query", place, what);
        }
    }
    if !config.is("key_in_header", true) {
        notes.different("key_in_header", place, "here a key in a field counts, too");
    }
    if config.is("key_in_body", false) {
        notes.not_taken("key_in_body", place, Loss::Harmless, "keys are not read from bodies");
    }
    if !names.is_empty() {
        plan.client.0.retain(|(name, _)| name != "api_key");
        plan.client.put("api_key", section);
    }
    let what = "keys are counted, but not demanded: import them with tollgate key import, and write \
                client.keys and auth: [api_key]";
    notes.lost("key-auth", place, what);
}
