//! `authorizers`: a server is asked whether a request may pass.

mod answers;
mod cache;
pub(crate) mod checker;
mod failures;
mod grpc;
mod page;
mod policies;
mod portal;
mod secrets;

use crate::support::{Client, Gateway, Origin, Response};
use portal::Portal;

const ANN: &str = "Cookie: session=ann";

/// A gateway whose only route asks `portal`. `authorizer` and `route` are further fields.
fn gateway(portal: &str, origin: &Origin, authorizer: &str, route: &str, top: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         authorizers: {{ sso: {{ http: \"{portal}\", take: [remote-user, remote-groups], \
                      {authorizer} }} }}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         routes: [{{ path: \"/*\", upstream: app, authorizer: sso, {route} }}]\n\
         runtime: {{ workers: 1 }}\n{top}\n",
        origin.address()
    ))
}

fn usual(portal: &Portal, origin: &Origin) -> Gateway {
    gateway(&portal.url(), origin, "", "", "")
}

fn get(gateway: &Gateway, path: &str, fields: &[&str]) -> Response {
    gateway.client().get(path, fields)
}

/// The outcomes in the access log of the first requests.
fn outcomes(gateway: &Gateway, count: usize) -> Vec<String> {
    let lines = gateway.access_lines(count);
    lines.iter().map(|line| line["outcome"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A listener for the metrics.
const METRICS: &str = "admin: { address: \"127.0.0.1:0\", tokens: [\
                       { name: scraper, role: metrics, token: metrics-0123456789abcdef }] }";

fn metrics(gateway: &Gateway) -> String {
    let mut client = Client::connect(gateway.addresses()[1]);
    let token = "Authorization: Bearer metrics-0123456789abcdef";
    client.send(format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{token}\r\n\r\n").as_bytes());
    client.response("GET").text()
}
