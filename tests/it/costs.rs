//! Costs of requests that are known before the response, and requests that are not counted
//! because of the status of their response.

use std::io::Write as _;

use crate::support::{Origin, Response, StoreKind, eventually, on_every_store};

on_every_store!(
    a_request_costs_the_units_of_its_policy_and_nothing_if_refused,
    a_trusted_proxy_names_the_cost_up_to_the_allowed_maximum,
    an_untrusted_client_does_not_name_the_cost_of_its_requests,
    a_body_costs_its_declared_length_and_finally_its_received_length,
    wrong_passwords_are_counted_and_logins_are_not,
    requests_that_clients_leave_are_counted_as_the_policy_says,
);

/// The status, and the remaining units.
fn seen(response: &Response) -> (u16, u64) {
    (response.status, response.number("X-Ratelimit-Remaining"))
}

fn a_request_costs_the_units_of_its_policy_and_nothing_if_refused(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 10/day, cost: 4");
    let mut client = gateway.client();
    let got = [0; 4].map(|_| seen(&client.get("/", &[])));
    assert_eq!(got, [(200, 6), (200, 2), (429, 2), (429, 2)]);
    assert_eq!(origin.received().len(), 2);
}

fn a_trusted_proxy_names_the_cost_up_to_the_allowed_maximum(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 20/day, cost: { header: x-cost, default: 2, max: 5 }";
    let top = "client: { trusted_proxies: [127.0.0.0/8] }";
    let gateway = store.limiting_with(&origin, policy, top);
    let mut client = gateway.client();
    let costs: [&[&str]; 4] = [&["X-Cost: 3"], &["X-Cost: 900"], &[], &["X-Cost: -1"]];
    let got = costs.map(|cost| seen(&client.get("/", cost)));
    assert_eq!(got, [(200, 17), (200, 12), (200, 10), (200, 8)]);
}

fn an_untrusted_client_does_not_name_the_cost_of_its_requests(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 20/day, cost: { header: x-cost, default: 2, max: 5 }";
    let top = "client: { trusted_proxies: [192.0.2.0/24] }";
    let gateway = store.limiting_with(&origin, policy, top);
    let mut client = gateway.client();
    let got = ["X-Cost: 0", "X-Cost: 1"].map(|cost| seen(&client.get("/", &[cost])));
    assert_eq!(got, [(200, 18), (200, 16)]);
}

fn a_body_costs_its_declared_length_and_finally_its_received_length(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 100/day, cost: { body_bytes: 1KiB }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    let body = [b'x'; 2_500];
    assert_eq!(seen(&client.request("POST", "/", &[], &body)), (200, 97));
    client.send(b"POST / HTTP/1.1\r\nHost: gateway.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n", body.len()).as_bytes());
    client.send(&body);
    client.send(b"\r\n0\r\n\r\n");
    // One unit is reserved for a length that is not known yet.
    assert_eq!(seen(&client.response("POST")), (200, 96));
    assert_eq!(seen(&client.get("/", &[])), (200, 93), "three units came, and one more is held");
    assert_eq!(seen(&client.get("/", &[])), (200, 93), "no body has no cost in the end");
    assert!(origin.received().iter().take(2).all(|request| request.body == body));
}

fn wrong_passwords_are_counted_and_logins_are_not(store: StoreKind) {
    let origin = Origin::answering(|request| {
        let status = if request.line().contains("wrong") { "401 Unauthorized" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    let gateway = store.limiting(&origin, "key: ip, limit: 2/day, count: { status: [401] }");
    let mut client = gateway.client();
    let mut status = |path: &str| client.get(path, &[]).status;
    assert_eq!([0; 5].map(|_| status("/right")), [200; 5]);
    assert_eq!([0; 2].map(|_| status("/wrong")), [401; 2]);
    assert_eq!([status("/wrong"), status("/right")], [429; 2]);
}

/// A client that leaves before the response has had its request performed, so it is counted unless
/// the policy says otherwise.
fn requests_that_clients_leave_are_counted_as_the_policy_says(store: StoreKind) {
    for (left, admitted) in [("", false), (", left: count", false), (", left: ignore", true)] {
        let origin = Origin::serving(|stream, read| {
            while let Some(request) = read() {
                if !request.line().contains("slow") {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            }
        });
        let policy = format!("key: ip, limit: 2/day, count: {{ status: [401]{left} }}");
        let gateway = store.limiting(&origin, &policy);
        for number in 1..=2 {
            let mut client = gateway.client();
            client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            eventually("the origin has the request", || origin.received().len() == number);
            drop(client);
            gateway.access_lines(number);
        }
        let status = || gateway.client().get("/", &[]).status;
        match admitted {
            true => eventually("the units are back", || status() == 200),
            false => assert_eq!(status(), 429, "{left:?}"),
        }
    }
}
