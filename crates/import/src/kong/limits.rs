//! `rate-limiting` and `rate-limiting-advanced`: policies. The counters of Kong belong to what the
//! instance of the plugin is for, which is a route, a service or all routes. So routes of one
//! instance share its policies.

use super::table::{ADVANCED, RATE_LIMITING};
use crate::files::Place;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::table::survey_fields;

/// The periods of `rate-limiting`, and the windows here.
const PERIODS: [(&str, &str); 6] = [
    ("second", "s"),
    ("minute", "minute"),
    ("hour", "hour"),
    ("day", "day"),
    ("month", "month"),
    ("year", "365d"),
];

/// What limits of an instance are made with.
pub struct Limits<'a> {
    /// The name of what it is for, with which the names of policies begin.
    pub name: &'a str,
    /// What it is for, as reports say it.
    pub scope: &'a str,
    /// The word for a consumer, if the route knows consumers.
    pub consumer: Option<&'static str>,
    /// How many nodes there were. None if they counted together.
    pub nodes: Option<u32>,
    /// What is made.
    pub plan: &'a mut Plan,
    /// What is said.
    pub notes: &'a mut Notes,
}

impl Limits<'_> {
    /// The policies of an instance of `rate-limiting`.
    pub fn plain(&mut self, plugin: &Node) -> Vec<String> {
        let config = plugin.get("config");
        survey_fields(RATE_LIMITING, config, self.notes);
        let by = config.get("limit_by").text().unwrap_or("consumer");
        let Some(key) = self.key(by, config) else {
            self.whole(plugin, &[], "limit_by ip, consumer, service or header".to_owned());
            return Vec::new();
        };
        let policy = config.get("policy").text().unwrap_or("local");
        // Nodes share the counters of other policies.
        self.nodes = self.nodes.filter(|_| policy == "local");
        let common = self.common(config, policy);
        let mut names = Vec::new();
        for (period, window) in PERIODS {
            let node = config.get(period);
            if node.is_null() {
                continue;
            }
            let Some(count) = count(node) else {
                self.notes.lost(period, node.place, "its number cannot be read");
                continue;
            };
            let limit = format!("{count}/{window}");
            let mut policy = key.clone().with("algorithm", "fixed_window").with("limit", &*limit);
            policy.0.extend(common.0.clone());
            let wish = format!("{}-{period}", self.name);
            let name = self.plan.policies.add(&wish, node.place, policy);
            let mut what = format!("{}: policy {name:?}, {limit}", self.scope);
            // A month is one of the calendar in UTC, here as there.
            let is_calendar = period == "year";
            if is_calendar {
                what.push_str(&format!("; Kong begins at each {period} of the calendar"));
            }
            self.say(period, node.place, &what, is_calendar);
            names.push(name);
        }
        self.whole(plugin, &names, PERIODS.map(|(period, _)| period).join(", "));
        names
    }

    /// The policies of an instance of `rate-limiting-advanced`.
    pub fn advanced(&mut self, plugin: &Node) -> Vec<String> {
        let config = plugin.get("config");
        survey_fields(ADVANCED, config, self.notes);
        let by = config.get("identifier").text().unwrap_or("consumer");
        let Some(key) = self.key(by, config) else {
            self.whole(plugin, &[], "an identifier ip, consumer, service or header".to_owned());
            return Vec::new();
        };
        let strategy = config.get("strategy").text().unwrap_or("local");
        // Nodes that never exchange counters count as with the strategy local.
        let is_alone = strategy == "local" || config.str("sync_rate") == "-1";
        self.nodes = self.nodes.filter(|_| is_alone);
        let common = self.common(config, strategy);
        let list = |name: &str| -> Vec<Option<u64>> {
            let node = config.get(name);
            match node.items() {
                [] => vec![count(node)],
                items => items.iter().map(count).collect(),
            }
        };
        let limits = list("limit");
        let windows = list("window_size");
        let place = config.get("limit").place;
        let is_sliding = config.get("window_type").text().unwrap_or("sliding") != "fixed";
        let mut names = Vec::new();
        if limits.len() != windows.len() {
            self.whole(plugin, &[], "as many limits as windows".to_owned());
            return names;
        }
        for pair in limits.iter().zip(&windows) {
            let (Some(limit), Some(window)) = pair else {
                self.notes.lost("limit", place, "a limit or a window cannot be read");
                continue;
            };
            let limit = format!("{limit}/{window}s");
            let mut policy = key.clone();
            if !is_sliding {
                policy.put("algorithm", "fixed_window");
            }
            policy.put("limit", &*limit);
            policy.0.extend(common.0.clone());
            let wish = format!("{}-{window}s", self.name);
            let name = self.plan.policies.add(&wish, place, policy);
            self.say("limit", place, &format!("{}: policy {name:?}, {limit}", self.scope), false);
            names.push(name);
        }
        self.whole(plugin, &names, "limit and window_size".to_owned());
        names
    }

    /// The plugin as a whole.
    fn whole(&mut self, plugin: &Node, names: &[String], wanted: String) {
        let name = plugin.str("name");
        let place = plugin.get("name").place;
        match names {
            [] => self.notes.lost(name, place, format!("it has no limit that is known: {wanted}")),
            _ => self.notes.taken(name, place, format!("{}: {} policies", self.scope, names.len())),
        }
    }

    fn say(&mut self, name: &str, place: Place, what: &str, is_different: bool) {
        match (self.nodes, is_different) {
            (Some(nodes @ 2..), _) => {
                let what = format!(
                    "{what}; {nodes} nodes admitted {nodes} times as much, because they counted apart"
                );
                self.notes.different(name, place, what);
            }
            (_, true) => self.notes.different(name, place, what),
            _ => self.notes.taken(name, place, what),
        }
    }

    /// The fields of the key.
    fn key(&mut self, by: &str, config: &Node) -> Option<Map> {
        let place = config.get("limit_by").place.max(config.get("identifier").place);
        let place = if place.line == 0 { config.place } else { place };
        let key = match by {
            "ip" => "ip".to_owned(),
            "service" => "global".to_owned(),
            "consumer" | "credential" => match self.consumer {
                Some(word) => word.to_owned(),
                None => "ip".to_owned(),
            },
            "header" if !config.str("header_name").is_empty() => {
                format!("header:{}", config.str("header_name").to_ascii_lowercase())
            }
            _ => {
                let what =
                    format!("it limits by {by}: write a policy with key: {{ all: [ip, path] }}");
                self.notes.lost("limit_by", place, what);
                return None;
            }
        };
        if place != config.place && !self.notes.knows("limit_by", place) {
            self.notes.taken("limit_by", place, format!("key: {key}"));
        }
        Some(Map::default().with("key", key))
    }

    /// The fields of a refusal and of a failure of the store.
    fn common(&mut self, config: &Node, policy: &str) -> Map {
        let mut fields = Map::default();
        let mut response = Map::default();
        if let Some(status) = config.number("error_code").filter(|it| (400..600).contains(it)) {
            response.put("status", status);
            self.notes.taken("error_code", config.get("error_code").place, "response.status");
        }
        if let Some(text) = config.get("error_message").text() {
            response.put("body", text.replace("${", "$${"));
            self.notes.taken("error_message", config.get("error_message").place, "response.body");
        }
        if !response.is_empty() {
            fields.put("response", response);
        }
        if policy == "redis" {
            self.redis(config);
            let is_tolerant = config.is("fault_tolerant", true);
            fields.put("on_store_failure", if is_tolerant { "allow" } else { "deny" });
        }
        let node = config.get("policy");
        if !node.is_null() {
            let what = match policy {
                "local" => "counters are in memory; nodes share them with store.redis",
                "redis" => "store.redis",
                _ => "nodes share counters with store.redis",
            };
            self.notes.taken("policy", node.place, what);
        }
        let node = config.get("fault_tolerant");
        if !node.is_null() {
            self.notes.taken("fault_tolerant", node.place, "on_store_failure");
        }
        fields
    }

    fn redis(&mut self, config: &Node) {
        let redis = config.get("redis");
        // Before version 3.6 its fields were beside the others.
        let of = |name: &str| match redis.get(name).text() {
            Some(text) => Some(text.to_owned()),
            None => config.get(&format!("redis_{name}")).text().map(str::to_owned),
        };
        let Some(host) = of("host")
            .filter(|it| it.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c)))
        else {
            return;
        };
        let is_tls = of("ssl").is_some_and(|it| it == "true");
        let scheme = if is_tls { "rediss" } else { "redis" };
        let port = of("port").and_then(|it| it.parse::<u16>().ok()).unwrap_or(6379);
        let base = of("database").and_then(|it| it.parse::<u8>().ok()).unwrap_or(0);
        let mut store = Map::default().with("url", format!("{scheme}://{host}:{port}/{base}"));
        if of("password").is_some() {
            // Without a password, Kong does not use the user either.
            if let Some(user) = of("username") {
                store.put("username", user);
            }
            store.put("password", self.plan.variable("redis_password", "the password of Redis"));
        }
        if self.plan.others.get("store").is_none() {
            self.plan.others.put("store", Map::default().with("redis", Value::from(store)));
        }
        let place = if redis.is_null() { config.get("redis_host").place } else { redis.place };
        self.notes.taken("redis", place, "store.redis");
    }
}

/// A whole number above 0. Kong accepts numbers with a point.
fn count(node: &Node) -> Option<u64> {
    node.text()?.parse().ok().filter(|it| (1..=1_000_000_000_000).contains(it))
}
