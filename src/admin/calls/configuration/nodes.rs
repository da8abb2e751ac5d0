//! The nodes that share a store.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::admin::answer::Answer;
use crate::admin::call::Call;
use crate::admin::node::Node;
use crate::admin::problem::Problem;
use crate::admin::words::Scope;
use crate::patches::ConfigIdentity;

/// A node. One of an earlier version has only `id`, `this`, `scope` and `differs_in`; one of a later
/// version may have further fields.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Node")]
pub struct ShownNode {
    id: String,
    /// Whether it is the node that answers.
    this: bool,
    scope: Scope,
    /// The sections in which its configuration differs from that of the node that answers. Null: its
    /// version does not say enough to be compared.
    differs_in: Option<Vec<String>>,
    #[serde(flatten)]
    record: Record,
}

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Record {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// When it began (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<String>,
    /// When it has said this (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<String>,
    /// The digest of its file, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<String>,
    /// The digests of what must be equal on all nodes, by the names of sections, and their `format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    config_sections: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusals_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    /// The workers that do not ask Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    breakers_open: Option<u64>,
    /// How many policies are changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    patches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored_patches: Option<Vec<IgnoredPatch>>,
    /// The address of its admin listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<String>,
    /// What only later versions know.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A change that a node ignores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct IgnoredPatch {
    policy: String,
    because: String,
}

/// This node, and those that share its store, by their identifiers.
pub async fn list(node: &Node, call: &Call) -> Result<Answer, Problem> {
    let own = Record::of((node.own_record)());
    let Some(control) = &node.control else {
        let shown = ShownNode::own("local", own, Scope::Node);
        return Answer::page(vec![(String::new(), shown)], call);
    };
    let own_id = control.node_id();
    let Ok(records) = control.records().await else {
        return Err(Problem::unavailable("the nodes are listed in Redis, which does not answer"));
    };
    let identity = own.identity();
    let mut nodes: Vec<(String, ShownNode)> = records
        .into_iter()
        .filter(|it| it.id != own_id)
        .map(|it| {
            // A node of an earlier version is alive, and says nothing else.
            let record = it.record.and_then(|record| serde_json::from_slice(&record).ok());
            let shown = ShownNode::other(&it.id, record.unwrap_or_default(), &identity);
            (it.id, shown)
        })
        .collect();
    let shown = ShownNode::own(&own_id, own, Scope::Cluster);
    nodes.push((own_id, shown));
    nodes.sort_by(|one, other| one.0.cmp(&other.0));
    Answer::page(nodes, call)
}

impl ShownNode {
    /// The node that answers.
    fn own(id: &str, record: Record, scope: Scope) -> Self {
        Self { id: id.to_owned(), this: true, scope, differs_in: Some(Vec::new()), record }
    }

    /// Another node, seen from one with the configuration `own`.
    fn other(id: &str, record: Value, own: &ConfigIdentity) -> Self {
        let record = Record::of(record);
        let differs_in = own
            .differs_in(&record.identity())
            .map(|sections| sections.into_iter().map(str::to_owned).collect());
        Self { id: id.to_owned(), this: false, scope: Scope::Cluster, differs_in, record }
    }
}

impl Record {
    /// A record that this version cannot read says no more than one of an earlier version.
    fn of(record: Value) -> Self {
        let mut record: Self = serde_json::from_value(record).unwrap_or_default();
        record.others.retain(|name, _| !["id", "this", "scope", "differs_in"].contains(&&**name));
        record
    }

    fn identity(&self) -> ConfigIdentity {
        ConfigIdentity {
            config: self.config.clone().unwrap_or_default(),
            config_sections: self.config_sections.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_of_all_versions_are_shown_with_fields_of_known_types() {
        let own = ConfigIdentity { config: "c".to_owned(), ..ConfigIdentity::default() };
        let shown = |record| json!(ShownNode::other("a", record, &own));
        let known = json!({ "id": "a", "this": false, "scope": "cluster", "differs_in": null });
        for none in [Value::Null, json!([]), json!({}), json!({ "version": 1 })] {
            assert_eq!(shown(none.clone()), known, "{none}");
        }
        let later = shown(
            json!({ "version": "9.0", "id": "b", "this": true, "later": [1], "differs_in": 1 }),
        );
        assert_eq!(later["differs_in"], Value::Null);
        assert_eq!(shown(json!({ "config": "c" }))["differs_in"], json!([]));
        assert_eq!((&later["id"], &later["this"]), (&json!("a"), &json!(false)));
        assert_eq!((&later["version"], &later["later"]), (&json!("9.0"), &json!([1])));
    }
}
