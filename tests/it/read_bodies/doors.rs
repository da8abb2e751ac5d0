//! Values of the body where a request is only described.

use serde_json::json;

use super::{FORM, JSON, with_top};
use crate::support::{Client, Gateway, Origin, Program};

const TOKEN: &str = "0123456789abcdef";

/// The status and the text of a question to `/v1/check`.
fn check(gateway: &Gateway, question: &serde_json::Value) -> (u16, String) {
    let mut client = Client::connect(gateway.addresses()[1]);
    let token = format!("Authorization: Bearer {TOKEN}");
    let response =
        client.request("POST", "/v1/check", &[JSON, &token], question.to_string().as_bytes());
    (response.status, response.text())
}

#[test]
fn a_question_and_a_request_have_one_counter() {
    let origin = Origin::hello();
    let top = format!(
        "check: {{ http: {{ address: \"127.0.0.1:0\", tokens: [{{ token: \"{TOKEN}\", policies: [p] }}] }} }}"
    );
    let gateway = with_top(&origin, "key: { fold: \"form:user\" }, missing_key: deny", "", &top);
    let question = |body: &str| {
        let headers = json!({ "content-type": "application/x-www-form-urlencoded" });
        let request = json!({
            "method": "POST", "host": "a.test", "ip": "192.0.2.7", "headers": headers, "body": body,
        });
        json!({ "policy": "p", "request": request })
    };
    let (status, answer) = check(&gateway, &question("user=Ann"));
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("\"admitted\":true"), "{answer}");
    assert_eq!(super::post(&gateway, &[FORM], b"user=ANN").status, 429);
    assert_eq!(super::post(&gateway, &[FORM], b"user=bob").status, 200);
    let (_, answer) = check(&gateway, &question("user=bob"));
    assert!(answer.contains("\"admitted\":false"), "{answer}");
}

#[test]
fn an_explanation_reads_the_body_that_it_is_given() {
    let origin = Origin::hello();
    let policy = "key: \"json:/model\", missing_key: deny";
    let gateway = with_top(&origin, policy, "", "");
    let file = gateway.file();
    let file = file.to_str().expect("the path is UTF-8");
    let explain = |more: &[&str]| {
        let mut arguments = vec!["explain", "-c", file, "-H", JSON];
        arguments.extend(more);
        arguments.push("http://a.test/");
        let output = Program::run(&arguments);
        (output.code, output.stdout)
    };
    let (code, text) = explain(&["-d", "{\"model\":\"secret-model\"}"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("json /model se…"), "{text}");
    let (code, text) = explain(&["-d", "{\"model\":1,\"model\":2}"]);
    assert!(code == Some(3) && text.contains("body_ambiguous"), "{text}");
    let (code, text) = explain(&[]);
    assert!(code == Some(3) && text.contains("body is not known"), "{text}");
}
