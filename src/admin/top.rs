//! The heaviest clients of each policy.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tollgate_limiter::time::Timestamp;

use super::answer::Answer;
use super::call::Call;
use super::problem::Problem;
use crate::telemetry::{TopHistory, TopList};

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
pub(super) async fn show(top: &TopHistory, now: Timestamp, call: &Call) -> Result<Answer, Problem> {
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
        "clients": clients.collect::<Vec<_>>(),
    })
}
