//! The calls about API keys, with a store in a file; and limits of keys, as operators see them.

use serde_json::json;

use super::{AdminClient, OPERATE, READ};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, Response, eventually};

const KEYS: &str = "keys-0123456789abcdef0";
const ID: &str = "7f2m9qd0v3xk";
const JSON: &str = "Content-Type: application/json";

/// The policy of most tests.
const EACH: &str = "key: api_key, limit: 100/day";

fn gateway(directory: &tempfile::TempDir) -> Gateway {
    gateway_with(directory, EACH)
}

/// The same with another policy.
fn gateway_with(directory: &tempfile::TempDir, policy: &str) -> Gateway {
    start(&format!("keys: {{ path: {:?} }}", directory.path().join("keys.redb")), policy)
}

fn start(store: &str, policy: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ {store} }}\n\
         client: {{ failures: 100000/minute, keys: {{ prefix: acme, foreign: true }} }}\n\
         policies: {{ each: {{ {policy} }} }}\n\
         routes: [{{ path: \"/*\", auth: [api_key], policies: [each], respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [\
         {{ name: oncall, role: operate, token: {OPERATE} }}, \
         {{ name: viewer, role: read, token: {READ} }}, \
         {{ name: acme, role: keys, token: {KEYS}, teams: [acme] }}] }}\n",
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

/// The last entry of the audit log of this call.
fn audited(client: &AdminClient, call: &str) -> serde_json::Value {
    let entries = client.get("/v1/audit").json();
    let entries = entries["items"].as_array().expect("a list");
    entries.iter().find(|it| it["call"] == call).expect("the call is recorded").clone()
}

/// The text of the key was lost, and the audit log did not name the key.
#[test]
fn a_key_that_other_nodes_are_not_told_of_is_shown_and_every_change_is_recorded() {
    let redis = Redis::start(Options::default());
    let gateway = start(&format!("redis: {{ url: \"{}\", timeout: 2s }}", redis.url()), EACH);
    let client = AdminClient::new(&gateway, OPERATE);
    redis.cli(&["DEL", "tollgate:meta:keys"]);
    redis.cli(&["SET", "tollgate:meta:keys", "of another kind"]);

    let made = client.send("POST", "/v1/keys", &[JSON], &json!({ "first": true }).to_string());
    assert_eq!(made.status, 201, "{made:?}");
    let warning = made.json()["warning"].as_str().expect("a warning").to_owned();
    assert!(warning.contains("within a minute"), "{warning}");
    let id = made.json()["id"].as_str().expect("the id").to_owned();
    let created = audited(&client, "POST /v1/keys");
    assert_eq!((&created["key_id"], &created["status"]), (&json!(id), &json!(201)));

    let path = format!("/v1/keys/{id}");
    let rotation = json!({ "overlap": "0s" }).to_string();
    let rotated = client.send("POST", &format!("{path}/rotate"), &[JSON], &rotation);
    assert_eq!(rotated.status, 201, "{rotated:?}");
    assert!(rotated.json()["warning"].is_string(), "{rotated:?}");
    let text = rotated.json()["key"].as_str().expect("the text").to_owned();
    eventually("the new secret holds", || status(&gateway, &text) == 200);
    assert_eq!(audited(&client, "POST /v1/keys/{id}/rotate")["key_id"], json!(id));

    let import = json!({ "keys": [{ "key": "an-old-key-of-another-program" }] }).to_string();
    let imported = client.send("POST", "/v1/keys/import", &[JSON], &import);
    assert_eq!(imported.status, 200, "{imported:?}");
    assert!(imported.json()["warning"].is_string(), "{imported:?}");

    let off = json!({ "disabled": true }).to_string();
    let changed = client.send("PATCH", &path, &[JSON, "If-Match: *"], &off);
    assert_eq!(changed.status, 503, "{changed:?}");
    let changed = audited(&client, "PATCH /v1/keys/{id}");
    assert_eq!((&changed["key_id"], &changed["status"]), (&json!(id), &json!(503)));
    assert_eq!(changed["before"]["disabled"], json!(false));
    assert_eq!(changed["after"]["disabled"], json!(true));
    assert_eq!(client.send("DELETE", &path, &[], "").status, 503);
    let revoked = audited(&client, "DELETE /v1/keys/{id}");
    assert_eq!(revoked["after"]["state"], json!("revoked"));
    let plan = json!({ "plan": "pro" }).to_string();
    let set = client.send("PUT", "/v1/teams/acme", &[JSON, "If-None-Match: *"], &plan);
    assert_eq!(set.status, 503, "{set:?}");
    assert_eq!(audited(&client, "PUT /v1/teams/{name}")["after"]["plan"], json!("pro"));
}

/// A call that fails named no key in the audit log.
#[test]
fn a_failed_call_is_recorded_with_the_id_of_its_key_and_never_with_a_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&directory);
    let client = AdminClient::new(&gateway, OPERATE);
    let made = client.send("POST", "/v1/keys", &[JSON], &json!({ "first": true }).to_string());
    let text = made.json()["key"].as_str().expect("the text").to_owned();
    assert_eq!(client.send("DELETE", &format!("/v1/keys/{text}"), &[], "").status, 404);
    let unnamed = audited(&client, "DELETE /v1/keys/{id}");
    assert!(unnamed["key_id"].is_null(), "{unnamed}");
    assert_eq!(client.send("DELETE", &format!("/v1/keys/{ID}"), &[], "").status, 404);
    let named = audited(&client, "DELETE /v1/keys/{id}");
    assert_eq!((&named["key_id"], &named["status"]), (&json!(ID), &json!(404)));
    assert!(!client.get("/v1/audit").text().contains(&text[..40]));
}

/// A key whose import was interrupted was `present` for ever.
#[test]
fn an_import_that_was_interrupted_is_completed_by_the_next_one() {
    let redis = Redis::start(Options::default());
    let gateway = start(&format!("redis: {{ url: \"{}\", timeout: 2s }}", redis.url()), EACH);
    let client = AdminClient::new(&gateway, OPERATE);
    let text = "an-old-key-of-another-program";
    let import = |id: Option<&str>| {
        let key = match id {
            Some(id) => json!({ "key": text, "id": id }),
            None => json!({ "key": text }),
        };
        let body = json!({ "keys": [key] }).to_string();
        client.send("POST", "/v1/keys/import", &[JSON], &body)
    };
    let early = import(None);
    assert_eq!(early.status, 503, "there is no sign of keys: {early:?}");
    let first = client.send("POST", "/v1/keys", &[JSON], &json!({ "first": true }).to_string());
    assert_eq!(first.status, 201, "{first:?}");
    let imported = import(None).json();
    let id = imported["stored"][0].as_str().expect("it was not stored before").to_owned();
    eventually("the key holds", || status(&gateway, text) == 200);
    // The process ends between the entry of the digest and the record.
    let names = redis.cli(&["--scan", "--pattern", &format!("tollgate:k:*:{id}")]);
    assert_eq!(redis.cli(&["DEL", names.trim()]).trim(), "1", "{names}");
    let other = import(Some(ID)).json();
    assert!(other["refused"][0].as_str().is_some_and(|why| why.contains(&id)), "{other}");
    assert_eq!(import(None).json()["stored"], json!([id]));
    assert_eq!(import(None).json()["present"], json!([id]));
    let find = json!({ "key": text }).to_string();
    assert_eq!(client.send("POST", "/v1/keys/find", &[JSON], &find).json()["id"], json!(id));
}

fn request(gateway: &Gateway, key: &str) -> Response {
    gateway.client().get("/", &[&format!("X-Api-Key: {key}")])
}

/// A new key with these fields, or the first one of the store: its id and its text.
fn key_with(client: &AdminClient, fields: serde_json::Value) -> (String, String) {
    let mut fields = fields;
    fields["first"] = json!(true);
    let made = client.send("POST", "/v1/keys", &[JSON], &fields.to_string());
    assert_eq!(made.status, 201, "{made:?}");
    let text = |name: &str| made.json()[name].as_str().expect("a text").to_owned();
    (text("id"), text("key"))
}

/// A limit with another window has a counter of its own. `GET` has shown the counter of the policy,
/// and `DELETE` has forgotten that one and said that the client begins again.
#[test]
fn the_limit_of_a_key_or_a_team_is_shown_and_reset() {
    for (policy, of, from) in [
        ("key: api_key, limit: 5/minute", "the key", "key"),
        ("key: api_key, limit: 5/minute", "its team", "team"),
        ("key: \"api_key:team\", limit: 5/minute", "its team", "team"),
        ("key: ip, limit: 5/minute", "the key", "key"),
        ("key: ip, limit: unlimited", "its team", "team"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let gateway = gateway_with(&directory, policy);
        let client = AdminClient::new(&gateway, OPERATE);
        let limits = json!({ "each": "4/hour" });
        let (id, key) = match of {
            "the key" => key_with(&client, json!({ "limits": limits })),
            _ => {
                let fields = [JSON, "If-None-Match: *"];
                let team = json!({ "limits": limits }).to_string();
                let (id, key) = key_with(&client, json!({ "team": "blue" }));
                let made = client.send("PUT", "/v1/teams/blue", &fields, &team);
                assert_eq!(made.status, 200, "{made:?}");
                (id, key)
            }
        };
        eventually("the limit holds", || {
            request(&gateway, &key).field("X-Ratelimit-Limit") == Some("4")
        });
        eventually("it is used up", || request(&gateway, &key).status == 429);
        let refused = client.get("/v1/refusals").json();
        let kept = format!("~{}", refused["items"][0]["key"]["id"].as_str().expect("an id"));
        let written = match policy {
            it if it.contains("team") => "blue".to_owned(),
            it if it.contains("ip") => format!("127.0.0.1?api_key={id}"),
            _ => id.clone(),
        };
        for key_of_path in [kept, written] {
            let path = format!("/v1/policies/each/keys/{key_of_path}");
            let shown = client.get(&path).json();
            let wait = request(&gateway, &key).number("Retry-After");
            let said = format!("{policy}, {of}, {key_of_path}: {shown}");
            assert_eq!(
                (&shown["limit"], &shown["limit_from"]),
                (&json!(4), &json!(from)),
                "{said}"
            );
            assert_eq!((&shown["used"], &shown["remaining"]), (&json!(4), &json!(0)), "{said}");
            let shown_wait = shown["retry_after_ms"].as_u64().expect("it waits");
            assert!(shown_wait.div_ceil(1000).abs_diff(wait) <= 2, "{wait} s: {said}");
            let reset = client.send("DELETE", &path, &[], "");
            assert_eq!(reset.status, 200, "{reset:?}");
            eventually("it is admitted", || request(&gateway, &key).status == 200);
            let left = request(&gateway, &key).number("X-Ratelimit-Remaining");
            assert_eq!(client.get(&path).json()["remaining"], left, "{said}");
            eventually("it is used up", || request(&gateway, &key).status == 429);
        }
    }
}

/// Then the answer says so, and does not take the limit of the policy for that of the client.
#[test]
fn a_key_that_is_not_known_here_may_have_another_counter() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway_with(&directory, "key: ip, limit: 5/minute");
    let client = AdminClient::new(&gateway, OPERATE);
    let (id, key) = key_with(&client, json!({ "limits": { "each": "4/hour" } }));
    let path = "/v1/policies/each/keys/127.0.0.1";
    assert_eq!(client.get(path).json()["api_key"], "unknown");
    assert_eq!(client.send("DELETE", path, &[], "").json()["api_key"], "unknown");
    assert_eq!(request(&gateway, &key).status, 200);
    let of_key = format!("{path}?api_key={id}");
    let shown = client.get(&of_key).json();
    assert_eq!((&shown["api_key"], &shown["remaining"]), (&json!(id), &json!(3)), "{shown}");
    assert_eq!(client.send("DELETE", &of_key, &[], "").json()["api_key"], json!(id));
    assert_eq!(client.get(&of_key).json()["remaining"], 4);
    for (query, status) in [("abc", 400), ("7f2m9qd0v3xk", 404)] {
        let response = client.get(&format!("{path}?api_key={query}"));
        assert_eq!(response.status, status, "{response:?}");
    }
}

/// The override has a counter of its own, and the answer has named the key.
#[test]
fn the_counter_of_a_key_is_forgotten_also_while_an_override_is_in_force() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let gateway = start(
        &format!(
            "keys: {{ path: {:?} }}, overrides: {{ path: {:?} }}",
            path("keys.redb"),
            path("overrides.redb")
        ),
        "key: ip, limit: 5/minute, overrides: true",
    );
    let client = AdminClient::new(&gateway, OPERATE);
    let (id, key) = key_with(&client, json!({ "limits": { "each": "4/hour" } }));
    assert_eq!(request(&gateway, &key).status, 200);
    let of_key = format!("/v1/policies/each/keys/127.0.0.1?api_key={id}");
    assert_eq!(client.get(&of_key).json()["remaining"], 3);
    let own = "/v1/policies/each/overrides/127.0.0.1";
    let limit = json!({ "limit": "100/day" }).to_string();
    assert_eq!(client.send("PUT", own, &[JSON], &limit).status, 200);
    assert_eq!(client.get(&of_key).json()["limit_from"], "override");
    assert_eq!(client.send("DELETE", &of_key, &[], "").json()["api_key"], json!(id));
    assert_eq!(client.send("DELETE", own, &[], "").status, 200);
    let shown = client.get(&of_key).json();
    assert_eq!((&shown["limit_from"], &shown["remaining"]), (&json!("key"), &json!(4)), "{shown}");
}
