//! The calls about API keys, with a store in a file.

use serde_json::json;

use super::{AdminClient, OPERATE, READ};
use crate::support::{Gateway, eventually};

const KEYS: &str = "keys-0123456789abcdef0";
const ID: &str = "7f2m9qd0v3xk";
const JSON: &str = "Content-Type: application/json";

fn gateway(directory: &tempfile::TempDir) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ keys: {{ path: {:?} }} }}\n\
         client: {{ failures: 100000/minute, keys: {{ prefix: acme }} }}\n\
         policies: {{ each: {{ key: api_key, limit: 100/day }} }}\n\
         routes: [{{ path: \"/*\", auth: [api_key], policies: [each], respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [\
         {{ name: oncall, role: operate, token: {OPERATE} }}, \
         {{ name: viewer, role: read, token: {READ} }}, \
         {{ name: acme, role: keys, token: {KEYS}, teams: [acme] }}] }}\n",
        directory.path().join("keys.redb"),
    ))
}

fn status(gateway: &Gateway, key: &str) -> u16 {
    gateway.client().get("/", &[&format!("X-Api-Key: {key}")]).status
}

#[test]
fn a_key_is_made_shown_changed_rotated_found_and_revoked() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&directory);
    let client = AdminClient::new(&gateway, OPERATE);
    let first = client.send("POST", "/v1/keys", &[JSON], &json!({ "first": true }).to_string());
    assert_eq!(first.status, 201, "{first:?}");

    let path = format!("/v1/keys/{ID}");
    let body = json!({ "name": "acme-prod", "team": "acme", "limits": { "each": "100000/day" } });
    let body = body.to_string();
    let made = client.send("PUT", &path, &[JSON, "If-None-Match: *"], &body);
    assert_eq!(made.status, 201, "{made:?}");
    let text = made.json()["key"].as_str().expect("the text").to_owned();
    assert!(text.starts_with(&format!("acme_{ID}_")), "{text}");
    assert_eq!(client.send("PUT", &path, &[JSON, "If-None-Match: *"], &body).status, 412);
    eventually("the key holds", || status(&gateway, &text) == 200);

    let shown = client.get(&path);
    let tag = format!("If-Match: {}", shown.field("ETag").expect("a version"));
    assert!(!shown.text().contains(&text) && !shown.text().contains("sha256"), "{shown:?}");
    assert_eq!(
        (&shown.json()["name"], &shown.json()["state"]),
        (&json!("acme-prod"), &json!("active"))
    );
    let off = json!({ "disabled": true, "name": null }).to_string();
    assert_eq!(client.send("PATCH", &path, &[JSON, &tag], &off).status, 200);
    assert_eq!(client.send("PATCH", &path, &[JSON, &tag], &off).status, 412, "it has changed");
    assert_eq!(client.get(&path).json()["state"], "disabled");
    eventually("the key is off", || status(&gateway, &text) == 401);
    let on = json!({ "disabled": false }).to_string();
    assert_eq!(client.send("PATCH", &path, &[JSON, "If-Match: *"], &on).status, 200);

    let rotate = format!("{path}/rotate");
    let rotated = client.send("POST", &rotate, &[JSON], &json!({ "overlap": "7d" }).to_string());
    assert_eq!(rotated.status, 201, "{rotated:?}");
    let new = rotated.json()["key"].as_str().expect("the text").to_owned();
    eventually("both secrets hold", || {
        status(&gateway, &new) == 200 && status(&gateway, &text) == 200
    });
    let third = client.send("POST", &rotate, &[JSON], &json!({ "overlap": "7d" }).to_string());
    assert_eq!(third.status, 409, "{third:?}");
    let found = client.send("POST", "/v1/keys/find", &[JSON], &json!({ "key": new }).to_string());
    assert_eq!(found.json()["id"], ID, "{found:?}");

    assert_eq!(client.send("DELETE", &path, &["If-Match: *"], "").status, 200);
    eventually("no secret holds", || status(&gateway, &new) == 401);
    assert_eq!(client.get(&path).json()["state"], "revoked");
    let audit = client.get("/v1/audit");
    let (_, secret) = new.rsplit_once('_').expect("PREFIX_ID_SECRET");
    assert!(audit.text().contains(ID) && !audit.text().contains(&secret[..43]), "{audit:?}");
}

#[test]
fn a_token_for_a_team_sees_and_changes_its_keys_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&directory);
    let operator = AdminClient::new(&gateway, OPERATE);
    let other = json!({ "first": true, "team": "other" }).to_string();
    let other = operator.send("POST", "/v1/keys", &[JSON], &other).json();
    let team = AdminClient::new(&gateway, KEYS);
    let own = team.send("POST", "/v1/keys", &[JSON], &json!({ "team": "acme" }).to_string());
    assert_eq!(own.status, 201, "{own:?}");
    assert_eq!(team.get("/v1/keys?after=x").status, 400);
    let page = team.get("/v1/keys").text().to_owned();
    let id = |key: &serde_json::Value| key["id"].as_str().expect("an id").to_owned();
    assert!(page.contains(&id(&own.json())) && !page.contains(&id(&other)), "{page}");
    let foreign = format!("/v1/keys/{}", id(&other));
    assert!(matches!(team.get(&foreign).status, 403 | 404));
    assert!(matches!(team.send("DELETE", &foreign, &["If-Match: *"], "").status, 403 | 404));
    let strange = json!({ "team": "other" }).to_string();
    assert_eq!(team.send("POST", "/v1/keys", &[JSON], &strange).status, 403);
    assert_eq!(team.get("/v1/status").status, 403);
    let reader = AdminClient::new(&gateway, READ);
    assert_eq!(reader.get(&foreign).status, 200);
    assert_eq!(reader.send("DELETE", &foreign, &["If-Match: *"], "").status, 403);
    assert_eq!(reader.send("POST", "/v1/keys", &[JSON], "{}").status, 403);
}
