//! Requests with the same key go to the same endpoint.

use std::collections::HashMap;

use super::gateway;
use crate::support::{Client, Origin};

/// An origin that responds with its name.
fn named(name: &'static str) -> Origin {
    Origin::answering(move |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len())
    })
}

fn homes(client: &mut Client) -> HashMap<usize, String> {
    let home = |user: usize| client.get("/", &[&format!("X-User: user-{user}")]).text();
    let mut homes = HashMap::new();
    (0..60).map(home).enumerate().for_each(|(user, home)| {
        homes.insert(user, home);
    });
    homes
}

#[test]
fn a_key_stays_at_its_endpoint_and_few_move_when_an_endpoint_is_removed() {
    let origins = ["a", "b", "c"].map(named);
    let endpoints = origins.each_ref().map(|origin| format!("http://{}", origin.address()));
    let balance = "balance: { hash: header:x-user }";
    let with_all = gateway(&endpoints, balance, "");
    let before = homes(&mut with_all.client());
    assert_eq!(before, homes(&mut with_all.client()), "they stay");
    for origin in ["a", "b", "c"] {
        let users = before.values().filter(|home| *home == origin).count();
        assert!((8..=32).contains(&users), "{origin} is the home of {users}");
    }
    // Another gateway with another order of endpoints, and without one of them.
    let fewer = [endpoints[2].clone(), endpoints[0].clone()];
    let after = homes(&mut gateway(&fewer, balance, "").client());
    for (user, home) in &before {
        assert!(home == "b" || after[user] == *home, "{user} moved from {home}");
    }
}

#[test]
fn a_request_without_the_key_goes_to_any_endpoint() {
    let origins = ["a", "b"].map(named);
    let endpoints = origins.each_ref().map(|origin| format!("http://{}", origin.address()));
    let gateway = gateway(&endpoints, "balance: { hash: header:x-user }", "");
    let mut client = gateway.client();
    for _ in 0..40 {
        assert_eq!(client.get("/", &[]).status, 200);
    }
    assert!(origins.iter().all(|origin| !origin.received().is_empty()));
}
