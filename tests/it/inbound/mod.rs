//! Listeners for other protocols than plain HTTP/1.1 over TCP.

mod certificates;
mod http2;
mod proxied;
mod sockets;
mod streams;
mod tls;

use std::fmt::Display;

use crate::support::Gateway;

/// A gateway that forwards the requests of a listener with these fields to `endpoint`.
/// `route`: further fields of the route.
fn gateway(listener: &str, endpoint: &str, route: &str) -> Gateway {
    Gateway::start(&yaml("\"127.0.0.1:0\"", listener, endpoint, route, ""))
}

/// The same with one policy `per-client`, which has these fields.
fn limiting(listener: &str, endpoint: &str, policy: &str, top: &str) -> Gateway {
    let top = format!("policies: {{ per-client: {{ {policy} }} }}\n{top}");
    Gateway::start(&yaml("\"127.0.0.1:0\"", listener, endpoint, "policies: [per-client]", &top))
}

fn yaml(address: impl Display, listener: &str, endpoint: &str, route: &str, top: &str) -> String {
    format!(
        "listeners: [{{ address: {address}, {listener} }}]\n\
         upstreams: {{ app: {{ endpoints: [\"{endpoint}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, {route} }}]\n{top}\n"
    )
}
