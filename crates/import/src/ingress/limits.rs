//! The limits of an Ingress. Its zones are its own, and all of its paths share them.

use super::settings::{Settings, list};
use crate::files::Place;
use crate::network::{masked, network};
use crate::nginx::keys::Maps;
use crate::nginx::values::Rate;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::decimal;

/// The annotations of an Ingress, without their common beginning.
pub struct Annotations<'a>(pub Vec<(&'a str, &'a Node)>);

impl<'a> Annotations<'a> {
    /// The value of an annotation with its place.
    pub fn get(&self, name: &str) -> Option<(&'a str, Place)> {
        let (_, node) = self.0.iter().find(|(own, _)| *own == name)?;
        Some((node.text().unwrap_or_default().trim(), node.place))
    }
}

/// Adds the policies of an Ingress, and returns their names.
pub fn policies(
    base: &str,
    own: &Annotations<'_>,
    settings: &Settings,
    nodes: Option<u32>,
    plan: &mut Plan,
    notes: &mut Notes,
) -> Vec<String> {
    let exempt = exempt(own, notes);
    let multiplier = match own.get("limit-burst-multiplier") {
        Some((text, place)) => {
            notes.taken(
                "limit-burst-multiplier",
                place,
                format!("{text} times the limit, and one"),
            );
            text.parse::<u64>().ok().filter(|it| (1..1_000_000).contains(it)).unwrap_or(5)
        }
        None => 5,
    };
    let mut names = Vec::new();
    for (name, suffix) in
        [("limit-connections", "connections"), ("limit-rps", "rps"), ("limit-rpm", "rpm")]
    {
        let Some((text, place)) = own.get(name) else { continue };
        let Some(count) = text.parse::<u64>().ok().filter(|it| (1..=1_000_000).contains(it)) else {
            match text {
                "0" => notes.needless(name, place, "0 is no limit"),
                _ => notes.lost(name, place, "its number cannot be read"),
            }
            continue;
        };
        let mut policy = Map::default().with("key", "ip");
        if !exempt.is_empty() {
            policy.put("exempt", Map::default().with("ips", exempt.clone()));
        }
        let (about, cut) = shape(name, count, multiplier, &mut policy);
        let status = match name {
            "limit-connections" => settings.connection_status,
            _ => settings.rate_status,
        };
        if status != 429 {
            policy.put("response", Map::default().with("status", status));
        }
        let policy = plan.policies.add(&format!("{base}-{suffix}"), place, policy);
        let all = match nodes {
            Some(nodes @ 2..) => {
                let was = u64::from(nodes) * count;
                format!("; was {was} with {nodes} pods, is {count} in all with store.redis")
            }
            _ => String::new(),
        };
        let what = format!("policy {policy:?}, {about}{cut}{all}");
        match cut.is_empty() && all.is_empty() {
            true => notes.taken(name, place, what),
            false => notes.different(name, place, what),
        }
        names.push(policy);
    }
    names.extend(global(base, own, plan, notes));
    names
}

/// The fields of a limit, and what is said of it: the limit, and how nginx cuts it.
fn shape(name: &str, count: u64, multiplier: u64, policy: &mut Map) -> (String, String) {
    if name == "limit-connections" {
        policy.put("algorithm", "concurrency");
        policy.put("limit", count);
        return (format!("{count} in progress"), String::new());
    }
    let rate = Rate { count, is_minute: name == "limit-rpm" };
    let burst = count.saturating_mul(multiplier).saturating_add(1).min(1_000_000_000);
    policy.put("algorithm", "token_bucket");
    policy.put("limit", rate.limit());
    policy.put("burst", burst);
    let cut = rate.cut().map(|cut| format!("; nginx cuts it to {} a minute", decimal(cut)));
    (format!("{}, {burst} at once", rate.limit()), cut.unwrap_or_default())
}

fn exempt(own: &Annotations<'_>, notes: &mut Notes) -> Vec<String> {
    let mut all = Vec::new();
    for name in ["limit-whitelist", "limit-allowlist"] {
        let Some((text, place)) = own.get(name) else { continue };
        let (good, bad): (Vec<_>, Vec<_>) =
            list(text).into_iter().partition(|it| network(it).is_some());
        match bad.first() {
            Some(bad) => notes.lost(name, place, format!("{bad} is no network")),
            None => notes.taken(name, place, "exempt.ips"),
        }
        all.extend(good.iter().map(|it| masked(it)));
    }
    all
}

/// The limit that all pods shared by memcached.
fn global(base: &str, own: &Annotations<'_>, plan: &mut Plan, notes: &mut Notes) -> Option<String> {
    let (text, place) = own.get("global-rate-limit")?;
    let name = "global-rate-limit";
    let count = text.parse::<u64>().ok().filter(|it| (1..=1_000_000_000).contains(it));
    let window = own.get("global-rate-limit-window").map(|(text, _)| text);
    let window = window.filter(|it| {
        let (number, unit) = crate::quantity::number_and_unit(it).unwrap_or((0, ""));
        number > 0 && ["s", "m", "h", "d"].contains(&unit)
    });
    let key = own.get("global-rate-limit-key").map_or("$remote_addr", |(text, _)| text);
    let key = Maps::default().key(key, None);
    let parts = ["window", "key", "ignored-cidrs"].map(|part| format!("{name}-{part}"));
    let why = key.as_ref().err().map_or("its number or window cannot be read", |why| why);
    let (Some(count), Some(window), Ok(key)) = (count, window, &key) else {
        notes.lost(name, place, format!("{why}: write a policy"));
        for part in &parts {
            if let Some((_, place)) = own.get(part) {
                notes.needless(part, place, "see global-rate-limit");
            }
        }
        return None;
    };
    let limit = format!("{count}/{window}");
    // A request whose key is empty counts by its address, as without "missing_key".
    let mut policy = Map::default().with("key", key.value.clone().unwrap_or_else(|| "ip".into()));
    policy.put("limit", &*limit);
    let ignored = own.get("global-rate-limit-ignored-cidrs").map(|(text, _)| list(text));
    let ignored: Vec<String> = ignored
        .into_iter()
        .flatten()
        .filter(|it| network(it).is_some())
        .map(|it| masked(&it))
        .collect();
    if !ignored.is_empty() {
        policy.put("exempt", Map::default().with("ips", Value::from(ignored)));
    }
    for part in &parts {
        if let Some((_, place)) = own.get(part) {
            notes.taken(part, place, "a part of the policy");
        }
    }
    let policy = plan.policies.add(&format!("{base}-global"), place, policy);
    let difference = key.difference.as_ref().map(|it| format!("; {it}")).unwrap_or_default();
    let what = format!(
        "policy {policy:?}, {limit}; pods shared it by memcached, here nodes share it with \
         store.redis{difference}"
    );
    notes.different(name, place, what);
    Some(policy)
}

/// The access lists of an Ingress.
pub fn access(
    base: &str,
    own: &Annotations<'_>,
    settings: &Settings,
    plan: &mut Plan,
    notes: &mut Notes,
) -> Vec<String> {
    let mut lists = Vec::new();
    for (names, is_allowed, common) in [
        (["denylist-source-range", "denylist-source-range"], false, &settings.denied),
        (["whitelist-source-range", "allowlist-source-range"], true, &settings.allowed),
    ] {
        let found = names.iter().find_map(|name| Some((*name, own.get(name)?)));
        let (networks, place) = match found {
            Some((name, (text, place))) => {
                let networks = list(text);
                if let Some(bad) = networks.iter().find(|it| network(it).is_none()) {
                    notes.lost(name, place, format!("{bad} is no network: write an access list"));
                    continue;
                }
                notes.taken(name, place, "an access list");
                (networks, place)
            }
            None => (common.clone(), Place::default()),
        };
        if networks.is_empty() {
            continue;
        }
        let verb = if is_allowed { "allow" } else { "deny" };
        let networks: Vec<String> = networks.iter().map(|it| masked(it)).collect();
        let rule = Map::default().with(verb, Map::default().with("ips", networks));
        let other = if is_allowed { "deny" } else { "allow" };
        let item = Map::default().with("rules", Value::List(vec![rule.into()])).with("else", other);
        let wish = if found.is_some() { format!("{base}-{verb}") } else { format!("all-{verb}") };
        lists.push(plan.access.shared(&wish, place, item));
    }
    lists
}
