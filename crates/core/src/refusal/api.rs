//! Refusals in the forms of well-known APIs, whose client libraries do not read problem+json.
//!
//! A client library finds the class of an error by its status, and reads its text and its code from
//! the body. The forms are those of the public references of the APIs.

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::Problem;
use super::rpc::{self, ToolErrors};
use crate::policy::Unit;
use crate::text::push_json;

/// Client libraries wait for this long at most. If waiting takes longer, they must not try again:
/// some sleep for two weeks if `Retry-After` says so.
const LONGEST_WAIT_MS: u64 = 60_000;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// The fields that say when, and whether, a client may try again.
pub const RETRY_FIELDS: [HeaderName; 3] = [RETRY_AFTER, RETRY_AFTER_MS, SHOULD_RETRY];

/// The API whose form a refusal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiForm {
    /// `{"error": {"message", "type", "param", "code"}}`, as of OpenAI and servers that are
    /// compatible with it.
    OpenAi,
    /// `{"type": "error", "error": {"type", "message"}, "request_id"}`, as of Anthropic.
    Anthropic,
    /// `{"error": {"code", "message", "status", "details"}}`, as of Gemini and other APIs of Google.
    Gemini,
    /// An error of JSON-RPC 2.0.
    JsonRpc,
    /// The same for the Model Context Protocol, where a call of a tool may have a result.
    Mcp(ToolErrors),
}

impl ApiForm {
    /// Whether the response depends on the message in the request, see [`Problem::message`].
    pub const fn needs_message(self) -> bool {
        matches!(self, Self::JsonRpc | Self::Mcp(_))
    }

    /// The status and the body of the response about a problem.
    pub(super) fn answer(self, problem: &Problem<'_>) -> (StatusCode, Bytes) {
        let json = match self {
            Self::OpenAi => open_ai(problem),
            Self::Anthropic => anthropic(problem),
            Self::Gemini => gemini(problem),
            Self::JsonRpc => return rpc::answer(problem, None),
            Self::Mcp(tool_errors) => return rpc::answer(problem, Some(tool_errors)),
        };
        (problem.status, json.into())
    }

    /// Whether its libraries read fields about another attempt.
    const fn tells_libraries(self) -> bool {
        matches!(self, Self::OpenAi | Self::Anthropic)
    }

    /// Adds the fields of the response about a problem.
    pub(super) fn add_fields(self, problem: &Problem<'_>, headers: &mut HeaderMap) {
        if let Some(wait_ms) = problem.retry_after_ms {
            headers.insert(RETRY_AFTER, wait_ms.div_ceil(1000).into());
            if self.tells_libraries() {
                headers.insert(RETRY_AFTER_MS, wait_ms.into());
            }
        }
        if self.tells_libraries() && !may_wait(problem) {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
    }
}

/// Whether a client can try again after a wait that a program may make.
fn may_wait(problem: &Problem<'_>) -> bool {
    match problem.retry_after_ms {
        Some(wait_ms) => wait_ms <= LONGEST_WAIT_MS,
        // No wait helps a request that costs more than a limit can ever admit. Other problems, such as
        // too many wrong credentials, do not last.
        None => !problem.is_refusal(),
    }
}

fn open_ai(problem: &Problem<'_>) -> String {
    let requests = match problem.unit {
        Unit::Requests => "requests",
        Unit::Tokens | Unit::Money(_) => "tokens",
    };
    let (kind, code) = match problem.status.as_u16() {
        429 if !may_wait(problem) => ("insufficient_quota", Some("insufficient_quota")),
        429 => (requests, Some("rate_limit_exceeded")),
        401 => ("invalid_request_error", Some("invalid_api_key")),
        403 => ("permission_error", None),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    let mut json = String::with_capacity(256);
    json.push_str(r#"{"error":{"message":"#);
    push_json(&mut json, &problem.text());
    json.push_str(r#","type":"#);
    push_json(&mut json, kind);
    json.push_str(r#","param":null,"code":"#);
    match code {
        Some(code) => push_json(&mut json, code),
        None => json.push_str("null"),
    }
    json.push_str("}}");
    json
}

fn anthropic(problem: &Problem<'_>) -> String {
    let kind = match problem.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    };
    let mut json = String::with_capacity(256);
    json.push_str(r#"{"type":"error","error":{"type":"#);
    push_json(&mut json, kind);
    json.push_str(r#","message":"#);
    push_json(&mut json, &problem.text());
    json.push('}');
    if let Some(id) = problem.request_id {
        json.push_str(r#","request_id":"#);
        push_json(&mut json, id);
    }
    json.push('}');
    json
}

/// The mapping of statuses is that of `google.rpc.Code`.
fn gemini(problem: &Problem<'_>) -> String {
    let status = match problem.status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        500 => "INTERNAL",
        501 => "UNIMPLEMENTED",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNAVAILABLE",
    };
    let mut json = String::with_capacity(256);
    json.push_str(r#"{"error":{"code":"#);
    json.push_str(itoa::Buffer::new().format(problem.status.as_u16()));
    json.push_str(r#","message":"#);
    push_json(&mut json, &problem.text());
    json.push_str(r#","status":"#);
    push_json(&mut json, status);
    if let Some(wait_ms) = problem.retry_after_ms {
        json.push_str(
            r#","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":""#,
        );
        json.push_str(&seconds(wait_ms));
        json.push_str(r#""}]"#);
    }
    json.push_str("}}");
    json
}

/// A duration in the JSON form of Protocol Buffers.
fn seconds(ms: u64) -> String {
    match ms % 1000 {
        0 => format!("{}s", ms / 1000),
        rest => format!("{}.{rest:03}s", ms / 1000),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::{Value, json};

    use super::*;
    use crate::time::Span;

    const FORMS: [ApiForm; 3] = [ApiForm::OpenAi, ApiForm::Anthropic, ApiForm::Gemini];

    fn beyond(wait_ms: Option<u64>) -> Problem<'static> {
        let wait = wait_ms.map(Span::from_millis);
        Problem::beyond_a_limit(&["tokens \"a\"", "team"], wait, Some("id-1"))
    }

    fn body(form: ApiForm, problem: &Problem<'_>) -> Value {
        serde_json::from_slice(&form.answer(problem).1).expect("it is JSON")
    }

    fn fields(form: ApiForm, problem: &Problem<'_>) -> [Option<String>; 3] {
        let mut headers = HeaderMap::new();
        form.add_fields(problem, &mut headers);
        RETRY_FIELDS.map(|name| headers.get(name).map(|it| it.to_str().expect("text").to_owned()))
    }

    #[test]
    fn a_short_wait_has_the_form_of_each_api() {
        let problem = Problem { unit: Unit::Tokens, ..beyond(Some(1501)) };
        let message = "Quota Exceeded (tokens \"a\", team): Try again in 2 seconds.";
        let open_ai = json!({ "error": { "message": message, "type": "tokens", "param": null,
                              "code": "rate_limit_exceeded" } });
        let anthropic = json!({ "type": "error", "request_id": "id-1",
                                "error": { "type": "rate_limit_error", "message": message } });
        let retry = json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo",
                            "retryDelay": "1.501s" });
        let gemini = json!({ "error": { "code": 429, "message": message,
                             "status": "RESOURCE_EXHAUSTED", "details": [retry] } });
        for (form, expected) in FORMS.into_iter().zip([open_ai, anthropic, gemini]) {
            assert_eq!(body(form, &problem), expected);
        }
        let [after, after_ms] = [Some("2".to_owned()), Some("1501".to_owned())];
        for form in [ApiForm::OpenAi, ApiForm::Anthropic] {
            assert_eq!(fields(form, &problem), [after.clone(), after_ms.clone(), None]);
        }
        assert_eq!(fields(ApiForm::Gemini, &problem), [after, None, None]);
    }

    #[test]
    fn libraries_are_told_not_to_wait_for_more_than_a_minute() {
        for (wait_ms, stops) in
            [(Some(60_000), false), (Some(60_001), true), (Some(2_592_000_000), true), (None, true)]
        {
            let problem = beyond(wait_ms);
            for form in [ApiForm::OpenAi, ApiForm::Anthropic] {
                let [_, _, should_retry] = fields(form, &problem);
                assert_eq!(should_retry.as_deref() == Some("false"), stops, "{wait_ms:?}");
            }
            let code = if stops { "insufficient_quota" } else { "rate_limit_exceeded" };
            assert_eq!(body(ApiForm::OpenAi, &problem)["error"]["code"], code);
        }
        let whole = body(ApiForm::Gemini, &beyond(Some(5_000)));
        assert_eq!(whole["error"]["details"][0]["retryDelay"], "5s");
        assert_eq!(body(ApiForm::Gemini, &beyond(None))["error"].get("details"), None);
    }

    #[test]
    fn other_failures_have_the_words_of_their_status() {
        let words = |status: u16| {
            let status = StatusCode::from_u16(status).expect("a status");
            let problem = Problem::of_status(status, "client", "no", None);
            let [open_ai, anthropic, gemini] = FORMS.map(|form| body(form, &problem));
            assert_eq!(gemini["error"]["code"], status.as_u16());
            assert_eq!(fields(ApiForm::OpenAi, &problem)[2], None, "{status}");
            [&open_ai["error"]["type"], &anthropic["error"]["type"], &gemini["error"]["status"]]
                .map(|word| word.as_str().expect("a word").to_owned())
        };
        for (status, expected) in [
            (400, ["invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"]),
            (401, ["invalid_request_error", "authentication_error", "UNAUTHENTICATED"]),
            (403, ["permission_error", "permission_error", "PERMISSION_DENIED"]),
            (404, ["invalid_request_error", "not_found_error", "NOT_FOUND"]),
            (413, ["invalid_request_error", "request_too_large", "INVALID_ARGUMENT"]),
            (429, ["requests", "rate_limit_error", "RESOURCE_EXHAUSTED"]),
            (500, ["server_error", "api_error", "INTERNAL"]),
            (502, ["server_error", "api_error", "UNAVAILABLE"]),
            (503, ["server_error", "overloaded_error", "UNAVAILABLE"]),
            (504, ["server_error", "timeout_error", "DEADLINE_EXCEEDED"]),
        ] {
            assert_eq!(words(status), expected, "{status}");
        }
    }
}
