//! What an authorizer learns of the API key of a client, and the time of a request with a question.

use super::checker::{Checker, Reply, code};
use super::get;
use super::portal::{Portal, respond};
use crate::api_keys::{Keys, field, id};
use crate::support::{Gateway, Origin};

/// A gateway with these keys whose only route asks `authorizer`. `client` are further fields of
/// `client.keys`.
fn gateway(keys: &Keys, client: &str, authorizer: &str, origin: &Origin) -> Gateway {
    let file = keys.path();
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client:\n  api_key: {{ headers: [x-api-key], query: api_key, cookie: api_key }}\n  \
         keys: {{ file: {file:?}, identity_headers: {{ id: x-key-id }}, {client} }}\n\
         authorizers: {{ sso: {{ {authorizer} }} }}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         routes: [{{ path: \"/*\", upstream: app, authorizer: sso }}]\n\
         runtime: {{ workers: 1 }}\n",
        origin.address()
    ))
}

/// What the model has got of one request for each place of the key: all texts of the question.
fn questions(keys: &Keys, key: &str, client: &str, send: &str) -> Vec<String> {
    let portal = Portal::answering(|_, _| respond("200 OK", ""));
    let origin = Origin::hello();
    let authorizer = format!("http: \"{}\", {send}", portal.url());
    let gateway = gateway(keys, client, &authorizer, &origin);
    let asked = |path: &str, fields: &[&str]| {
        assert_eq!(get(&gateway, path, fields).status, 200);
        portal.last().head
    };
    let forged = "X-Key-Id: forged";
    vec![
        asked("/a?b=1", &[&field(key), forged]),
        asked("/a?b=1", &[&format!("Authorization: Bearer {key}"), forged]),
        asked("/a?b=1", &[&format!("Cookie: a=1; api_key={key}"), forged]),
        asked(&format!("/a?b=1&api_key={key}"), &[forged]),
    ]
}

#[test]
fn an_authorizer_does_not_get_the_key_but_whose_it_is() {
    let keys = Keys::new();
    let key = keys.create(&["--name", "acme"]);
    for asked in questions(&keys, &key, "", "") {
        assert!(!asked.contains(&key), "{asked}");
        let asked = asked.to_lowercase();
        assert!(asked.contains(&format!("x-key-id: {}", id(&key))), "{asked}");
        assert!(!asked.contains("forged"), "{asked}");
        assert!(asked.contains("x-forwarded-uri: /a?b=1\r\n"), "{asked}");
    }
}

#[test]
fn an_authorizer_gets_the_key_in_fields_that_the_file_names() {
    let keys = Keys::new();
    let key = keys.create(&["--name", "acme"]);
    let send = "send: [x-api-key, authorization, cookie]";
    let has: Vec<bool> =
        questions(&keys, &key, "", send).iter().map(|asked| asked.contains(&key)).collect();
    assert_eq!(has, [true, true, true, false], "a parameter of the query is no field");
    let forwarding = questions(&keys, &key, "forward: true", "");
    assert!(forwarding.iter().all(|asked| asked.contains(&key)), "the upstream gets it, too");
}

/// Clients name themselves in the same fields, and those of clients are removed.
#[test]
fn what_an_authorizer_sets_reaches_the_upstream_in_all_fields() {
    let keys = Keys::new();
    let key = keys.create(&["--name", "acme"]);
    let answer = "X-Api-Key: inside\r\nAuthorization: Bearer inside\r\nX-User: ann\r\n";
    let portal = Portal::answering(move |_, _| respond("200 OK", answer));
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client:\n  trusted_proxies: [10.0.0.0/8]\n  user: {{ header: x-user }}\n  \
         api_key: {{ headers: [x-api-key], bearer: true }}\n  \
         keys: {{ file: {:?}, foreign: true }}\n\
         authorizers: {{ sso: {{ http: \"{}\", take: [x-api-key, authorization, x-user] }} }}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         routes: [{{ path: \"/*\", upstream: app, authorizer: sso }}]\n",
        keys.path(),
        portal.url(),
        origin.address()
    ));
    let bearer = format!("Authorization: Bearer {key}");
    for fields in [&[&field(&key)[..], "X-User: root"][..], &[&bearer, "X-User: root"], &[]] {
        assert_eq!(get(&gateway, "/", fields).status, 200);
        let received = origin.received().pop().expect("it was forwarded");
        assert_eq!(received.fields("x-api-key"), ["inside"], "{fields:?}");
        assert_eq!(received.fields("authorization"), ["Bearer inside"], "{fields:?}");
        assert_eq!(received.fields("x-user"), ["ann"], "{fields:?}");
    }
}

#[test]
fn a_question_over_grpc_has_no_key_either() {
    let keys = Keys::new();
    let key = keys.create(&["--name", "acme"]);
    let checker = Checker::answering(|_| code(Some(0)));
    let origin = Origin::hello();
    let authorizer = format!("grpc: \"{}\"", checker.url());
    let gateway = gateway(&keys, "", &authorizer, &origin);
    assert_eq!(get(&gateway, &format!("/a?api_key={key}"), &[&field(&key)]).status, 200);
    let asked = checker.last();
    assert!(!format!("{asked:?}").contains(&key), "{asked:?}");
    assert_eq!(asked.http.headers["x-key-id"], id(&key));
    assert_eq!(asked.http.path, "/a");
}

/// The time of the route holds for the question and the upstream together.
#[test]
fn the_time_of_a_request_includes_the_question() {
    let checker = Checker::answering(|_| Reply::Never);
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         authorizers: {{ sso: {{ grpc: \"{}\", timeout: 60s, on_failure: allow }} }}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ two: {{ key: ip, limit: 2/day }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, authorizer: sso, policies: [two], \
                    timeouts: {{ request: 50ms }} }}]\n\
         runtime: {{ workers: 1 }}\n",
        checker.url(),
        origin.address()
    ));
    for _ in 0..3 {
        assert_eq!(get(&gateway, "/", &[]).status, 504, "what was charged is given back");
    }
    assert_eq!(origin.received().len(), 0);
    assert_eq!(super::outcomes(&gateway, 3), ["request_timeout"; 3]);
}
