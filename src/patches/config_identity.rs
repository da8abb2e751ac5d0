//! What identifies a configuration, so that nodes with a common store notice that theirs differ.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The digests of a configuration, as a node writes them into its record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigIdentity {
    /// The digest of the file, as written.
    #[serde(default)]
    pub config: String,
    /// The digests of what must be equal on all nodes, by the names of sections. `format` is among
    /// them: digests can be compared if it is equal.
    #[serde(default)]
    pub config_sections: BTreeMap<String, String>,
}

/// The name under which the sections have their format.
pub const FORMAT: &str = "format";

impl ConfigIdentity {
    /// The names of all sections that are compared.
    pub fn sections(&self) -> impl Iterator<Item = &str> {
        self.config_sections.keys().map(|name| &**name).filter(|name| *name != FORMAT)
    }

    /// The sections in which the configuration of another node differs. None: the versions of both
    /// nodes have no common format of digests.
    pub fn differs_in(&self, other: &Self) -> Option<Vec<&str>> {
        let own = &self.config_sections;
        let other_sections = &other.config_sections;
        let is_equal = |name: &str| own.get(name) == other_sections.get(name);
        if own.contains_key(FORMAT) && is_equal(FORMAT) {
            return Some(self.sections().filter(|name| !is_equal(name)).collect());
        }
        (self.config == other.config).then(Vec::new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sections_are_compared_within_a_format_and_files_between_formats() {
        let of = |record| serde_json::from_value::<ConfigIdentity>(record).expect("it is one");
        let own = of(json!({
            "config": "a",
            "config_sections": { "format": "1", "policies": "p", "routes": "r" },
            "later": 1,
        }));
        let differs = |record| own.differs_in(&of(record)).map(|it| it.join(" "));
        let sections = |format: &str, policies: &str, routes: &str| {
            let sections = json!({ "format": format, "policies": policies, "routes": routes });
            json!({ "config": "b", "config_sections": sections })
        };
        assert_eq!(differs(sections("1", "p", "r")).as_deref(), Some(""));
        assert_eq!(differs(sections("1", "p", "x")).as_deref(), Some("routes"));
        assert_eq!(differs(sections("1", "x", "x")).as_deref(), Some("policies routes"));
        let fewer = json!({ "config": "a", "config_sections": { "format": "1", "policies": "p" } });
        assert_eq!(differs(fewer).as_deref(), Some("routes"));
        // Another version, or one before there were digests of sections.
        assert_eq!(differs(sections("2", "p", "r")), None);
        assert_eq!(differs(json!({ "config": "a" })).as_deref(), Some(""));
        assert_eq!(differs(json!({ "config": "b" })), None);
        assert_eq!(differs(json!({})), None);
    }
}
