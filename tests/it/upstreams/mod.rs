//! Upstreams with several endpoints, with other protocols, and with failures.

mod balance;
mod blame;
mod bounded;
mod cancels;
mod early;
mod health;
mod http2;
mod repetitions;
mod retries;
mod tls;
mod transports;
mod windows;

use std::fmt::Write as _;

use crate::support::Gateway;

/// Routes all requests to these endpoints. `upstream` and `route` are further fields.
fn gateway(endpoints: &[String], upstream: &str, route: &str) -> Gateway {
    gateway_with(endpoints, upstream, route, "runtime: { workers: 1 }")
}

/// The same, with further fields at the top level of the file.
fn gateway_with(endpoints: &[String], upstream: &str, route: &str, top: &str) -> Gateway {
    Gateway::start(&config(endpoints, upstream, route, top))
}

/// The configuration of such a gateway.
fn config(endpoints: &[String], upstream: &str, route: &str, top: &str) -> String {
    let mut list = String::new();
    for endpoint in endpoints {
        write!(list, "{endpoint:?}, ").expect("a string takes everything");
    }
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [{list}], {upstream} }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, {route} }}]\n{top}\n"
    )
}
