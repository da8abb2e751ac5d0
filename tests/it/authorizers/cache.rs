//! Answers that are used for equal questions.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::portal::{Portal, respond};
use super::{ANN, METRICS, gateway, get, metrics};
use crate::support::{Gateway, Origin, eventually};

/// A gateway that keeps the answers to questions with cookies.
fn keeping(portal: &str, origin: &Origin, cache: &str) -> Gateway {
    let authorizer = format!("send: [cookie], cache: {{ for: 60s, {cache} }}");
    gateway(portal, origin, &authorizer, "", "")
}

#[test]
fn equal_questions_are_asked_once() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = keeping(&portal.url(), &origin, "max: 100");
    for _ in 0..3 {
        assert_eq!(get(&gateway, "/orders", &[ANN]).status, 200);
        assert_eq!(get(&gateway, "/admin", &[ANN]).status, 403);
    }
    assert_eq!(portal.asked(), 2);
    assert!(origin.received().iter().all(|it| it.fields("remote-user") == ["ann"]));
    assert_eq!(get(&gateway, "/orders?x=1", &[ANN]).status, 200);
    assert_eq!(get(&gateway, "/orders", &["Cookie: session=bob"]).status, 200);
    assert_eq!(gateway.client().request("POST", "/orders", &[ANN], b"").status, 200);
    assert_eq!(portal.asked(), 5, "another target, another session, another method");
    for _ in 0..2 {
        assert_eq!(get(&gateway, "/orders", &[]).status, 401);
    }
    assert_eq!(portal.asked(), 7, "401 is not kept: the client will sign in");
}

#[test]
fn an_answer_may_hold_for_a_whole_host() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = keeping(&portal.url(), &origin, "by: [host]");
    for path in ["/a", "/b", "/c"] {
        assert_eq!(get(&gateway, path, &[ANN]).status, 200);
    }
    assert_eq!(portal.asked(), 1);
}

#[test]
fn an_answer_with_a_cookie_or_no_store_is_not_kept() {
    for fields in ["Set-Cookie: a=1\r\n", "Cache-Control: no-store\r\n"] {
        let portal = Portal::answering(move |_, _| respond("200 OK", fields));
        let origin = Origin::hello();
        let gateway = keeping(&portal.url(), &origin, "");
        for _ in 0..3 {
            assert_eq!(get(&gateway, "/", &[ANN]).status, 200);
        }
        assert_eq!(portal.asked(), 3, "{fields}");
    }
}

#[test]
fn the_kept_answers_have_a_bound() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = keeping(&portal.url(), &origin, "max: 2");
    for user in ["a", "b", "c", "b", "c", "a"] {
        assert_eq!(get(&gateway, "/", &[&format!("Cookie: session={user}")]).status, 200);
    }
    assert_eq!(portal.asked(), 4, "the answer for the first user has given way");
}

#[test]
fn equal_questions_at_the_same_time_share_one_answer() {
    let (release, may_answer) = mpsc::channel::<()>();
    let may_answer = std::sync::Mutex::new(may_answer);
    let portal = Origin::serving(move |stream, read| {
        while read().is_some() {
            let _ = may_answer.lock().expect("no thread panics with it").recv();
            // It is not kept, so only those that wait can use it.
            let _ = stream.write_all(respond("401 Unauthorized", "").as_bytes());
        }
    });
    let origin = Origin::hello();
    let url = format!("http://{}/", portal.address());
    let authorizer = "send: [cookie], cache: { for: 60s }, timeout: 60s";
    let gateway = gateway(&url, &origin, authorizer, "", METRICS);
    let mut clients: Vec<_> = (0..5).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ANN}\r\n\r\n").as_bytes());
    }
    eventually("four requests wait for the answer to the fifth", || {
        metrics(&gateway).contains("\nhttp_server_active_requests 5\n")
    });
    // The client leaves whose request was the first, and the others still get the answer.
    drop(clients.remove(0));
    release.send(()).expect("the authorizer waits");
    for client in &mut clients {
        assert_eq!(client.response("GET").status, 401);
    }
    assert_eq!(portal.received().len(), 1);
    let asked =
        "tollgate_authorizer_duration_seconds_count{authorizer=\"sso\",result=\"refused\"} 1";
    eventually("the question is measured", || metrics(&gateway).contains(asked));
    let shared = "tollgate_authorizer_reused_total{authorizer=\"sso\",source=\"shared\"} 4";
    eventually("the answer is counted for each", || metrics(&gateway).contains(shared));
}

/// A session that the authorizer begins belongs to one client, and a redirect often contains the
/// target of its client.
#[test]
fn an_answer_for_one_client_is_used_for_no_other() {
    for (cache, paths) in [("", ["/a"; 3]), ("by: [host]", ["/a?token=1", "/b", "/c"])] {
        let (release, may_answer) = mpsc::channel::<()>();
        let may_answer = std::sync::Mutex::new(may_answer);
        let portal = Portal::answering(move |question, _| {
            // Until the sender is dropped.
            let _ = may_answer.lock().expect("no thread panics with it").recv();
            let target = question.fields("x-forwarded-uri").concat();
            let session = question.fields("x-request-id").concat();
            let fields = format!("Location: /login?next={target}\r\nSet-Cookie: s={session}\r\n");
            respond("302 Found", &fields)
        });
        let origin = Origin::hello();
        let authorizer = format!("send: [cookie], cache: {{ for: 60s, {cache} }}, timeout: 60s");
        let gateway = gateway(&portal.url(), &origin, &authorizer, "", METRICS);
        let mut clients = paths.map(|_| gateway.client());
        for (client, path) in clients.iter_mut().zip(paths) {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        }
        eventually("two requests wait for the answer to the third", || {
            metrics(&gateway).contains("\nhttp_server_active_requests 3\n")
        });
        drop(release);
        let mut sessions = BTreeSet::new();
        for (client, path) in clients.iter_mut().zip(paths) {
            let answer = client.response("GET");
            assert_eq!(answer.status, 302);
            assert_eq!(answer.field("location"), Some(&*format!("/login?next={path}")));
            sessions.insert(answer.field("set-cookie").map(str::to_owned));
        }
        assert_eq!((sessions.len(), portal.asked()), (3, 3), "{cache}");
    }
}

/// A request that has waited for the answer of another one still has the whole time of the authorizer.
#[test]
fn a_request_that_has_waited_in_vain_is_asked_about_with_the_whole_time() {
    let portal = Portal::answering(|_, _| {
        thread::sleep(Duration::from_secs(3));
        respond("200 OK", "Cache-Control: no-store\r\n")
    });
    let origin = Origin::hello();
    let authorizer = "send: [cookie], cache: { for: 60s }, timeout: 5s";
    let gateway = gateway(&portal.url(), &origin, authorizer, "", "");
    let mut clients: Vec<_> = (0..3).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert!(clients.iter_mut().all(|client| client.response("GET").status == 200));
}
