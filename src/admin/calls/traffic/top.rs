//! The heaviest clients of each policy.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::sleep;
use tollgate_core::time::Timestamp;

use crate::admin::answer::Answer;
use crate::admin::call::Call;
use crate::admin::cluster::{About, Cluster, is_cluster};
use crate::admin::node::Node;
use crate::admin::outcomes::ratio;
use crate::admin::problem::Problem;
use crate::admin::reveal;
use crate::admin::words::Scope;
use crate::telemetry::{Streams, TopList};

/// The time in which all workers show the minute in progress, if they have not done so.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The heaviest clients of policies on this node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Top {
    scope: Scope,
    /// The complete minutes; 0: the minute in progress.
    minutes: usize,
    policies: Vec<TopOfPolicy>,
}

/// The heaviest clients of policies on all nodes that share the store.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TopOfCluster {
    #[serde(flatten)]
    about: About,
    /// How long the lists reach back: the minute in progress and the one before it.
    seconds: Option<f64>,
    policies: Vec<TopOfPolicy>,
}

/// The heaviest clients of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct TopOfPolicy {
    policy: String,
    /// All requests that the policy has judged.
    requests: u64,
    /// Of these, those that were refused.
    refused: u64,
    /// The most requests of a client that is not listed.
    unlisted: u64,
    /// Those with the most requests first.
    clients: Vec<TopClient>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct TopClient {
    id: String,
    /// The masked text of its key.
    text: String,
    /// The whole key, with `reveal=true`. It is absent if it was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole_key: Option<String>,
    /// Its requests: this number at most.
    requests: u64,
    /// Of these, those that were refused: this number at most.
    refused: u64,
    /// By how many either number can be too high.
    error: u64,
    /// The largest share of its limit that it had used after a request. It is absent if there is
    /// no limit, and of requests to other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#use: Option<f64>,
    /// The plan that it had then. It is absent if that was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

/// The lists of all policies, or of one.
///
/// # Errors
/// 400, if minutes are asked for of all nodes.
pub async fn show(node: &Node, now: Timestamp, call: &Call) -> Result<Answer, Problem> {
    if is_cluster(call) {
        return show_cluster(&*node.cluster(now).await, call);
    }
    let top = &node.top;
    let minutes = call.number("minutes");
    let most = call.number("limit");
    if minutes == 0 && !top.read(now) {
        sleep(FIRST_LOOK).await;
    }
    let names = match call.parameter("policy") {
        Some(name) => vec![name.into()],
        None => top.policies(),
    };
    let lists = names.iter().map(|name| list(name, &top.top(name, minutes, most), call.reveals()));
    let policies: Vec<TopOfPolicy> = lists.collect();
    let clients = policies.iter().flat_map(|list| &list.clients);
    let count = clients.filter(|it| it.whole_key.is_some()).count();
    let change = call.reveals().then(|| reveal::shown(call, count, None));
    Ok(Answer::json(&Top { scope: Scope::Node, minutes, policies }).recorded(change))
}

/// The lists of all nodes.
fn show_cluster(cluster: &Cluster, call: &Call) -> Result<Answer, Problem> {
    if call.number("minutes") > 0 {
        return Err(Problem::bad_request(
            "with scope=cluster the lists are those of the minute in progress and the one before \
             it: leave minutes out, or write 0",
        ));
    }
    let most = call.number("limit");
    let policies = match call.parameter("policy") {
        Some(name) => {
            let none = Streams::default();
            let clients = cluster.policies().get(name).map_or(&none, |it| &it.clients);
            vec![list(name, &clients.list(most), false)]
        }
        None => {
            let all = cluster.policies().iter();
            let all = all.map(|(name, it)| list(name, &it.clients.list(most), false));
            all.filter(|list| list.requests > 0).collect()
        }
    };
    let about = cluster.about();
    let seconds = cluster.clients_of();
    Ok(Answer::json(&TopOfCluster { about, seconds, policies }))
}

fn list(name: &str, list: &TopList, is_whole: bool) -> TopOfPolicy {
    let clients = list.clients.iter().map(|client| TopClient {
        id: client.id.to_string(),
        text: client.text.shown.to_string(),
        whole_key: client.text.whole.as_ref().filter(|_| is_whole).map(|it| it.as_str().to_owned()),
        requests: client.requests,
        refused: client.refused,
        error: client.error,
        r#use: client.used.and_then(|share| ratio(share.into(), 1000)),
        plan: client.text.plan.as_deref().map(str::to_owned),
    });
    TopOfPolicy {
        policy: name.to_owned(),
        requests: list.requests,
        refused: list.refused,
        unlisted: list.unlisted,
        clients: clients.collect(),
    }
}
