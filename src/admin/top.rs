//! The heaviest clients of each policy.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tollgate_limiter::time::Timestamp;

use super::answer::Answer;
use super::call::Call;
use super::cluster::{Cluster, is_cluster};
use super::node::Node;
use super::problem::Problem;
use crate::telemetry::{Streams, TopList};

/// The clients of a list if the caller does not say how many.
const CLIENTS: usize = 20;
/// The most clients of a list.
const MAX_CLIENTS: usize = 128;
/// The most minutes of a list.
const MAX_MINUTES: usize = 10;
/// The time in which all workers show the minute in progress, if they have not done so.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The lists of all policies, or of one.
///
/// # Errors
/// 400, if a number is out of range.
pub(super) async fn show(node: &Node, now: Timestamp, call: &Call) -> Result<Answer, Problem> {
    if is_cluster(call)? {
        return show_cluster(&*node.cluster(now).await, call);
    }
    let top = &node.top;
    let minutes = call.number("minutes", 0, (0, MAX_MINUTES))?;
    let most = call.number("limit", CLIENTS, (1, MAX_CLIENTS))?;
    if minutes == 0 && !top.read(now) {
        sleep(FIRST_LOOK).await;
    }
    let names = match call.parameter("policy") {
        Some(name) => vec![name.into()],
        None => top.policies(),
    };
    let lists: Vec<Value> =
        names.iter().map(|name| list(name, &top.top(name, minutes, most))).collect();
    Ok(Answer::json(&json!({ "scope": "node", "minutes": minutes, "policies": lists })))
}

/// The lists of all nodes.
fn show_cluster(cluster: &Cluster, call: &Call) -> Result<Answer, Problem> {
    if call.parameter("minutes").is_some() {
        return Err(Problem::bad_request(
            "with scope=cluster the lists are those of the minute in progress and the one before \
             it: leave minutes out",
        ));
    }
    let most = call.number("limit", CLIENTS, (1, MAX_CLIENTS))?;
    let none = Streams::default();
    let lists: Vec<Value> = match call.parameter("policy") {
        Some(name) => {
            let clients = cluster.policies().get(name).map_or(&none, |it| &it.clients);
            vec![list(name, &clients.list(most))]
        }
        None => {
            let all = cluster.policies().iter();
            let all = all.map(|(name, it)| list(name, &it.clients.list(most)));
            all.filter(|list| list["requests"] != 0).collect()
        }
    };
    let mut body = cluster.about();
    (body["seconds"], body["policies"]) = (cluster.clients_of(), json!(lists));
    Ok(Answer::json(&body))
}

fn list(name: &str, list: &TopList) -> Value {
    let clients = list.clients.iter().map(|client| {
        json!({
            "id": client.id.to_string(),
            "text": client.text,
            "requests": client.requests,
            "refused": client.refused,
            "error": client.error,
        })
    });
    json!({
        "policy": name,
        "requests": list.requests,
        "refused": list.refused,
        "unlisted": list.unlisted,
        "clients": clients.collect::<Vec<_>>(),
    })
}
