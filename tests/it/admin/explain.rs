//! What requests would get, and what past refusals were.

use std::process::Command;

use serde_json::{Value, json};

use super::{AdminClient, OPERATE, READ, gateway, section, settles};
use crate::support::{Certificates, Gateway, Program};

const JSON: [&str; 1] = ["Content-Type: application/json"];

fn explain(admin: &AdminClient, who: &str) -> Value {
    let body = json!({
        "url": "http://a.test/orders/7",
        "headers": [["X-Who", who]],
        "peer": "127.0.0.1",
    });
    let response = admin.send("POST", "/v1/explain", &JSON, &body.to_string());
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

fn run(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String) {
    let admin = format!("http://{}", gateway.addresses()[1]);
    let mut all = vec!["explain", "--admin", &admin];
    all.extend(arguments);
    said(Program::command().args(all).env("TOLLGATE_ADMIN_TOKEN", READ))
}

/// The exit code of a command, and all its output.
fn said(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("the program runs");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// The policies that were told, with whether there is an `earliest` and not when: it follows the clock
/// of the machine, so that it can differ by a millisecond.
fn timeless(told: &Value) -> Value {
    let mut policies = told["policies"].clone();
    for policy in policies.as_array_mut().expect("a list") {
        policy["earliest"] = json!(policy["earliest"].is_null());
    }
    policies
}

#[test]
fn a_request_gets_what_was_told_and_its_refusal_is_kept() {
    let gateway = gateway("runtime: { workers: 1 }", "");
    let admin = AdminClient::new(&gateway, READ);
    let mut client = gateway.client();
    for used in [0, 1, 2, 3] {
        let told = explain(&admin, "ann");
        let again = explain(&admin, "ann");
        assert_eq!(timeless(&told), timeless(&again), "a look counts nothing");
        let id = format!("X-Request-Id: ann-{used}");
        let response = client.get("/orders/7?secret=1", &["X-Who: ann", &id]);
        let is_refused = used == 3;
        let expected = if is_refused { ("refused", 429) } else { ("admitted", 200) };
        assert_eq!((told["decision"].as_str(), response.status), (Some(expected.0), expected.1));
        for name in ["X-Ratelimit-Remaining", "X-Ratelimit-Limit", "RateLimit-Policy"] {
            let told = told["headers"][name.to_ascii_lowercase()].as_str();
            assert_eq!(told, response.field(name), "{name} {told:?}");
        }
        assert_eq!(told["route"]["name"], "1");
        assert_eq!((&told["generation"], &told["source"]), (&json!(1), &json!("store")));
    }
    let list = admin.get("/v1/refusals?policy=each").json();
    let refusal = &list["items"][0];
    assert_eq!((&list["items"][1], &list["next"]), (&Value::Null, &Value::Null), "{list}");
    assert_eq!((&refusal["request_id"], &refusal["limit"]), (&json!("ann-3"), &json!(3)));
    assert_eq!((&refusal["path"], &refusal["method"]), (&json!("/orders/7"), &json!("GET")));
    assert_eq!(refusal["key"]["text"], "header x-who a…");
    assert_eq!(refusal["key"]["id"], explain(&admin, "ann")["policies"][0]["key"]["id"]);
    assert_eq!(admin.get("/v1/refusals/ann-3").json()["items"][0], *refusal);
    let unknown = admin.get("/v1/refusals/ann-2");
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("the oldest one that is kept is of 20"), "{}", unknown.text());
    for body in ["", "{}", "{\"url\": \"/\", \"x\": 1}", "{\"url\": \"http://a\", \"peer\": \"b\"}"]
    {
        assert_eq!(admin.send("POST", "/v1/explain", &JSON, body).status, 400, "{body}");
    }
    for target in ["limit=0", "limit=1001", "after=x", "unknown=1"] {
        assert_eq!(admin.get(&format!("/v1/refusals?{target}")).status, 400, "{target}");
    }
    by_command_line(&gateway);
    let operator = AdminClient::new(&gateway, OPERATE);
    let patch = json!({ "limit": "5/day", "for": "30m", "reason": "a test" }).to_string();
    let fields = [JSON[0], "If-Match: *"];
    let patched = operator.send("PATCH", "/v1/policies/each", &fields, &patch);
    assert_eq!(patched.status, 200, "{}", patched.text());
    settles("the patch is in force", || {
        let told = explain(&admin, "ann");
        let policy = &told["policies"][0];
        (&policy["limit_from"], &policy["limit"]) == (&json!("patch"), &json!(5))
            && told["decision"] == "admitted"
    });
}

fn by_command_line(gateway: &Gateway) {
    let url = "http://a.test/orders/7";
    let (code, text) = run(gateway, &["-H", "X-Who: ann", url]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.starts_with("Refused by each (429): 3 of 3 used, fits in "), "{text}");
    let (code, text) = run(gateway, &["-H", "X-Who: bob", "--json", "--peer", "192.0.2.7", url]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &document["client"]["ip"]), (Some(0), &json!("192.0.2.0/24")));
    // All gateways are asked; here both are the same one.
    let admin = format!("http://{}", gateway.addresses()[1]);
    let (code, text) = run(gateway, &["--admin", &admin, "-H", "X-Who: ann", url]);
    assert_eq!((code, text.matches("Refused by each").count()), (Some(3), 2), "{text}");
    let (code, text) = run(gateway, &["--id", "ann-3"]);
    assert!(code == Some(3) && text.starts_with("Refused by each at 20"), "{code:?} {text}");
    let (code, text) = run(gateway, &["--id", "none"]);
    assert!(code == Some(1) && text.contains("404 Not Found: this node knows no"), "{text}");
    let mut command = Program::command();
    command.args(["explain", "--admin", &admin, url]);
    let (code, text) = said(command.env("TOLLGATE_ADMIN_TOKEN", "wrong-0123456789"));
    assert!(code == Some(1) && text.contains("401 Unauthorized"), "{text}");
    let (code, text) = said(command.env_remove("TOLLGATE_ADMIN_TOKEN"));
    assert!(code == Some(2) && text.contains("set TOLLGATE_ADMIN_TOKEN"), "{text}");
    let (code, text) = run(gateway, &["/v1"]);
    assert!(code == Some(2) && text.contains("write http://HOST/v1"), "{text}");
}

#[test]
fn the_command_line_asks_over_tls_and_unix_sockets_and_without_a_gateway() {
    let made = Certificates::temporary("127.0.0.1");
    let chain = made.server();
    let key = made.server_key();
    let tls = format!("tls: {{ certificates: [{{ cert: {chain:?}, key: {key:?} }}] }}");
    let secure = gateway("", &tls);
    let admin = format!("https://{}", secure.addresses()[1]);
    let token = secure.file().with_file_name("token");
    std::fs::write(&token, format!("{READ}\n")).expect("it is written");
    let token = token.display().to_string();
    let ca = made.ca().display().to_string();
    let arguments = ["explain", "--admin", &admin, "--token-file", &token, "http://a.test/"];
    let ask = |more: &[&str]| said(Program::command().args(arguments).args(more));
    let (code, text) = ask(&["--cacert", &ca]);
    assert!(code == Some(0) && text.starts_with("Admitted: "), "{text}");
    let (code, text) = ask(&[]);
    assert!(code == Some(1) && text.contains("cannot connect"), "{text}");
    let file = secure.file().display().to_string();
    let offline = ["explain", "-c", &file, "--used", "each=3", "-H", "X-Who: a", "http://a.test/"];
    let (code, text) = said(Program::command().args(offline));
    assert!(code == Some(3) && text.starts_with("Refused by each (429): 3 of 3"), "{text}");
    let socket = secure.file().with_file_name("admin.sock");
    let unix =
        Gateway::start(&super::yaml("", "").replace(
            &section(""),
            &format!("admin: {{ address: \"unix:{}\" }}\n", socket.display()),
        ));
    let admin = format!("unix:{}", socket.display());
    let (code, text) =
        said(Program::command().args(["explain", "--admin", &admin, "http://a.test/"]));
    assert!(code == Some(0) && text.starts_with("Admitted: "), "{text}");
    drop(unix);
}
