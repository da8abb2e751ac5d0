//! An authorizer that is asked over gRPC.

use super::checker::{Checker, Reply, code, deny, pass};
use super::{ANN, METRICS, get, metrics, outcomes};
use crate::support::http::{Http, block_on, nothing, request};
use crate::support::{Certificates, Gateway, Origin, Reserved, eventually};

/// A gateway whose only route asks `url`. `authorizer` and `route` are further fields.
fn gateway(url: &str, origin: &Origin, authorizer: &str, route: &str, top: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         authorizers: {{ sso: {{ grpc: \"{url}\", take: [remote-user, remote-groups], \
                      {authorizer} }} }}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         routes: [{{ path: \"/*\", upstream: app, authorizer: sso, {route} }}]\n\
         runtime: {{ workers: 1 }}\n{top}\n",
        origin.address()
    ))
}

#[test]
fn an_answer_decides_and_names_the_user() {
    let checker = Checker::start();
    let origin = Origin::hello();
    let gateway = gateway(&checker.url(), &origin, "", "", "");
    let refused = get(&gateway, "/orders", &[]);
    assert_eq!((refused.status, &*refused.text()), (401, "log in"));
    assert_eq!(refused.field("www-authenticate"), Some("Basic realm=\"a\""));
    assert_eq!(refused.field("cache-control"), Some("no-store"));
    assert_eq!(get(&gateway, "/admin", &[ANN]).status, 403, "a denial may name no status");
    assert_eq!(origin.received().len(), 0);
    let forged = ["Remote-User: root", "Remote-Groups: admins"];
    assert_eq!(get(&gateway, "/orders", &[&[ANN], &forged[..]].concat()).status, 200);
    let received = origin.received().pop().expect("it was forwarded");
    assert_eq!(received.fields("remote-user"), ["ann"]);
    assert_eq!(received.fields("remote-groups"), ["staff"]);
    // It passes without a user.
    assert_eq!(get(&gateway, "/public", &forged).status, 200);
    assert_eq!(origin.received().pop().expect("it").fields("remote-user"), [""; 0]);
    assert_eq!(get(&gateway, "/public", &["Remote_User: root"]).status, 400);
    let denied = "authorizer_denied";
    let expected = [denied, denied, "admitted", "admitted", "malformed"];
    assert_eq!(outcomes(&gateway, 5), expected);
}

#[test]
fn a_question_describes_the_request_without_its_content() {
    let checker = Checker::start();
    let origin = Origin::hello();
    let gateway = gateway(&checker.url(), &origin, "send: [cookie, x-two], timeout: 9s", "", "");
    let fields = [
        ANN,
        "X-Two: a",
        "X-Two: b",
        "X-Other: 1",
        "X-Request-Id: id-7",
        "X-Forwarded-Uri: /public",
    ];
    assert_eq!(gateway.client().request("PUT", "/a%2fb?q=1", &fields, b"content").status, 200);
    let asked = checker.last();
    assert_eq!(asked.path, "/envoy.service.auth.v3.Authorization/Check");
    assert_eq!(asked.client, "127.0.0.1");
    let http = &asked.http;
    assert_eq!([&*http.method, &*http.path, &*http.body], ["PUT", "/a%2fb?q=1", ""]);
    let described = [&*http.host, &*http.scheme, &*http.protocol];
    assert_eq!(described, ["gateway.test", "http", "HTTP/1.1"]);
    let sent = |name: &str| http.headers.get(name).map(String::as_str);
    assert_eq!([sent("cookie"), sent("x-two")], [Some("session=ann"), Some("a,b")]);
    assert_eq!([sent("x-other"), sent("x-forwarded-uri"), sent("content-length")], [None; 3]);
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "9000m"),
        ("x-request-id", "id-7"),
    ] {
        assert_eq!(asked.metadata[name], value, "{name}");
    }
    assert_eq!(origin.received().pop().expect("it was forwarded").body, b"content");
    block_on(async {
        let connection = Http::prior_knowledge(gateway.address()).await;
        let mut request = request("GET", "/", nothing());
        request.headers_mut().insert("cookie", "session=ann".parse().expect("a value"));
        assert_eq!(connection.ask(request).await.expect("an answer").status, 200);
    });
    assert_eq!(checker.last().http.protocol, "HTTP/2");
}

/// What a service does with each question.
type Answering = Box<dyn Fn() -> Reply + Send + Sync>;

/// A gateway of which a failed call let requests pass would be open to all while its authorizer is
/// overloaded.
#[test]
fn what_is_no_answer_lets_no_request_pass() {
    let framed = |message: &[u8]| {
        let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
        [&[0][..], &length, message].concat()
    };
    let passing = framed(&[10, 0]);
    let with_flag = |flag: u8| [&[flag], &passing[1..]].concat();
    let cases: Vec<(&str, Answering)> = vec![
        ("an empty message", Box::new(|| code(None))),
        ("a stream that is reset", Box::new(|| Reply::Reset)),
        ("no answer in time", Box::new(|| Reply::Never)),
        ("an error with a message", raw(200, passing.clone(), Some("14"))),
        ("an error", raw(200, Vec::new(), Some("2"))),
        ("no status of gRPC", raw(200, passing.clone(), None)),
        ("no message", raw(200, Vec::new(), Some("0"))),
        ("two messages", raw(200, [passing.clone(), passing.clone()].concat(), Some("0"))),
        ("a part of a message", raw(200, passing[..6].to_vec(), Some("0"))),
        ("a compressed message", raw(200, with_flag(1), Some("0"))),
        ("another message", raw(200, framed(&[10, 127, 1]), Some("0"))),
        ("a status of HTTP", raw(503, passing.clone(), Some("0"))),
        ("a redirect", raw(302, passing, Some("0"))),
        ("a large body", Box::new(|| deny(401, &[], &"x".repeat(1025)))),
        ("a large message", Box::new(|| deny(401, &[("x-a", &"x".repeat(70_000))], ""))),
        ("a line break", Box::new(|| pass(&[("remote-user", "a\r\nx: y")], &[], &[]))),
    ];
    for (name, answer) in cases {
        let checker = Checker::answering(move |_| answer());
        let origin = Origin::hello();
        let limits = if name == "no answer in time" { "timeout: 100ms" } else { "timeout: 20s" };
        let authorizer = format!("{limits}, max_response: 1KiB");
        let top = "policies: { two: { key: ip, limit: 2/day } }";
        let gateway = gateway(&checker.url(), &origin, &authorizer, "policies: [two]", top);
        // More requests than the limit admits: what was charged is given back.
        for _ in 0..3 {
            let response = get(&gateway, "/", &[ANN]);
            assert_eq!(
                (response.status, response.field("retry-after")),
                (503, Some("1")),
                "{name}"
            );
        }
        assert_eq!(origin.received().len(), 0, "{name}");
        assert_eq!(outcomes(&gateway, 3), ["authorizer_away"; 3], "{name}");
        eventually(name, || gateway.log().contains("an authorizer gives no answer"));
    }
}

fn raw(status: u16, body: Vec<u8>, grpc_status: Option<&'static str>) -> Answering {
    Box::new(move || Reply::Raw(status, body.clone(), grpc_status))
}

#[test]
fn a_stopped_service_lets_requests_pass_only_if_the_file_says_so() {
    let closed = Reserved::new();
    let origin = Origin::hello();
    let url = format!("h2c://{}", closed.address());
    let closing = gateway(&url, &origin, "", "", "");
    assert_eq!(get(&closing, "/", &[ANN]).status, 503);
    assert_eq!(origin.received().len(), 0);
    let opening = gateway(&url, &origin, "on_failure: allow", "", "");
    assert_eq!(get(&opening, "/", &["Remote-User: root"]).status, 200);
    assert_eq!(origin.received().pop().expect("it was forwarded").fields("remote-user"), [""; 0]);
    assert_eq!(outcomes(&opening, 1), ["authorizer_failed_open"]);
    // A denial is an answer, whatever its status is.
    let checker = Checker::answering(|_| deny(503, &[], "later"));
    let denying = gateway(&checker.url(), &origin, "on_failure: allow", "", "");
    let denied = get(&denying, "/", &[ANN]);
    assert_eq!((denied.status, &*denied.text()), (503, "later"));
    assert_eq!(outcomes(&denying, 1), ["authorizer_denied"]);
}

#[test]
fn changes_outside_take_are_not_made_and_are_told() {
    let checker = Checker::answering(|_| {
        let headers = [("remote-user", "ann"), ("x-own", "of-the-answer"), ("host", "evil.test")];
        pass(&headers, &["x-kept"], &[("set-cookie", "s=1"), ("x-told", "1")])
    });
    let origin = Origin::hello();
    let gateway = gateway(&checker.url(), &origin, "", "", METRICS);
    for _ in 0..2 {
        let response = get(&gateway, "/", &["X-Own: of-the-client", "X-Kept: 1"]);
        assert_eq!((response.status, response.field("set-cookie")), (200, Some("s=1")));
        assert_eq!(response.field("x-told"), None);
        let received = origin.received().pop().expect("it was forwarded");
        assert_eq!(received.fields("remote-user"), ["ann"]);
        assert_eq!(received.fields("x-own"), ["of-the-client"]);
        assert_eq!(received.fields("x-kept"), ["1"]);
        assert_ne!(received.fields("host"), ["evil.test"]);
    }
    let ignored = "tollgate_authorizer_ignored_total{authorizer=\"sso\"} 2";
    eventually("it is counted", || metrics(&gateway).contains(ignored));
    assert_eq!(gateway.log().matches("demands changes that are not made").count(), 1);
}

#[test]
fn equal_questions_are_asked_once_and_policies_count_by_the_answer() {
    let checker = Checker::start();
    let origin = Origin::hello();
    let top = "policies: { by-user: { key: \"authorizer:remote-user\", limit: 2/day, \
               missing_key: deny } }";
    let authorizer = "send: [cookie], cache: { for: 60s }";
    let gateway = gateway(&checker.url(), &origin, authorizer, "policies: [by-user]", top);
    for status in [200, 200, 429, 429] {
        assert_eq!(get(&gateway, "/orders", &[ANN]).status, status);
    }
    for _ in 0..3 {
        assert_eq!(get(&gateway, "/admin", &[ANN]).status, 403);
    }
    assert_eq!(checker.asked().len(), 2);
    assert_eq!(get(&gateway, "/orders", &["Cookie: session=bob"]).status, 200);
    for _ in 0..2 {
        assert_eq!(get(&gateway, "/orders", &[]).status, 401);
    }
    assert_eq!(checker.asked().len(), 5, "401 is not kept");
}

#[test]
fn the_service_is_asked_over_tls_too() {
    let checker = Checker::start();
    let origin = Origin::hello();
    let made = Certificates::temporary("127.0.0.1");
    let before = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", tls: {{ certificates: [{{ cert: {:?}, key: {:?} }}] }} }}]\n\
         upstreams: {{ checker: \"{}\" }}\nroutes: [{{ path: \"/*\", upstream: checker }}]\n",
        made.server(),
        made.server_key(),
        checker.url()
    ));
    let url = format!("https://{}", before.address());
    let tls = format!("tls: {{ ca: {:?} }}", made.ca());
    let trusting = gateway(&url, &origin, &tls, "", "");
    assert_eq!(get(&trusting, "/orders", &[ANN]).status, 200);
    assert_eq!(origin.received().pop().expect("it").fields("remote-user"), ["ann"]);
    let doubting = gateway(&url, &origin, "", "", "");
    assert_eq!(get(&doubting, "/orders", &[ANN]).status, 503);
    assert_eq!(checker.asked().len(), 1);
}

/// Another Tollgate is an authorizer that counts.
#[test]
fn the_own_service_for_envoy_is_an_authorizer() {
    let counting = Gateway::start(
        "check: { grpc: { address: \"127.0.0.1:0\", services: [authorization] } }\n\
         client: { trusted_proxies: [127.0.0.0/8] }\n\
         policies: { one: { key: \"header:x-tenant\", limit: 1/day } }\n\
         routes: [{ path: /v1/*, policies: [one], respond: { status: 204 } }]\n",
    );
    let origin = Origin::hello();
    let url = format!("h2c://{}", counting.address());
    let gateway = gateway(&url, &origin, "send: [x-tenant]", "", "");
    for (tenant, status) in [("a", 200), ("a", 429), ("b", 200)] {
        let response = get(&gateway, "/v1/x", &[&format!("X-Tenant: {tenant}")]);
        assert_eq!(response.status, status, "{tenant}");
        assert_eq!(response.field("retry-after").is_some(), status == 429);
    }
    assert_eq!(origin.received().len(), 2);
}
