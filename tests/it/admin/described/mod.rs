//! The document of the API, and the answers that it promises.
//!
//! Every answer that a test of the admin listener gets is held against the document: its status,
//! its type, its fields and its body.

mod schema;

use std::net::SocketAddr;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{AdminClient, OPERATE, READ, section};
use crate::support::{Client, Gateway, Response};
use schema::Schemas;

/// The document of this version, which all gateways serve alike.
pub(super) fn document(admin: SocketAddr) -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let mut client = Client::connect(admin);
        client.send(
            format!("GET /openapi.json HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        let response = client.response("GET");
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    })
}

/// Fails if the document does not promise this answer of the listener at `admin`.
pub(super) fn hold(admin: SocketAddr, method: &str, target: &str, response: &Response) {
    // Such a head is refused before it reaches a call.
    if matches!(response.status, 408 | 414 | 431) {
        return;
    }
    let document = document(admin);
    let told = format!("{method} {target}: {response:?}");
    let path = target.split('?').next().unwrap_or_default();
    let Some(operation) = operation(document, method, path) else {
        // There is no such call; or the caller does not learn whether there is.
        assert!(matches!(response.status, 400 | 401 | 403 | 404 | 405 | 429), "{told}");
        assert_eq!(response.field("Allow").is_some(), response.status == 405, "{told}");
        return hold_body(document, &document["components"]["responses"]["NotFound"], response);
    };
    let described = &operation["responses"][response.status.to_string()];
    assert!(described.is_object(), "a status that is not in the document: {told}");
    let described = schema::resolved(document, described);
    for (name, header) in described["headers"].as_object().expect("all have fields") {
        let header = schema::resolved(document, header);
        match response.field(name) {
            Some(value) => {
                let is_number = header["schema"]["type"] == "integer";
                let value = if is_number { json!(response.number(name)) } else { json!(value) };
                Schemas(document).hold(&header["schema"], &value, name);
            }
            None => assert_ne!(header["required"], true, "{name} is missing: {told}"),
        }
    }
    for name in ["ETag", "Retry-After", "WWW-Authenticate"] {
        let is_described = described["headers"][name].is_object();
        assert!(response.field(name).is_none() || is_described, "{name}: {told}");
    }
    if method != "HEAD" {
        hold_body(document, described, response);
    }
}

fn hold_body(document: &Value, described: &Value, response: &Response) {
    let described = schema::resolved(document, described);
    let content_type = response.field("Content-Type").unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    let content = &described["content"][essence];
    assert!(content.is_object(), "a type that is not in the document: {response:?}");
    if let Some(events) = content["x-events"].as_object() {
        for event in response.text().split("\n\n").filter(|it| it.starts_with("event: ")) {
            let (name, data) = event[7..].split_once("\ndata: ").expect("an event has data");
            let data: Value = serde_json::from_str(data).expect("JSON");
            Schemas(document).hold(&events[name], &data, name);
        }
    } else if essence.ends_with("json") {
        Schemas(document).hold(&content["schema"], &response.json(), "the body");
    }
}

/// The operation of this call.
fn operation<'d>(document: &'d Value, method: &str, path: &str) -> Option<&'d Value> {
    let method = if method == "HEAD" { "get" } else { method };
    let paths = document["paths"].as_object().expect("an object");
    let matches = |template: &str| {
        let names = template.split('/');
        let segments = path.split('/');
        names.clone().count() == segments.clone().count()
            && names
                .zip(segments)
                .all(|(name, it)| name == it || (name.starts_with('{') && !it.is_empty()))
    };
    let mut found = paths.iter().filter(|(template, _)| matches(template));
    let operations = found.find_map(|(_, item)| item.get(method.to_ascii_lowercase()));
    operations.filter(|it| it.is_object())
}

#[test]
fn the_document_needs_no_credential_and_is_not_for_foreign_pages() {
    let gateway = Gateway::start(&super::yaml("", ""));
    let client = AdminClient::without_token(&gateway);
    let response = client.get("/openapi.json");
    assert_eq!(response.status, 200);
    assert_eq!(response.json()["openapi"], "3.1.0");
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    assert_eq!(client.send_to("Host: evil.example", "GET", "/openapi.json", &[], "").status, 403);
    // A mistake does not make a call need a credential.
    for target in ["/openapi.json?x=1", "/healthz?x=1", "/?x=1", "/page/style.css?x=1"] {
        assert_eq!(client.get(target).status, 400, "{target}");
    }
    assert_eq!(client.get("/v1/status?x=1").status, 401);
    assert_eq!(client.send("HEAD", "/openapi.json", &[], "").status, 200);
}

/// The examples are those of docs/admin.md, so they need its gateway.
#[test]
fn every_example_of_the_document_is_answered() {
    let directory = tempfile::tempdir().expect("a directory");
    let [overrides, keys] = ["overrides.redb", "keys.redb"].map(|it| directory.path().join(it));
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ overrides: {{ path: {overrides:?} }}, keys: {{ path: {keys:?} }} }}\n\
         policies: {{ per-client: {{ key: ip, limit: 2/minute, overrides: true }} }}\n\
         access: {{ office: {{ else: allow }} }}\n\
         routes: [{{ path: \"/*\", access: office, policies: [per-client], respond: {{ body: ok }} }}]\n{}",
        section("")
    ));
    let client = AdminClient::new(&gateway, OPERATE);
    let mut sent = 0;
    for (path, item) in document(client.address)["paths"].as_object().expect("an object") {
        let mut target = path.clone();
        for parameter in item["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name");
            let example = parameter["example"].as_str().expect("an example");
            target = target.replace(&format!("{{{name}}}"), example);
        }
        // What is changed is made before.
        for method in ["post", "put", "patch"] {
            let operation = &item[method];
            // It would replace the policies that the other examples are about.
            if (method, &**path) == ("put", "/v1/config") {
                continue;
            }
            let content = &operation["requestBody"]["content"]["application/json"];
            for (name, example) in content["examples"].as_object().into_iter().flatten() {
                let fields = ["Content-Type: application/json", "If-Match: *", "If-None-Match: *"];
                let method = method.to_ascii_uppercase();
                let body = example["value"].to_string();
                let response = client.send(&method, &target, &fields, &body);
                assert_eq!(
                    response.status,
                    status_of_example(path, operation),
                    "{method} {target} {name}: {response:?}"
                );
                sent += 1;
                // A configuration reports its own mistakes: `strange_bodies`.
                if !content["schema"]["$ref"].is_string() {
                    continue;
                }
                let mut unknown = example["value"].clone();
                unknown["unknown"] = json!(1);
                for strange in [json!([]), unknown] {
                    let response = client.send(&method, &target, &fields, &strange.to_string());
                    assert_eq!(response.status, 400, "{method} {target} {strange}: {response:?}");
                }
            }
        }
    }
    assert!(sent >= 13, "{sent}");
    let bodies = strange_bodies();
    for (method, target, status, body) in &bodies {
        let fields = ["Content-Type: application/json", "If-Match: *"];
        let response = client.send(method, target, &fields, body);
        assert_eq!(response.status, *status, "{method} {target} {body}: {response:?}");
    }
    // Each call whose body is not one of the types above has such a row.
    for (path, item) in document(client.address)["paths"].as_object().expect("an object") {
        for (method, operation) in item.as_object().expect("an object") {
            let is_covered = bodies.iter().any(|(own, target, ..)| {
                own.eq_ignore_ascii_case(method)
                    && self::operation(document(client.address), own, target) == Some(operation)
            });
            let content = &operation["requestBody"]["content"]["application/json"];
            let is_other = content.is_object() && !content["schema"]["$ref"].is_string();
            assert!(is_covered || !is_other, "{method} {path}");
        }
    }
    let viewer = AdminClient::new(&gateway, READ);
    for target in
        ["/v1/top?limit=%2B5", "/v1/top?limit=5&limit=6", "/v1/history?step=", "/v1/events?topics="]
    {
        assert_eq!(viewer.get(target).status, 400, "{target}");
    }
}

/// The status of the answer to an example: that of success, but no key has the text of the example.
fn status_of_example(path: &str, operation: &Value) -> u16 {
    if path == "/v1/keys/find" {
        return 404;
    }
    let statuses = operation["responses"].as_object().expect("an object").keys();
    let status = statuses.filter(|it| it.starts_with('2')).map(|it| it.parse().expect("a status"));
    status.min().expect("a call can succeed")
}

/// Bodies with a mistake in their form, and the status of the answer. Lists were read as the
/// fields in their order.
fn strange_bodies() -> [(&'static str, &'static str, u16, String); 8] {
    let policy = "/v1/policies/per-client";
    let candidate = "/v1/policies/per-client/candidate";
    let own = "/v1/policies/per-client/overrides/192.0.2.7";
    let unknown = json!({ "limit": "5/minute", "unknown": 1 }).to_string();
    [
        ("PUT", own, 400, json!(["5/minute"]).to_string()),
        ("POST", "/v1/explain", 400, json!(["GET", "http://a.test/", []]).to_string()),
        ("PATCH", policy, 400, json!([]).to_string()),
        ("PATCH", policy, 400, unknown.clone()),
        ("PUT", candidate, 400, json!(["5/minute", null, null, "1h"]).to_string()),
        ("PUT", candidate, 400, unknown),
        ("PUT", "/v1/config", 422, json!([]).to_string()),
        ("POST", "/v1/config/check", 422, json!([]).to_string()),
    ]
}
