//! The heaviest clients of each policy.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::sleep;
use tollgate_limiter::time::Timestamp;

use super::answer::Answer;
use super::call::Call;
use super::words::Scope;
use crate::telemetry::{TopHistory, TopList};

/// The time in which all workers show the minute in progress, if they have not done so.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The heaviest clients of policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Top {
    scope: Scope,
    /// The complete minutes; 0: the minute in progress.
    minutes: usize,
    policies: Vec<TopOfPolicy>,
}

/// The heaviest clients of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct TopOfPolicy {
    policy: String,
    /// All requests that the policy has judged.
    requests: u64,
    /// Of these, those that were refused.
    refused: u64,
    /// Those with the most requests first.
    clients: Vec<TopClient>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct TopClient {
    id: String,
    /// The masked text of its key.
    text: String,
    /// Its requests: this number at most.
    requests: u64,
    refused: u64,
    /// By how many `requests` can be too high.
    error: u64,
}

/// The lists of all policies, or of one.
pub(super) async fn show(top: &TopHistory, now: Timestamp, call: &Call) -> Answer {
    let (minutes, most) = (call.number("minutes"), call.number("limit"));
    if minutes == 0 && !top.read(now) {
        sleep(FIRST_LOOK).await;
    }
    let names = match call.parameter("policy") {
        Some(name) => vec![name.into()],
        None => top.policies(),
    };
    let lists = names.iter().map(|name| list(name, &top.top(name, minutes, most)));
    Answer::json(&Top { scope: Scope::Node, minutes, policies: lists.collect() })
}

fn list(name: &str, list: &TopList) -> TopOfPolicy {
    let clients = list.clients.iter().map(|client| TopClient {
        id: client.id.to_string(),
        text: client.text.to_string(),
        requests: client.requests,
        refused: client.refused,
        error: client.error,
    });
    TopOfPolicy {
        policy: name.to_owned(),
        requests: list.requests,
        refused: list.refused,
        clients: clients.collect(),
    }
}
