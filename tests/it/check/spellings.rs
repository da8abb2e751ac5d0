//! A spelling of a request that one door refuses is refused by all. A door that accepted it would
//! give the client another counter, or the limit of another route.

use serde_json::{Value, json};

use super::api::Caller;
use super::authorization::{ask_with, has, question_of};
use crate::support::http::{Http, block_on};
use crate::support::{Client, Gateway, Program};

/// A request: the method, the path and a field.
struct Spelling {
    method: &'static str,
    path: &'static str,
    field: [&'static str; 2],
}

const USUAL: Spelling = Spelling { method: "GET", path: "/m", field: ["X-Client", "a"] };

/// Requests that no door accepts, and the part of a question that is at fault.
const REFUSED: [(Spelling, &str); 11] = [
    (Spelling { method: "get", ..USUAL }, "/request/method"),
    (Spelling { method: "Get", ..USUAL }, "/request/method"),
    (Spelling { method: "gEt", ..USUAL }, "/request/method"),
    (Spelling { method: "-", ..USUAL }, "/request/method"),
    (Spelling { method: "G\"T", ..USUAL }, "/request/method"),
    (Spelling { path: "/m#f", ..USUAL }, "/request/path"),
    (Spelling { path: "/m?a#f", ..USUAL }, "/request/path"),
    (Spelling { path: "/m`", ..USUAL }, "/request/path"),
    (Spelling { path: "/m?\u{7f}", ..USUAL }, "/request/path"),
    (Spelling { field: ["X_Forwarded_For", "192.0.2.9"], ..USUAL }, "/request/headers"),
    (Spelling { field: ["X_Http_Method_Override", "PUT"], ..USUAL }, "/request/headers"),
];

/// A gateway with a listener, a door for HTTP and one for gRPC.
fn gateway() -> Gateway {
    Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         check:\n  \
           http: { address: \"127.0.0.1:0\" }\n  \
           grpc: { address: \"127.0.0.1:0\", services: [authorization] }\n\
         policies: { per-method: { key: method, limit: 100/day } }\n\
         routes: [{ path: /*, policies: [per-method], respond: { status: 204 } }]\n\
         runtime: { workers: 1 }\n",
    )
}

/// The statuses of the doors that a proxy asks over HTTP, and of the listener itself.
fn statuses(gateway: &Gateway, spelling: &Spelling) -> Vec<(&'static str, u16)> {
    let Spelling { method, path, field: [name, value] } = spelling;
    let [listener, door, _] = gateway.addresses()[..] else { panic!("three listeners") };
    let own = format!("{name}: {value}\r\nX-Forwarded-For: 192.0.2.1\r\n");
    let forwarded = format!(
        "GET /auth HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: {method}\r\n\
         X-Forwarded-Uri: {path}\r\nX-Forwarded-Host: shop.test\r\n{own}\r\n"
    );
    let original = format!(
        "GET /auth/nginx HTTP/1.1\r\nHost: shop.test\r\nX-Original-Method: {method}\r\n\
         X-Original-URI: {path}\r\n{own}\r\n"
    );
    let line =
        |prefix: &str| format!("{method} {prefix}{path} HTTP/1.1\r\nHost: shop.test\r\n{own}\r\n");
    let all = [
        ("listener", listener, line("")),
        ("/auth", door, forwarded),
        ("/auth/nginx", door, original),
        ("/auth/envoy", door, line("/auth/envoy")),
    ];
    let ask = |(name, address, request): (&'static str, _, String)| {
        let mut client = Client::connect(address);
        client.send(request.as_bytes());
        let response = client.response("GET");
        // Nginx takes no other status for a refusal.
        let told = response.field("x-tollgate-status").map(|it| it.parse().expect("a number"));
        (name, told.unwrap_or(response.status))
    };
    all.into_iter().map(ask).collect()
}

/// The question of the JSON API.
fn asked(spelling: &Spelling) -> Value {
    let Spelling { method, path, field: [name, value] } = spelling;
    let headers = json!({ *name: value });
    json!({ "request": { "method": method, "host": "shop.test", "path": path, "headers": headers,
                         "ip": "192.0.2.1" } })
}

#[test]
fn a_spelling_that_one_door_refuses_is_refused_by_all() {
    let gateway = gateway();
    let mut caller = Caller::of(&gateway);
    let left = |caller: &mut Caller| {
        caller.check(&json!({ "policy": "per-method", "key": "GET", "peek": true }))["remaining"]
            .as_u64()
            .expect("it is a number")
    };
    for (spelling, pointer) in &REFUSED {
        let question = asked(spelling);
        for (door, status) in statuses(&gateway, spelling) {
            assert_eq!(status, 400, "{door}: {question}");
        }
        let (status, problem) = caller.call("/v1/check", &question);
        assert_eq!((status, &problem["pointer"]), (400, &json!(pointer)), "{question}: {problem}");
    }
    block_on(async {
        let connection = Http::prior_knowledge(gateway.addresses()[2]).await;
        for (Spelling { method, path, field: [name, value] }, _) in &REFUSED {
            let name = name.to_ascii_lowercase();
            let message = question_of(method, path, "192.0.2.1", &[(&name, value)]);
            let answer = ask_with(&connection, message, &[]).await;
            // The status 400 of HTTP.
            assert!(has(&answer, &[8, 0x90, 3]), "{method} {path} {name}: {answer:?}");
        }
    });
    assert_eq!(left(&mut caller), 100, "nothing was counted");
    let words = caller.call("/v1/check", &json!({ "policy": "per-method", "key": "get" }));
    assert_eq!((words.0, &words.1["pointer"]), (400, &json!("/key")));
    // The usual spelling has one counter.
    for (door, status) in statuses(&gateway, &USUAL) {
        assert!([200, 204].contains(&status), "{door}: {status}");
    }
    assert_eq!(caller.check(&asked(&USUAL))["remaining"], 95);
}

/// `explain` once told that a request is admitted which the listener refuses.
#[test]
fn explain_accepts_no_other_spelling_of_a_method() {
    let gateway = gateway();
    let file = gateway.file();
    let file = file.to_str().expect("a path");
    for arguments in [["-X", "get"], ["-H", "X_Forwarded_For: 192.0.2.9"]] {
        let all = [&["explain", "-c", file][..], &arguments, &["http://shop.test/m"]].concat();
        let output = Program::run(&all);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}{}", output.stdout, output.stderr);
    }
    // A fragment is a part of a URL, and of no request.
    let output = Program::run(&["explain", "-c", file, "http://shop.test/m#f"]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
}
