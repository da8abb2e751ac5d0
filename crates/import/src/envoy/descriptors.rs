//! Descriptors: rules of a domain, and a policy for each limit.

use super::table::{DESCRIPTOR, RATE_LIMIT};
use crate::files::Place;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::table;

/// The deepest nesting of descriptors.
const MAX_DEPTH: usize = 32;

/// A domain, and what is made of it.
pub struct Reader<'a> {
    /// Its name.
    pub domain: &'a str,
    /// What is made.
    pub plan: &'a mut Plan,
    /// What is said.
    pub notes: &'a mut Notes,
    /// The rules of the domain.
    pub rules: &'a mut Vec<(Place, Map)>,
}

impl Reader<'_> {
    /// Adds the rules of descriptors below these entries. Those with a value come first, because
    /// the original looks for them first.
    pub fn level(&mut self, descriptors: &Node, above: &[String], depth: usize) {
        if depth > MAX_DEPTH {
            self.notes.lost("descriptors", descriptors.place, "they are nested too deep");
            return;
        }
        let (with, without): (Vec<&Node>, Vec<&Node>) =
            descriptors.items().iter().partition(|it| !it.str("value").is_empty());
        for (at, node) in with.iter().chain(&without).enumerate() {
            for (name, value) in node.fields() {
                table::survey(DESCRIPTOR, name, value.place, self.notes);
            }
            let key = node.str("key");
            let value = node.str("value");
            if key.is_empty() || key.contains(['=', '*']) || value.contains('*') {
                let what =
                    format!("{key}={value}: no entry of a rule has this form: see envoy_config");
                self.notes.lost("key", node.get("key").place, what);
                continue;
            }
            let entry = if value.is_empty() { key.to_owned() } else { format!("{key}={value}") };
            let mut entries = above.to_vec();
            entries.push(entry);
            self.notes.taken(
                "key",
                node.get("key").place,
                format!("match: {}", entries.join(", ")),
            );
            // A node with a value hides the one without, also where it has no limit itself.
            let is_hiding = at < with.len() && without.iter().any(|it| it.str("key") == key);
            self.own(node, &entries, is_hiding);
            let hidden = without.iter().find(|it| it.str("key") == key);
            if is_hiding && hidden.is_some_and(|it| !it.get("descriptors").items().is_empty()) {
                let what = format!(
                    "{key}={value} hides the descriptors below {key} there; here they apply unless it has \
                     the same"
                );
                self.notes.different("key", node.get("key").place, what);
            }
            self.level(node.get("descriptors"), &entries, depth + 1);
        }
    }

    /// The rule of a descriptor with a limit, or of one that hides another.
    fn own(&mut self, node: &Node, entries: &[String], is_hiding: bool) {
        let limit = node.get("rate_limit");
        let wish = format!("{}-{}", self.domain, entries.join("-"));
        if limit.is_null() {
            if is_hiding {
                self.rule(node.get("key").place, &wish, "unlimited", None, entries);
            }
            return;
        }
        for (name, value) in limit.fields() {
            table::survey(RATE_LIMIT, name, value.place, self.notes);
        }
        let place = limit.place;
        if limit.is("unlimited", false) {
            self.notes.taken("unlimited", limit.get("unlimited").place, "limit: unlimited");
            self.rule(place, &wish, "unlimited", None, entries);
            return;
        }
        let unit = limit.str("unit").to_ascii_lowercase();
        let window = match &*unit {
            "second" => "s",
            "minute" => "minute",
            "hour" => "hour",
            "day" => "day",
            "week" => "7d",
            "month" => "30d",
            "year" => "365d",
            _ => {
                self.notes.lost("unit", limit.get("unit").place, "the unit is not known");
                return;
            }
        };
        let count = limit.number("requests_per_unit");
        let Some(count) = count.filter(|it| *it > 0) else {
            let what =
                "no limit here is 0: answer these requests with a route, or see envoy_config";
            self.notes.lost("requests_per_unit", place, what);
            return;
        };
        let is_shadow = node.is("shadow_mode", false);
        let rate = format!("{count}/{window}");
        self.rule(place, &wish, &rate, Some(is_shadow), entries);
        if is_shadow {
            self.notes.taken("shadow_mode", node.get("shadow_mode").place, "mode: shadow");
        }
        let about = match &*unit {
            "month" | "year" => ", the length that it has in the original",
            _ => "",
        };
        self.notes.taken("rate_limit", place, format!("policy with {rate}{about}"));
    }

    fn rule(
        &mut self,
        place: Place,
        wish: &str,
        limit: &str,
        shadow: Option<bool>,
        entries: &[String],
    ) {
        // The values of entries without one in `match` name the counter.
        let has_free = entries.iter().any(|entry| !entry.contains('='));
        let mut policy = Map::default().with("key", if has_free { "ip" } else { "global" });
        if let Some(is_shadow) = shadow {
            policy.put("algorithm", "fixed_window");
            policy.put("limit", limit);
            if is_shadow {
                policy.put("mode", "shadow");
            }
        } else {
            policy.put("limit", limit);
        }
        let name = self.plan.policies.add(wish, place, policy);
        let texts: Vec<String> = entries.iter().map(|it| it.replace("${", "$${")).collect();
        let mut rule = Map::default().with("match", texts).with("policy", name);
        if !has_free {
            rule.put("key", Map::default());
        }
        // As the original: each descriptor alone, and also above the limit.
        rule.put("count", "always");
        self.rules.push((place, rule));
    }
}
