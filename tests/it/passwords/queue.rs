//! Many wrong passwords at once.

use std::iter;

use super::{HUNTER2, Users, field, metric};
use crate::support::{Client, eventually};

/// Wrong passwords from many addresses: 64 wait, the others get 503 at once, and routes without
/// `auth` are served.
#[test]
fn the_queue_has_a_bound() {
    let users = Users::new();
    // With this cost a check takes longer than all the requests need to arrive.
    users.rewrite(&format!("ann:{}\n", HUNTER2.replace("$05$", "$12$")));
    let gateway = users.start("trusted_proxies: [127.0.0.1]", super::DEMANDING);
    let mut clients: Vec<Client> = (0..90).map(|_| gateway.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let credentials = field("ann", &format!("wrong-{number}"));
        let request = format!(
            "GET / HTTP/1.1\r\nHost: gateway.test\r\nX-Forwarded-For: 192.0.2.{number}\r\n\
             {credentials}\r\n\r\n"
        );
        client.send(request.as_bytes());
    }
    let busy = "tollgate_auth_total{method=\"user\",result=\"passwords_busy\"}";
    let series = format!("{busy} ");
    eventually("the queue is full", || {
        let text = super::shown(&gateway, "/metrics");
        let waiting = metric(&gateway, "tollgate_passwords_waiting");
        assert!(waiting <= 64, "{waiting}");
        text.lines().any(|line| line.starts_with(&series))
    });
    let mut client = gateway.client();
    assert_eq!(client.get("/open", &[]).status, 200, "a route without auth is served");
    // All that do not wait are refused. Those that wait are refused after a while.
    // Most of them are among the last ones.
    let mut answers = iter::from_fn(|| clients.pop()).map(|mut client| client.response("GET"));
    let refused = answers.find(|answer| answer.field("Retry-After").is_some());
    let refused = refused.expect("a request beyond the bound");
    assert_eq!((refused.status, refused.number("Retry-After")), (503, 1));
    eventually("those beyond the bound have their answer", || metric(&gateway, busy) >= 20);
    // Clients that leave hold no place. On a busy machine a check with this cost takes longer than
    // a request may wait, so another check costs less.
    drop(clients);
    users.rewrite(&format!("ann:{HUNTER2}\n"));
    eventually("a place is free", || {
        let wrong = field("ann", "another");
        let answer = client.get("/", &["X-Forwarded-For: 198.51.100.1", &wrong]);
        answer.status == 401
    });
}
