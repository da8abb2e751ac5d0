//! Access lists whose modes are changed at run time, on one node and on several.

use serde_json::json;

use super::{AdminClient, OPERATE, READ, section, settles};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, Response, eventually};

const LIST: &str = "/v1/access/maintenance";
const JSON_TYPE: &str = "Content-Type: application/json";

fn yaml(store: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n{store}\n\
         policies: {{ open: {{ key: ip, limit: 1M/day }} }}\n\
         access:\n  \
           maintenance: {{ else: deny, status: 503, retry_after: 10m, mode: \"off\" }}\n\
         routes: [{{ name: all, path: \"/*\", access: [maintenance], policies: [open], respond: {{ body: ok }} }}]\n{}",
        section("")
    )
}

fn patch(client: &AdminClient, tag: &str, body: &str) -> Response {
    client.send("PATCH", LIST, &[JSON_TYPE, &format!("If-Match: {tag}")], body)
}

fn status(gateway: &Gateway) -> u16 {
    gateway.client().get("/", &[]).status
}

#[test]
fn maintenance_is_switched_on_and_off_by_a_call() {
    let gateway = Gateway::start(&yaml(""));
    let client = AdminClient::new(&gateway, OPERATE);
    let before = client.get(LIST);
    let list = before.json();
    assert_eq!(
        (&list["mode"], &list["status"], &list["retry_after_s"]),
        (&json!("off"), &json!(503), &json!(600))
    );
    assert_eq!((&list["step"], &list["routes"]), (&json!("before_auth"), &json!(["all"])));
    assert_eq!(client.get("/v1/access").json()["items"][0], list);
    let first = before.field("ETag").expect("it has one").to_owned();
    let on = r#"{"mode":"enforce","reason":"a new database"}"#;
    assert_eq!(client.send("PATCH", LIST, &[JSON_TYPE], on).status, 428);
    assert_eq!(patch(&client, "\"other\"", on).status, 412);
    assert_eq!(patch(&AdminClient::new(&gateway, READ), "*", on).status, 403);
    assert_eq!(status(&gateway), 200);
    let made = patch(&client, &first, on);
    assert_eq!(made.status, 200, "{}", made.text());
    let made = made.json();
    assert_eq!(
        (&made["mode"], &made["patch"]["reason"]),
        (&json!("enforce"), &json!("a new database"))
    );
    assert_eq!(
        (&made["patch"]["actor"], &made["changes_scope"]),
        (&json!("oncall"), &json!("node"))
    );
    assert_eq!(status(&gateway), 503, "it holds at once");
    let effective = client.get("/v1/config?view=effective").text();
    assert!(effective.contains("enforce"), "{effective}");
    assert_eq!(patch(&client, &first, on).status, 412);
    for (body, status, said) in [
        (r#"{"mode":"on"}"#, 422, "not a mode"),
        (r#"{"reason":"x"}"#, 422, "the change has no"),
        (r#"{"mode":"off","for":"0s"}"#, 422, "out of range"),
        (r#"{"limit":"5/s"}"#, 400, "unknown field"),
    ] {
        let response = patch(&client, "*", body);
        assert_eq!(response.status, status, "{body}: {}", response.text());
        assert!(response.text().contains(said), "{body}: {}", response.text());
    }
    let unknown = client.send("PATCH", "/v1/access/none", &[JSON_TYPE, "If-Match: *"], on);
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    // A reload that changes other things keeps it, and one that changes the list ends it.
    gateway.reload(&yaml("").replace("1M/day", "2M/day"));
    assert_eq!(status(&gateway), 503);
    gateway.reload(&yaml("").replace("10m", "20m"));
    assert_eq!(status(&gateway), 200);
    assert_eq!(client.get(LIST).json()["patch"], json!(null));
    assert_eq!(patch(&client, "*", r#"{"mode":"shadow"}"#).status, 200);
    assert_eq!(status(&gateway), 200);
    let back = patch(&client, "*", r#"{"mode":null}"#);
    assert_eq!((back.status, &back.json()["mode"]), (200, &json!("off")), "{}", back.text());
    assert_eq!(patch(&client, "*", r#"{"mode":null}"#).status, 200, "twice is once");
    let results = client.get(LIST).json()["results"].clone();
    assert!(results["denied"].as_u64() >= Some(2) && results["shadow_denied"] == 1, "{results}");
    let audit = client.get("/v1/audit").json();
    let items = audit["items"].as_array().expect("a list");
    let is_made = |it: &&serde_json::Value| {
        it["list"] == "maintenance"
            && it["after"]["reason"] == "a new database"
            && it["status"] == 200
    };
    assert!(items.iter().any(|it| is_made(&it)), "{audit}");
    // Regression: an entry of a change that has failed did not name the list.
    let has_failed = |it: &&serde_json::Value| it["list"] == "none" && it["status"] == 404;
    assert!(items.iter().any(|it| has_failed(&it)), "{audit}");
}

#[test]
fn a_change_of_a_list_ends_in_time() {
    let gateway = Gateway::start(&yaml(""));
    let client = AdminClient::new(&gateway, OPERATE);
    let made = patch(&client, "*", r#"{"mode":"enforce","for":"2s"}"#);
    assert!(made.json()["patch"]["ends"].is_string(), "{}", made.text());
    eventually("it has ended", || status(&gateway) == 200);
    settles("it is shown", || client.get(LIST).json()["patch"] == json!(null));
    assert!(gateway.log().contains("an access list has another mode"), "{}", gateway.log());
}

#[test]
fn a_change_on_one_node_holds_on_all_and_outlives_restarts() {
    let redis = Redis::start(Options::default());
    let file = yaml(&format!("store: {{ redis: {{ url: \"{}\", timeout: 2s }} }}", redis.url()));
    let mut gateways: Vec<Gateway> = (0..2).map(|_| Gateway::start(&file)).collect();
    let client = AdminClient::new(&gateways[0], OPERATE);
    let made = patch(&client, "*", r#"{"mode":"enforce"}"#);
    assert_eq!(
        (made.status, &made.json()["changes_scope"]),
        (200, &json!("cluster")),
        "{}",
        made.text()
    );
    eventually("both have it", || gateways.iter().all(|it| status(it) == 503));
    gateways[1] = Gateway::start(&file);
    assert_eq!(status(&gateways[1]), 503, "its first request");
    assert_eq!(patch(&client, "*", r#"{"mode":null}"#).status, 200);
    eventually("both are as the file says", || gateways.iter().all(|it| status(it) == 200));
    // A node whose definition is another one ignores the change, and says so.
    assert_eq!(patch(&client, "*", r#"{"mode":"enforce"}"#).status, 200);
    gateways[1].reload(&file.replace("10m", "20m"));
    let other = AdminClient::new(&gateways[1], OPERATE);
    settles("it is ignored", || other.get(LIST).json()["ignored"][0].is_string());
    assert_eq!((status(&gateways[0]), status(&gateways[1])), (503, 200));
}
