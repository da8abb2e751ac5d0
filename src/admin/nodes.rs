//! The nodes that share a store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer::Answer;
use super::call::Call;
use super::node::Node;
use super::problem::Problem;
use super::words::Scope;

/// A node. One of an earlier version has only `id`, `this` and `scope`; one of a later version may
/// have further fields.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Node")]
pub(super) struct ShownNode {
    id: String,
    /// Whether it is the node that answers.
    this: bool,
    scope: Scope,
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
pub(super) async fn list(node: &Node, call: &Call) -> Result<Answer, Problem> {
    let own = (node.own_record)();
    let Some(control) = &node.control else {
        return Answer::page(vec![(String::new(), of("local", own, true, Scope::Node))], call);
    };
    let own_id = control.node_id();
    let Ok(records) = control.records().await else {
        return Err(Problem::unavailable("the nodes are listed in Redis, which does not answer"));
    };
    let mut nodes: Vec<(String, ShownNode)> = records
        .into_iter()
        .filter(|it| it.id != own_id)
        .map(|it| {
            // A node of an earlier version is alive, and says nothing else.
            let record = it.record.and_then(|record| serde_json::from_slice(&record).ok());
            let shown = of(&it.id, record.unwrap_or_default(), false, Scope::Cluster);
            (it.id, shown)
        })
        .collect();
    let shown = of(&own_id, own, true, Scope::Cluster);
    nodes.push((own_id, shown));
    nodes.sort_by(|one, other| one.0.cmp(&other.0));
    Answer::page(nodes, call)
}

fn of(id: &str, record: Value, this: bool, scope: Scope) -> ShownNode {
    // A record that this version cannot read says no more than one of an earlier version.
    let mut record: Record = serde_json::from_value(record).unwrap_or_default();
    record.others.retain(|name, _| !["id", "this", "scope"].contains(&&**name));
    ShownNode { id: id.to_owned(), this, scope, record }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_of_all_versions_are_shown_with_fields_of_known_types() {
        let shown = |record| json!(of("a", record, false, Scope::Cluster));
        let known = json!({ "id": "a", "this": false, "scope": "cluster" });
        for none in [Value::Null, json!([]), json!({}), json!({ "version": 1 })] {
            assert_eq!(shown(none.clone()), known, "{none}");
        }
        let later = shown(json!({ "version": "9.0", "id": "b", "this": true, "later": [1] }));
        assert_eq!((&later["id"], &later["this"]), (&json!("a"), &json!(false)));
        assert_eq!((&later["version"], &later["later"]), (&json!("9.0"), &json!([1])));
    }
}
