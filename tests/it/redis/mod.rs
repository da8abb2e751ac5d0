//! Several gateways on one Redis: the guarantees across all of them, and the behaviour
//! while it is unavailable.

mod budgets;
mod clocks;
mod closing;
mod conformance;
mod counting_later;
mod credentials;
mod crowds;
mod deadline;
mod debts;
mod denials;
mod exactness;
mod faults;
mod handing_over;
mod in_flight;
mod late;
mod leaving;
mod library;
mod moving_state;
mod one_ledger;
mod outages;
mod overrides;
mod peeks;
mod profiles;
mod refunds;
mod retries;
mod services;
mod settled_later;
mod sharing;
mod topologies;
mod waits;

use crate::support::load::is_local;
use crate::support::{Gateway, eventually};

/// For tests of the store's decisions: a machine that is busy with other tests must not
/// look like an unavailable store.
const PATIENT: &str = "timeout: 2s";

/// A node with one worker whose counters are in the Redis that `store` describes, such as
/// `url: redis://...`. The policy `each` counts by `X-Client`, and has the further fields
/// `policy`, such as `limit: 5/s`.
fn node(store: &str, policy: &str) -> Gateway {
    let policies = format!("each: {{ key: \"header:x-client\", {policy} }}");
    node_of(&format!("{store}, {PATIENT}"), &policies, "[each]", 1)
}

/// A node with these policies, which the list names, and this number of workers.
fn node_of(store: &str, policies: &str, names: &str, workers: usize) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ redis: {{ {store} }} }}\n\
         policies: {{ {policies}, probe: {{ key: ip, limit: 1M/day }} }}\n\
         routes:\n\
         - {{ path: /probe, policies: [probe], respond: {{ body: ok }} }}\n\
         - {{ path: \"/*\", policies: {names}, respond: {{ body: ok }} }}\n\
         runtime: {{ workers: {workers} }}\n"
    ))
}

/// Waits until every worker of the gateway uses its store.
fn wait_for_store(gateway: &Gateway) {
    // Connections are distributed randomly over the workers.
    const CONNECTIONS: usize = 8;
    eventually("the gateway has its store", || {
        (0..CONNECTIONS).all(|_| !is_local(&gateway.client().get("/probe", &[])))
    });
}
