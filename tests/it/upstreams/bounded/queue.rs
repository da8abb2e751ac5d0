//! The order of the requests in the queue.

use std::time::Duration;

use super::counting::{Counting, OK};
use super::{ONE_WORKER, TWO_WORKERS, asking, gateway, series, until_waiting, yaml};
use crate::support::{Gateway, eventually};

const PATIENT: &str = "max_connections: 1, queue: { timeout: 60s }";

/// A client with many requests that wait delays the first request of another client by as many
/// requests as there are rounds that have begun.
#[test]
fn clients_take_turns() {
    for workers in [ONE_WORKER, TWO_WORKERS] {
        let origin = Counting::gated(1);
        let gateway = gateway(&origin, PATIENT, workers);
        let mut many = vec![asking(&gateway, "/many", "192.0.2.1")];
        eventually("the connection is in use", || origin.requests().len() == 1);
        many.extend((0..100).map(|_| asking(&gateway, "/many", "192.0.2.1")));
        until_waiting(&gateway, 100);
        let mut one = asking(&gateway, "/one", "192.0.2.2");
        until_waiting(&gateway, 101);
        for passed in 1..=3 {
            origin.pass_one();
            eventually("the next request comes", || origin.requests().len() == passed + 1);
        }
        let requests = origin.requests();
        assert!(requests.iter().any(|path| path == "/one"), "{workers}: {requests:?}");
        origin.open();
        assert_eq!(one.response("GET").status, 200);
        many.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
        assert!(!origin.is_exceeded());
    }
}

#[test]
fn requests_of_one_client_keep_their_order() {
    let origin = Counting::gated(1);
    let gateway = gateway(&origin, PATIENT, ONE_WORKER);
    let mut clients = Vec::new();
    for number in 0..6_u32 {
        clients.push(asking(&gateway, &format!("/{number}"), "192.0.2.1"));
        eventually("the first is on its way", || !origin.requests().is_empty());
        until_waiting(&gateway, number);
    }
    origin.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
    assert_eq!(origin.requests(), ["/0", "/1", "/2", "/3", "/4", "/5"]);
    assert_eq!(origin.connections(), 1, "the connection is handed over");
}

/// Addresses of one network of IPv6 are one client.
#[test]
fn a_network_of_ipv6_has_one_turn() {
    let origin = Counting::gated(1);
    let gateway = gateway(&origin, PATIENT, ONE_WORKER);
    let mut clients = vec![asking(&gateway, "/first", "192.0.2.1")];
    eventually("the connection is in use", || origin.requests().len() == 1);
    for number in 0..10 {
        clients.push(asking(&gateway, "/many", &format!("2001:db8::{number}")));
    }
    until_waiting(&gateway, 10);
    clients.push(asking(&gateway, "/one", "192.0.2.2"));
    until_waiting(&gateway, 11);
    for passed in 1..=2 {
        origin.pass_one();
        eventually("the next request comes", || origin.requests().len() == passed + 1);
    }
    assert_eq!(origin.requests(), ["/first", "/many", "/one"]);
    origin.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
}

#[test]
fn a_client_that_leaves_gives_up_its_place() {
    let origin = Counting::gated(1);
    let gateway = gateway(&origin, PATIENT, ONE_WORKER);
    let mut first = asking(&gateway, "/first", "192.0.2.1");
    eventually("the connection is in use", || origin.requests().len() == 1);
    let leaving: Vec<_> = (0..3).map(|_| asking(&gateway, "/left", "192.0.2.1")).collect();
    let mut last = asking(&gateway, "/last", "192.0.2.1");
    until_waiting(&gateway, 4);
    drop(leaving);
    until_waiting(&gateway, 1);
    origin.open();
    assert_eq!((first.response("GET").status, last.response("GET").status), (200, 200));
    assert_eq!(origin.requests(), ["/first", "/last"]);
}

/// A client that leaves while its request is in progress frees its connection.
#[test]
fn a_client_that_leaves_frees_its_connection() {
    let origin = Counting::gated(1);
    let gateway = gateway(&origin, PATIENT, TWO_WORKERS);
    let first = asking(&gateway, "/first", "192.0.2.1");
    eventually("the connection is in use", || origin.requests().len() == 1);
    let mut second = asking(&gateway, "/second", "192.0.2.1");
    until_waiting(&gateway, 1);
    drop(first);
    eventually("the second request comes", || {
        origin.pass_one();
        origin.requests().len() == 2
    });
    origin.open();
    assert_eq!(second.response("GET").status, 200);
}

/// A retry gives up its connection before it waits for another one.
#[test]
fn retries_do_not_wait_for_their_own_connection() {
    let unavailable = "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n";
    let answer = move |number: usize| match number % 2 {
        1 => unavailable.to_owned(),
        _ => OK.to_owned(),
    };
    let origin = Counting::start(1, Duration::ZERO, answer);
    origin.open();
    let route = "retries: { attempts: 3, on: [\"503\"], budget: 100% }";
    let gateway = Gateway::start(&yaml(&[origin.url()], PATIENT, route, TWO_WORKERS));
    let mut clients: Vec<_> = (0..8).map(|_| asking(&gateway, "/", "192.0.2.1")).collect();
    for client in &mut clients {
        let status = client.response("GET").status;
        assert!([200, 503].contains(&status), "{status}");
    }
    assert!(origin.requests().len() > 8, "some were sent again");
    assert!(!origin.is_exceeded());
    until_waiting(&gateway, 0);
}

/// A connection that the backend closes is replaced, and no request is lost.
#[test]
fn a_backend_that_closes_its_connections_loses_no_request() {
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let origin = Counting::start(2, Duration::ZERO, |_| closing.to_owned());
    origin.open();
    let fields = "max_connections: 2, queue: { timeout: 60s }";
    let gateway = gateway(&origin, fields, TWO_WORKERS);
    let mut clients: Vec<_> = (0..40).map(|_| asking(&gateway, "/", "192.0.2.1")).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
    assert!(!origin.is_exceeded());
    assert_eq!(origin.requests().len(), 40);
}

/// Requests go to the endpoint that has a free connection.
#[test]
fn an_endpoint_with_a_free_connection_is_preferred() {
    for balance in ["least_requests", "round_robin", "random", "{ hash: ip }"] {
        let busy = Counting::gated(1);
        let free = Counting::gated(1);
        let urls = [busy.url(), free.url()];
        let fields = format!("{PATIENT}, balance: {balance}");
        let gateway = Gateway::start(&yaml(&urls, &fields, "", TWO_WORKERS));
        let mut clients: Vec<_> = (0..2).map(|_| asking(&gateway, "/", "192.0.2.1")).collect();
        eventually("both endpoints have a request", || {
            (busy.requests().len(), free.requests().len()) == (1, 1)
        });
        clients.extend((0..6).map(|_| asking(&gateway, "/", "192.0.2.1")));
        until_waiting(&gateway, 6);
        free.open();
        eventually("the free endpoint gets the rest", || free.requests().len() == 7);
        busy.open();
        clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
        let open = series(&gateway, "tollgate_upstream_open_connections{upstream=\"app\"}");
        assert!(open.is_some_and(|open| open <= 2.0), "{balance}: {open:?}");
    }
}
