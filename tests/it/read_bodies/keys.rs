//! What a request is counted by, if a value of its body is the key.

use super::{FORM, JSON, once_a_day, post, send, statuses, with_top};
use crate::support::{Gateway, Origin};

#[test]
fn a_value_of_a_document_is_a_key() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: \"json:/user/id\"", "");
    let bodies = [
        r#"{"user":{"id":"ann"}}"#,
        r#"{"user":{"id":"ann"},"other":1}"#,
        r#"{"user":{"name":"x","id":"\u0061nn"}}"#,
        r#"{"user":{"id":"bob"}}"#,
        r#"{"user":{"id":7}}"#,
        r#"{"user":{"id":7.0}}"#,
        r#"{"user":{"id":true}}"#,
    ];
    assert_eq!(statuses(&gateway, &[JSON], bodies), [200, 429, 429, 200, 200, 429, 200]);
    let without_type = statuses(&gateway, &[], [r#"{"user":{"id":"ann"}}"#]);
    assert_eq!(without_type, [429]);
    assert_eq!(origin.received().len(), 4, "refused requests are not forwarded");
}

#[test]
fn a_name_that_is_folded_has_one_counter_in_every_spelling() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: { fold: \"form:username\" }", "");
    let bodies = [
        "username=Ann&password=1",
        "password=2&username=ANN",
        "username=%EF%BD%81nn",
        "username=+ann+",
        "username=anna",
    ];
    assert_eq!(statuses(&gateway, &[FORM], bodies), [200, 429, 429, 429, 200]);
}

#[test]
fn several_values_can_be_one_key_and_a_list_takes_the_first() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: { all: [\"header:x-team\", \"json:/model\"] }", "");
    let of = |team: &str, model: &str| {
        let body = format!("{{\"model\":\"{model}\"}}");
        post(&gateway, &[JSON, &format!("X-Team: {team}")], body.as_bytes()).status
    };
    let seen = [of("a", "m"), of("a", "m"), of("a", "n"), of("b", "m")];
    assert_eq!(seen, [200, 429, 200, 200]);
    let gateway = once_a_day(&origin, "key: { first: [\"json:/a\", \"json:/b\", ip] }", "");
    let bodies = [r#"{"b":1}"#, r#"{"b":1,"a":2}"#, r#"{"b":1}"#, "{}", r#"{"c":1}"#];
    assert_eq!(statuses(&gateway, &[JSON], bodies), [200, 200, 429, 200, 429]);
}

#[test]
fn the_tool_of_a_message_is_a_key_and_other_messages_are_skipped() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: \"mcp:tool\", missing_key: skip", "");
    let call = |tool: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\"}}}}"
        )
    };
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let bodies = [&*call("add"), &*call("add"), &*call("sub"), list, list];
    assert_eq!(statuses(&gateway, &[JSON], bodies), [200, 429, 200, 200, 200]);
    assert_eq!([(); 2].map(|()| gateway.client().get("/", &[]).status), [200, 200]);
    let batch = format!("[{}]", call("mul"));
    let refused = post(&gateway, &[JSON], batch.as_bytes());
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("batch"), "{}", refused.text());
    let named = |name: &str| {
        let fields = [JSON, "Mcp-Method: tools/call", name];
        post(&gateway, &fields, call("div").as_bytes()).status
    };
    assert_eq!([named("Mcp-Name: add"), named("Mcp-Name: div")], [400, 200]);
}

#[test]
fn a_plan_can_be_named_by_the_body() {
    let origin = Origin::hello();
    let policy = "key: ip, plans: { from: \"json:/tier\", limits: { more: 3/day } }";
    let gateway = once_a_day(&origin, policy, "");
    let more = r#"{"tier":"more"}"#;
    assert_eq!(
        statuses(&gateway, &[JSON], ["{}", "{}", more, more, more]),
        [200, 429, 200, 200, 429]
    );
}

#[test]
fn a_body_without_the_value_lacks_the_key() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: \"json:/model\", missing_key: deny", "");
    let bodies = ["{}", r#"{"model":null}"#, r#"{"model":["x"]}"#, r#"{"model":1.5}"#, "\"x\""];
    assert_eq!(statuses(&gateway, &[JSON], bodies), [403; 5]);
    let other = statuses(&gateway, &["Content-Type: text/plain"], [r#"{"model":"x"}"#]);
    assert_eq!(other, [403]);
    assert_eq!(gateway.client().get("/", &[]).status, 403, "there is no body");
    assert_eq!(send(&gateway, &super::chunked("", &[])).status, 403, "the body is empty");
    assert_eq!(statuses(&gateway, &[JSON], [r#"{"model":"x"}"#]), [200]);
}

#[test]
fn compressed_bodies_are_read_and_forwarded_as_they_are() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: \"json:/model\"", "");
    let text = |model: &str| format!("{{\"model\":\"{model}\",\"x\":\"{}\"}}", "y".repeat(5000));
    let gzip = super::bounds::gzip(text("a").as_bytes());
    let zstd = super::bounds::zstd(text("a").as_bytes());
    let got = [
        post(&gateway, &[JSON, "Content-Encoding: gzip"], &gzip).status,
        post(&gateway, &[JSON, "Content-Encoding: zstd"], &zstd).status,
        post(&gateway, &[JSON], text("a").as_bytes()).status,
    ];
    assert_eq!(got, [200, 429, 429]);
    assert!(origin.received()[0].body == gzip);
    let unknown = post(&gateway, &[JSON, "Content-Encoding: br"], b"x");
    assert_eq!(unknown.status, 415);
    assert_eq!(unknown.field("Accept-Encoding"), Some("gzip, zstd"));
}

#[test]
fn failed_logins_are_counted_by_account() {
    let origin = Origin::answering(|request| {
        let is_right = request.body.ends_with(b"password=right");
        let status = if is_right { "200 OK" } else { "401 Unauthorized" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    let gateway = once_a_day(&origin, "key: { fold: \"form:user\" }, count: { status: [401] }", "");
    let bodies = [
        "user=ann&password=right",
        "user=ann&password=right",
        "user=ann&password=1",
        "user=ANN&password=right",
        "user=bob&password=2",
    ];
    assert_eq!(statuses(&gateway, &[FORM], bodies), [200, 200, 401, 429, 401]);
}

/// The log says what happened, and never has a value of the body.
#[test]
fn the_access_log_has_the_route_and_the_reason() {
    let origin = Origin::hello();
    let gateway = with_top(
        &origin,
        "key: \"json:/secret\", missing_key: deny",
        "name: chat, read_body: { max: 1KiB }",
        "runtime: { workers: 1 }",
    );
    let long = format!("{{\"secret\":\"{}\"}}", "x".repeat(2000));
    let got = statuses(&gateway, &[JSON], [r#"{"secret":"s3cr3t"}"#, "{", "{}", &long]);
    assert_eq!(got, [200, 400, 403, 413]);
    let lines = gateway.access_lines(4);
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str()).collect();
    let expected = ["admitted", "body_ambiguous", "key_missing", "body_too_large"];
    assert_eq!(outcomes, expected.map(Some));
    assert!(lines.iter().all(|line| line["route"] == "chat"), "{lines:?}");
    assert!(!gateway.access_text(4).contains("s3cr3t") && !gateway.log().contains("s3cr3t"));
}

#[test]
fn a_policy_in_shadow_refuses_no_body() {
    let origin = Origin::hello();
    let policy = "key: \"json:/model\", missing_key: deny, mode: shadow";
    let gateway = once_a_day(&origin, policy, "read_body: { max: 1KiB }");
    let long = format!("{{\"model\":\"{}\"}}", "x".repeat(5000));
    let bodies = ["{", r#"{"model":1,"model":2}"#, "{}", &long];
    assert_eq!(statuses(&gateway, &[JSON], bodies), [200; 4]);
    assert_eq!(post(&gateway, &[JSON, "Content-Encoding: br"], b"x").status, 200);
    let received = origin.received();
    assert_eq!(received.len(), 5);
    assert!(received[3].body == long.as_bytes());
}

/// The other policies decide before the body is read, if this node knows that they refuse. With
/// counters in memory it always does.
#[test]
fn a_used_up_limit_by_address_refuses_before_the_body_comes() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         runtime: {{ workers: 1 }}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ a: {{ key: ip, limit: 2/day }}, m: {{ key: \"json:/model\", limit: 1/day }} }}\n\
         routes: [{{ path: /*, policies: [m, a], upstream: app }}]\n",
        origin.address()
    ));
    let bodies = [r#"{"model":"a"}"#, r#"{"model":"a"}"#, r#"{"model":"b"}"#, r#"{"model":"c"}"#];
    assert_eq!(statuses(&gateway, &[JSON], bodies), [200, 429, 200, 429]);
    let mut client = gateway.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{");
    let refused = client.response("POST");
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("\"a\""), "{}", refused.text());
    assert_eq!(origin.received().len(), 2);
}

#[test]
fn each_call_of_a_batch_may_cost_one() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: ip, limit: 3/day, cost: { messages: true }", "");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
    let note = r#"{"jsonrpc":"2.0","method":"b"}"#;
    let batch = format!("[{call},{note},{call}]");
    let bodies = [note, &*batch, &*batch, call, call, note];
    assert_eq!(statuses(&gateway, &[JSON], bodies), [200, 200, 429, 200, 429, 200]);
    assert_eq!(gateway.client().get("/", &[]).status, 200, "it has no message");
    let twice = r#"{"id":1,"method":"a","id":2}"#;
    assert_eq!(statuses(&gateway, &[JSON], [twice, "{"]), [400, 400]);
    assert_eq!(statuses(&gateway, &["Content-Type: text/plain"], [call]), [429]);
}
