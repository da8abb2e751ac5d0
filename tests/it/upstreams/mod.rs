//! Upstreams of several endpoints, of other protocols, and in trouble.

mod balance;
mod blame;
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

/// Routes everything to these endpoints, with further fields for the upstream
/// and for the route.
fn gateway(endpoints: &[String], upstream: &str, route: &str) -> Gateway {
    gateway_with(endpoints, upstream, route, "runtime: { workers: 1 }")
}

/// The same, with fields at the top of the file.
fn gateway_with(endpoints: &[String], upstream: &str, route: &str, top: &str) -> Gateway {
    let mut list = String::new();
    for endpoint in endpoints {
        write!(list, "{endpoint:?}, ").expect("a string takes everything");
    }
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [{list}], {upstream} }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, {route} }}]\n{top}\n"
    ))
}
