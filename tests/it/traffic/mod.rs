//! Which upstream a request gets: splits, fallbacks, mirrors, and compression.

mod compression;
mod fallback;
mod mirror;
mod split;

use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::support::{Client, Gateway, Origin};

pub(crate) const TOKEN: &str = "metrics-0123456789abcdef";

/// A gateway with one route for all requests and these upstreams. The metrics are those of
/// [`metrics`].
fn gateway(upstreams: &[(&str, String)], route: &str, top: &str) -> Gateway {
    Gateway::start(&yaml(upstreams, route, top))
}

fn yaml(upstreams: &[(&str, String)], route: &str, top: &str) -> String {
    let mut list = String::new();
    for (name, fields) in upstreams {
        write!(list, "{name}: {{ {fields} }}, ").expect("a string takes everything");
    }
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ {list} }}\n\
         routes: [{{ path: \"/*\", {route} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: m, role: metrics, token: {TOKEN} }}] }}\n\
         {top}\n"
    )
}

/// The fields of an upstream with these endpoints.
fn endpoint(address: SocketAddr) -> String {
    format!("endpoints: [\"http://{address}\"]")
}

/// The values of the series of this metric that have all of these labels, summed.
pub(crate) fn metric(gateway: &Gateway, name: &str, labels: &[&str]) -> f64 {
    let admin = gateway.addresses()[1];
    let mut client = Client::connect(admin);
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n");
    client.send(format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n").as_bytes());
    let response = client.response("GET");
    assert_eq!(response.status, 200);
    let text = response.text();
    let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.fold(0.0, |sum, value| sum + value)
}

/// Responds to every request with this text.
fn saying(text: &'static str) -> Origin {
    Origin::answering(move |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
    })
}
