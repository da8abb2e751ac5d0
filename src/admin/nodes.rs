//! The nodes that share a store.

use serde_json::{Value, json};

use super::answer::Answer;
use super::call::Call;
use super::node::Node;
use super::problem::Problem;

/// This node, and those that share its store, by their identifiers.
pub(super) async fn list(node: &Node, call: &Call) -> Result<Answer, Problem> {
    let own = (node.own_record)();
    let Some(control) = &node.control else {
        return Answer::page(vec![(String::new(), of("local", own, true, "node"))], call);
    };
    let own_id = control.node_id();
    let Ok(records) = control.records().await else {
        return Err(Problem::unavailable("the nodes are listed in Redis, which does not answer"));
    };
    let mut nodes: Vec<(String, Value)> = records
        .into_iter()
        .filter(|it| it.id != own_id)
        .map(|it| {
            // A node of an earlier version is alive, and says nothing else.
            let record = it.record.and_then(|record| serde_json::from_slice(&record).ok());
            let shown = of(&it.id, record.unwrap_or_default(), false, "cluster");
            (it.id, shown)
        })
        .collect();
    let shown = of(&own_id, own, true, "cluster");
    nodes.push((own_id, shown));
    nodes.sort_by(|one, other| one.0.cmp(&other.0));
    Answer::page(nodes, call)
}

fn of(id: &str, record: Value, is_this: bool, scope: &str) -> Value {
    let mut shown = match record {
        Value::Object(fields) => Value::Object(fields),
        _ => json!({}),
    };
    shown["id"] = json!(id);
    shown["this"] = json!(is_this);
    shown["scope"] = json!(scope);
    shown
}
