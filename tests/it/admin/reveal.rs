//! Whole keys: only with the setting, the role `operate` and `reveal=true`, and recorded.

use serde_json::{Value, json};

use super::{AdminClient, OPERATE, READ, settles, statuses, yaml};
use crate::support::Gateway;

/// The calls that can show the key of this client, of which `id` is the request of a refusal.
fn targets(who: &str) -> [String; 4] {
    [
        "/v1/top?policy=each".to_owned(),
        "/v1/refusals?policy=each".to_owned(),
        "/v1/refusals/one".to_owned(),
        format!("/v1/policies/each/keys/{who}"),
    ]
    .map(|target| format!("{target}{}reveal=true", if target.contains('?') { '&' } else { '?' }))
}

/// Three requests that are admitted, and one that is refused.
fn use_up(gateway: &Gateway, who: &str) {
    let mut client = gateway.client();
    for status in [200, 200, 200, 429] {
        let fields = [&*format!("X-Who: {who}"), "X-Request-Id: one"];
        assert_eq!(client.get("/", &fields).status, status);
    }
}

/// Keys were never shown whole, and `reveal_keys` was a field that is not supported.
#[test]
fn whole_keys_are_shown_to_operators_who_ask_while_the_file_allows_it() {
    let gateway = Gateway::start(&yaml("", ""));
    let viewer = AdminClient::new(&gateway, READ);
    let operator = AdminClient::new(&gateway, OPERATE);
    use_up(&gateway, "kept-before");
    for target in targets("kept-before") {
        let read = viewer.get(&target);
        let operate = operator.get(&target);
        assert_eq!((read.status, operate.status), (403, 403), "{target}");
        assert!(read.text().contains("with reveal=true this call needs the role operate"));
        assert!(operate.text().contains("admin.reveal_keys"), "{}", operate.text());
    }
    let allowed = yaml("", "reveal_keys: true");
    // A call cannot give this right to operators.
    let put = ["Content-Type: application/yaml", "If-Match: *"];
    assert_eq!(operator.send("PUT", "/v1/config", &put, &allowed).status, 200);
    assert_eq!(operator.get(&targets("a")[0]).status, 403);
    gateway.reload(&allowed);
    let long = "k".repeat(600);
    use_up(&gateway, "whole-secret");
    assert_eq!(statuses(&gateway, &long, 4), [200, 200, 200, 429]);
    shown(&operator, &long);
    // Without the parameter nothing changes, and readers see nothing more.
    for target in targets("whole-secret") {
        assert_eq!(viewer.get(&target).status, 403, "{target}");
        let masked = viewer.get(&target.replace("reveal=true", "reveal=false"));
        assert!(masked.status == 200 && !masked.text().contains("secret"), "{}", masked.text());
    }
    assert_eq!(operator.get("/v1/top?scope=cluster&reveal=true").status, 400);
    recorded(&operator.get("/v1/audit").json());
    assert!(!gateway.log().contains("whole-secret"));
    // What was kept is forgotten.
    gateway.reload(&yaml("", ""));
    assert_eq!(operator.get(&targets("a")[0]).status, 403);
    gateway.reload(&allowed);
    let again = operator.get("/v1/refusals?reveal=true");
    assert!(again.status == 200 && !again.text().contains("whole-secret"), "{}", again.text());
}

/// The keys of both clients are shown by all calls, the long one cut.
fn shown(operator: &AdminClient, long: &str) {
    let whole = "header x-who whole-secret";
    let cut = format!("header x-who {}…", &long[..256]);
    settles("the list has both", || {
        let tops = ["", "&minutes=1"].map(|minutes| {
            operator.get(&format!("/v1/top?policy=each&reveal=true{minutes}")).text()
        });
        let tops = tops.concat();
        tops.contains(whole) && tops.contains(&cut)
    });
    let [_, refusals, refusal, key] = targets("whole-secret").map(|it| operator.get(&it).json());
    let keys: Vec<&Value> =
        refusals["items"].as_array().expect("a list").iter().map(|it| &it["key"]).collect();
    assert_eq!((&keys[0]["whole_key"], &keys[1]["whole_key"]), (&json!(cut), &json!(whole)));
    assert_eq!(keys[1]["text"], "header x-who wh…");
    // It was refused before the setting.
    assert_eq!((keys.len(), &keys[2]["whole_key"]), (3, &Value::Null));
    assert_eq!(refusal["items"][0]["key"]["whole_key"], whole);
    assert_eq!(key["whole_key"], whole);
    let by_id =
        format!("/v1/policies/each/keys/~{}?reveal=true", key["key_id"].as_str().expect("an id"));
    assert_eq!(operator.get(&by_id).json()["whole_key"], whole);
}

/// The audit log has each use, and each attempt of an operator, without the keys.
fn recorded(audit: &Value) {
    let items = audit["items"].as_array().expect("a list");
    let reveals: Vec<&Value> = items
        .iter()
        .filter(|it| it["call"].as_str().is_some_and(|call| call.ends_with("?reveal=true")))
        .collect();
    let has = |call: &str, status: u16, count: Value| {
        reveals.iter().any(|it| {
            it["call"] == call && it["status"] == status && it["after"]["whole_keys"] == count
        })
    };
    assert!(has("GET /v1/policies/{policy}/keys/{key}?reveal=true", 200, json!(1)), "{audit}");
    assert!(has("GET /v1/refusals?reveal=true", 200, json!(2)), "{audit}");
    assert!(has("GET /v1/top?reveal=true", 403, Value::Null), "{audit}");
    assert!(has("GET /v1/top?reveal=true", 400, Value::Null), "{audit}");
    let key = reveals.iter().find(|it| it["key_id"].is_string()).expect("the key's id is there");
    assert_eq!((&key["actor"], &key["policy"]), (&json!("oncall"), &json!("each")));
    assert!(!audit.to_string().contains("whole-secret"));
}
