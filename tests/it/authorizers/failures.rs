//! What happens if an authorizer gives no answer.

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use super::portal::{Portal, respond};
use super::{ANN, gateway, get, outcomes, usual};
use crate::support::{Gateway, Origin, Reserved, eventually};

#[test]
fn a_stopped_authorizer_lets_no_request_pass() {
    let closed = Reserved::new();
    let origin = Origin::hello();
    let url = format!("http://{}/verify", closed.address());
    let route = "policies: [two, at_once]";
    let top = "policies: { two: { key: ip, limit: 2/day }, \
               at_once: { key: ip, algorithm: concurrency, limit: 1 } }";
    let gateway = gateway(&url, &origin, "", route, top);
    // More requests than the limits admit: what was charged is given back.
    for _ in 0..4 {
        let response = get(&gateway, "/", &[ANN]);
        assert_eq!((response.status, response.field("retry-after")), (503, Some("1")));
        assert_eq!(response.json()["source"], "gateway");
    }
    assert_eq!(origin.received().len(), 0);
    assert_eq!(outcomes(&gateway, 4), ["authorizer_away"; 4]);
    eventually("the log has it", || gateway.log().contains("an authorizer gives no answer"));
    let log = gateway.log();
    assert!(log.contains("sso") && log.contains("upstream_unreachable"), "{log}");
}

#[test]
fn requests_pass_without_an_identity_if_the_file_says_so() {
    let closed = Reserved::new();
    let origin = Origin::hello();
    let url = format!("http://{}/verify", closed.address());
    let gateway = gateway(&url, &origin, "on_failure: allow", "", "");
    assert_eq!(get(&gateway, "/", &["Remote-User: admin"]).status, 200);
    assert_eq!(origin.received().pop().expect("it was forwarded").fields("remote-user"), [""; 0]);
    assert_eq!(outcomes(&gateway, 1), ["authorizer_failed_open"]);
}

/// A gateway with a short time and a small bound before a portal that always answers this.
fn answering(answer: &'static str) -> (Gateway, Origin, Portal) {
    let portal = Portal::answering(move |_, _| answer.replace("LARGE", &"x".repeat(2000)));
    let origin = Origin::hello();
    let bounds = "timeout: 2s, max_response: 1KiB";
    let gateway = gateway(&portal.url(), &origin, bounds, "", "");
    (gateway, origin, portal)
}

#[test]
fn what_is_no_answer_is_a_failure() {
    for answer in [
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\nLARGE",
        "HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\nLARGE\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "no HTTP at all\r\n\r\n",
    ] {
        let (gateway, origin, _portal) = answering(answer);
        assert_eq!(get(&gateway, "/", &[ANN]).status, 503, "{answer}");
        assert_eq!(origin.received().len(), 0, "{answer}");
    }
    let (gateway, origin, _portal) =
        answering("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(get(&gateway, "/", &[ANN]).status, 200, "interim answers are skipped");
    assert_eq!(origin.received().len(), 1);
}

/// An authorizer that answers when it is told to.
fn held() -> (Origin, mpsc::Sender<()>) {
    let (release, may_answer) = mpsc::channel::<()>();
    let may_answer = std::sync::Mutex::new(may_answer);
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let waits = may_answer.lock().expect("no thread panics with it");
            let _ = waits.recv_timeout(Duration::from_secs(60));
            drop(waits);
            let _ = stream.write_all(respond("200 OK", "").as_bytes());
        }
    });
    (origin, release)
}

#[test]
fn an_answer_that_comes_too_late_is_a_failure() {
    let (portal, _release) = held();
    let origin = Origin::hello();
    let url = format!("http://{}/", portal.address());
    let gateway = gateway(&url, &origin, "timeout: 50ms", "", "");
    assert_eq!(get(&gateway, "/", &[]).status, 503);
    assert_eq!(origin.received().len(), 0);
}

#[test]
fn the_questions_at_once_have_a_bound() {
    let (portal, release) = held();
    let origin = Origin::hello();
    let url = format!("http://{}/", portal.address());
    let gateway = gateway(&url, &origin, "max_in_flight: 1, timeout: 60s", "", "");
    let mut first = gateway.client();
    first.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the first question has arrived", || portal.received().len() == 1);
    assert_eq!(get(&gateway, "/", &[]).status, 503, "there is no place for a second question");
    release.send(()).expect("the authorizer waits");
    assert_eq!(first.response("GET").status, 200);
    assert_eq!(portal.received().len(), 1);
}

#[test]
fn a_reload_changes_the_authorizer() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = usual(&portal, &origin);
    assert_eq!(get(&gateway, "/", &[]).status, 401);
    gateway.reload(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\nruntime: {{ workers: 1 }}\n",
        origin.address()
    ));
    eventually("the route has none", || get(&gateway, "/", &[]).status == 200);
}
