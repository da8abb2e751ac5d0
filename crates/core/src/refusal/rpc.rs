//! Responses to messages of JSON-RPC 2.0, which clients of the Model Context Protocol read.
//!
//! A refusal by a limit belongs to the call of which it repeats the identifier, and its status is
//! 200: libraries show the body of another status to a person as raw text. Without an identifier,
//! there is nothing to which the response could belong, and the status says what has happened.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;

use super::Problem;
use crate::meter::RpcMessage;
use crate::text::push_json;

/// How a refused call of a tool is answered (Model Context Protocol, "Error Handling").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolErrors {
    /// By a result with `isError`, which agents show to the language model.
    #[default]
    Result,
    /// By an error, as any other call: many agents end then.
    Error,
}

/// The status and the body of the response about a problem.
pub(super) fn answer(
    problem: &Problem<'_>,
    tool_errors: Option<ToolErrors>,
) -> (StatusCode, Bytes) {
    let is_refusal = problem.is_refusal();
    let of_call = if is_refusal { StatusCode::OK } else { problem.status };
    match problem.message {
        Some(RpcMessage::Unanswered) => (problem.status, Bytes::new()),
        Some(RpcMessage::Call { id, calls_tool: true })
            if is_refusal && tool_errors == Some(ToolErrors::Result) =>
        {
            (of_call, result(problem, id))
        }
        Some(RpcMessage::Call { id, .. }) => (of_call, error(problem, id)),
        None => (problem.status, error(problem, "null")),
    }
}

/// An error (JSON-RPC 2.0, section 5.1). The codes of its own that a server may give are all but
/// those from -32768 to -32000, and so that of a limit is its status.
fn error(problem: &Problem<'_>, id: &str) -> Bytes {
    let code = problem.rpc_code.unwrap_or_else(|| problem.status.as_u16().into());
    let mut json = begin(id);
    json.push_str(r#","error":{"code":"#);
    json.push_str(itoa::Buffer::new().format(code));
    json.push_str(r#","message":"#);
    push_json(&mut json, &problem.text());
    if problem.is_refusal() {
        json.push_str(r#","data":{"retry_after_ms":"#);
        json.push_str(&number(problem.retry_after_ms));
        json.push_str(r#","policy":"#);
        push_json(&mut json, problem.violated_policies.first().unwrap_or(&""));
        json.push_str(r#","limit":"#);
        json.push_str(&number(problem.limit));
        json.push('}');
    }
    json.push_str("}}");
    json.into()
}

/// The result of a tool that has failed.
fn result(problem: &Problem<'_>, id: &str) -> Bytes {
    let mut json = begin(id);
    json.push_str(r#","result":{"content":[{"type":"text","text":"#);
    push_json(&mut json, &problem.text());
    json.push_str(r#"}],"isError":true,"_meta":{"tollgate/retry_after_ms":"#);
    json.push_str(&number(problem.retry_after_ms));
    json.push_str("}}}");
    json.into()
}

fn begin(id: &str) -> String {
    let mut json = String::with_capacity(320 + id.len());
    json.push_str(r#"{"jsonrpc":"2.0","id":"#);
    json.push_str(id);
    json
}

fn number(number: Option<u64>) -> Cow<'static, str> {
    number.map_or(Cow::Borrowed("null"), |number| number.to_string().into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::time::Span;

    fn beyond(message: Option<&RpcMessage>) -> Problem<'_> {
        let wait = Some(Span::from_millis(1501));
        let problem = Problem::beyond_a_limit(&["tools \"a\"", "b"], wait, Some("id-1"));
        Problem { limit: Some(30), message, ..problem }
    }

    fn call(calls_tool: bool) -> RpcMessage {
        RpcMessage::Call { id: "\"\\u0061\"".into(), calls_tool }
    }

    fn value(body: &Bytes) -> Value {
        serde_json::from_slice(body).expect("it is JSON")
    }

    #[test]
    fn a_refused_call_gets_an_error_with_its_identifier() {
        let text = "Quota Exceeded (tools \"a\", b): Try again in 2 seconds.";
        let data = json!({ "retry_after_ms": 1501, "policy": "tools \"a\"", "limit": 30 });
        let error = json!({ "code": 429, "message": text, "data": data });
        let message = call(false);
        for tools in [None, Some(ToolErrors::Result), Some(ToolErrors::Error)] {
            let (status, body) = answer(&beyond(Some(&message)), tools);
            assert_eq!(status, 200);
            assert_eq!(value(&body), json!({ "jsonrpc": "2.0", "id": "a", "error": error }));
            assert!(body.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\","), "{body:?}");
        }
        let message = call(true);
        for tools in [None, Some(ToolErrors::Error)] {
            let (_, body) = answer(&beyond(Some(&message)), tools);
            assert_eq!(value(&body)["error"], error);
        }
    }

    #[test]
    fn a_refused_call_of_a_tool_gets_a_result() {
        let message = call(true);
        let (status, body) = answer(&beyond(Some(&message)), Some(ToolErrors::Result));
        let text = "Quota Exceeded (tools \"a\", b): Try again in 2 seconds.";
        let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true,
                             "_meta": { "tollgate/retry_after_ms": 1501 } });
        assert_eq!(status, 200);
        assert_eq!(value(&body), json!({ "jsonrpc": "2.0", "id": "a", "result": result }));
        let never = Problem { retry_after_ms: None, ..beyond(Some(&message)) };
        let (_, body) = answer(&never, Some(ToolErrors::Result));
        assert_eq!(value(&body)["result"]["_meta"], json!({ "tollgate/retry_after_ms": null }));
    }

    #[test]
    fn without_an_identifier_the_status_says_what_has_happened() {
        let (status, body) = answer(&beyond(None), Some(ToolErrors::Result));
        assert_eq!((status.as_u16(), &value(&body)["id"]), (429, &Value::Null));
        assert_eq!(value(&body)["error"]["code"], 429);
        let (status, body) = answer(&beyond(Some(&RpcMessage::Unanswered)), None);
        assert_eq!((status.as_u16(), body.len()), (429, 0));
    }

    #[test]
    fn other_failures_keep_their_status() {
        let message = call(true);
        for (status, rpc_code, expected) in [(503, None, 503), (400, Some(-32020), -32020)] {
            let status = StatusCode::from_u16(status).expect("a status");
            let problem = Problem::of_status(status, "client", "no", None);
            let problem = Problem { message: Some(&message), rpc_code, ..problem };
            let (answered, body) = answer(&problem, Some(ToolErrors::Result));
            assert_eq!(answered, status);
            let error = &value(&body)["error"];
            assert_eq!((&error["code"], error.get("data")), (&json!(expected), None));
            assert_eq!(value(&body)["id"], "a");
        }
    }
}
