//! What a question says, and what becomes of its answer.

use super::portal::{Portal, respond};
use super::{ANN, gateway, get, outcomes, usual};
use crate::support::{Gateway, Origin};

#[test]
fn a_login_works_and_the_upstream_knows_the_user() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         authorizers: {{ sso: {{ http: \"{}\", take: [remote-user, remote-groups] }} }}\n\
         upstreams: {{ app: \"http://{}\", portal: \"http://{}\" }}\n\
         defaults: {{ authorizer: sso }}\n\
         routes:\n\
         - {{ path: /login, upstream: portal, authorizer: none }}\n\
         - {{ path: /*, upstream: app }}\n",
        portal.url(),
        origin.address(),
        portal.address(),
    ));
    let page = get(&gateway, "/orders?x=1", &["Accept: text/html"]);
    assert_eq!(page.status, 302);
    let host = gateway.address();
    let there = format!("https://login.test/?rd=http://{host}/orders?x=1&rm=GET");
    let host_sent = page.field("location").expect("a location");
    assert!(host_sent.ends_with("/orders?x=1&rm=GET"), "{host_sent} is not like {there}");
    assert_eq!(page.field("cache-control"), Some("no-store"));
    assert_eq!(get(&gateway, "/orders", &[]).status, 401);
    let signed_in = gateway.client().request("POST", "/login", &[], b"ann");
    assert_eq!(signed_in.status, 200);
    let cookie = signed_in.field("set-cookie").expect("a cookie").split(';').next().expect("it");
    let cookie = format!("Cookie: {cookie}");
    assert_eq!(get(&gateway, "/orders", &[&cookie]).status, 200);
    let received = origin.received().pop().expect("it was forwarded");
    assert_eq!(received.fields("remote-user"), ["ann"]);
    assert_eq!(received.fields("remote-groups"), ["staff"]);
    assert_eq!(received.fields("remote-name"), [""; 0], "it is not taken");
    assert_eq!(get(&gateway, "/admin", &[&cookie]).status, 403);
    assert_eq!(get(&gateway, "/admin", &["Cookie: session=root"]).status, 200);
}

/// A client must not choose its own identity: the authorizer may answer 200 without naming a user.
#[test]
fn identity_fields_of_clients_never_arrive() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = usual(&portal, &origin);
    let forged = ["Remote-User: admin", "Remote-User: root", "Remote-Groups: admins"];
    assert_eq!(get(&gateway, "/public", &forged).status, 200);
    let received = origin.received().pop().expect("it was forwarded");
    assert_eq!(received.fields("remote-user"), [""; 0]);
    assert_eq!(received.fields("remote-groups"), [""; 0]);
    for spelling in ["Remote_User: admin", "Remote.User: admin", "remote_Groups: admins"] {
        assert_eq!(get(&gateway, "/public", &[spelling]).status, 400, "{spelling}");
    }
    assert_eq!(get(&gateway, "/orders", &[ANN, "Remote-User: root"]).status, 200);
    assert_eq!(origin.received().pop().expect("it").fields("remote-user"), ["ann"]);
    assert_eq!(origin.received().len(), 2);
}

#[test]
fn a_question_describes_the_request_and_has_no_content() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = usual(&portal, &origin);
    let fields = [
        ANN,
        "Authorization: Bearer t",
        "X-Forwarded-Uri: /public",
        "X-Original-URL: http://a/public",
        "X-Real-IP: 203.0.113.9",
        "If-None-Match: \"1\"",
        "Range: bytes=0-1",
        "X-Request-Id: id-7",
    ];
    assert_eq!(gateway.client().request("PUT", "/a%2fb?q=1", &fields, b"content").status, 200);
    let asked = portal.last();
    assert_eq!(asked.line(), "GET /api/authz/forward-auth HTTP/1.1");
    assert_eq!(asked.fields("host"), [portal.address()]);
    for (name, value) in [
        ("x-forwarded-method", "PUT"),
        ("x-forwarded-uri", "/a%2fb?q=1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("authorization", "Bearer t"),
        ("x-request-id", "id-7"),
    ] {
        assert_eq!(asked.fields(name), [value], "{name}");
    }
    for name in ["content-length", "transfer-encoding", "if-none-match", "range"] {
        assert_eq!(asked.fields(name), [""; 0], "{name}");
    }
    assert_eq!(asked.body, b"");
    assert_eq!(origin.received().pop().expect("it was forwarded").body, b"content");
    assert_eq!(gateway.client().request("HEAD", "/", &[ANN], b"").status, 200);
    assert!(portal.last().line().starts_with("GET "), "HEAD is asked with GET, too");
}

#[test]
fn only_listed_fields_are_sent() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let gateway = gateway(&portal.url(), &origin, "send: [cookie]", "", "");
    assert_eq!(get(&gateway, "/", &[ANN, "Authorization: Bearer t", "X-Other: 1"]).status, 200);
    let asked = portal.last();
    assert_eq!(asked.fields("cookie"), ["session=ann"]);
    assert_eq!((asked.fields("authorization"), asked.fields("x-other")), (vec![], vec![]));
}

/// Every refusal reaches the client with what it needs, also 429, and with the fields about
/// other origins.
#[test]
fn refusals_of_the_authorizer_go_to_the_client() {
    let portal = Portal::answering(|request, _| {
        let fields = "WWW-Authenticate: Basic realm=\"a\"\r\nRetry-After: 7\r\nSet-Cookie: a=1\r\n\
                      Set-Cookie: b=2\r\nContent-Type: text/html\r\nX-Internal: secret\r\n";
        match request.fields("x-forwarded-uri").first() {
            Some(&"/429") => respond("429 Too Many Requests", fields),
            Some(&"/401") => respond("401 Unauthorized", fields),
            _ => respond("307 Temporary Redirect", "Location: /elsewhere\r\n"),
        }
    });
    let origin = Origin::hello();
    let cors = "cors: { origins: [https://app.example], methods: [PUT] }";
    let gateway = gateway(&portal.url(), &origin, "", cors, "");
    let script = "Origin: https://app.example";
    for (path, status) in [("/429", 429), ("/401", 401)] {
        let refused = get(&gateway, path, &[script]);
        assert_eq!(refused.status, status);
        assert_eq!(refused.field("www-authenticate"), Some("Basic realm=\"a\""));
        assert_eq!(refused.field("retry-after"), Some("7"));
        let cookies = refused.fields.iter().filter(|(name, _)| name == "set-cookie");
        assert_eq!(cookies.count(), 2);
        assert_eq!(refused.field("x-internal"), None);
        assert_eq!(refused.field("content-type"), Some("text/html"));
        assert!(refused.text().starts_with(&status.to_string()), "{}", refused.text());
        assert_eq!(refused.field("access-control-allow-origin"), Some("https://app.example"));
    }
    assert_eq!(get(&gateway, "/other", &[]).field("location"), Some("/elsewhere"));
    let asked = portal.asked();
    let preflight = [script, "Access-Control-Request-Method: PUT"];
    assert_eq!(gateway.client().request("OPTIONS", "/401", &preflight, b"").status, 204);
    assert_eq!(portal.asked(), asked, "a preflight has no credentials that could be checked");
    assert_eq!(origin.received().len(), 0);
    let denied = "authorizer_denied";
    assert_eq!(outcomes(&gateway, 4), [denied, denied, denied, "admitted"]);
}

/// A session that the authorizer renews while it lets a request pass.
#[test]
fn a_cookie_of_an_answer_that_passes_reaches_the_client() {
    let portal = Portal::answering(|_, _| {
        respond("202 Accepted", "Set-Cookie: session=new\r\nRemote-User: ann\r\n")
    });
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nSet-Cookie: own=1\r\nContent-Length: 2\r\n\r\nok".to_owned()
    });
    let gateway = usual(&portal, &origin);
    let response = get(&gateway, "/", &[]);
    let cookies = response.fields.iter().filter(|(name, _)| name == "set-cookie");
    let cookies: Vec<&str> = cookies.map(|(_, value)| value.as_str()).collect();
    assert_eq!((response.status, cookies), (200, vec!["own=1", "session=new"]));
}
