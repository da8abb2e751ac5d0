//! A refusal, and the response that a policy may configure for it.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use tollgate_core::meter::RpcMessage;
use tollgate_core::policy::{Template, Unit};
use tollgate_core::time::Span;

/// What the response to a refused request says.
#[derive(Clone, Debug)]
pub struct Refusal<'a> {
    /// The names of all policies that refused, the binding one first.
    pub policies: &'a [&'a str],
    /// The limit of the binding policy.
    pub limit: u64,
    /// The units that remain of it.
    pub remaining: u64,
    /// What the binding policy counts.
    pub unit: Unit,
    /// How long the client should wait; none if waiting does not help.
    pub wait: Option<Span>,
    /// The message of JSON-RPC in the request, if it was read.
    pub message: Option<&'a RpcMessage>,
    /// The response that the binding policy configures. It is not used for gRPC calls:
    /// their clients read only gRPC messages.
    pub template: Option<&'a Template>,
}

/// The response to a refusal, from a template. Braces around other text than a placeholder
/// stay, because JSON contains many. If waiting does not help, `{retry_after}` becomes
/// `null`, which is valid JSON instead of a number.
pub fn fill(template: &Template, refusal: &Refusal<'_>) -> Response<Bytes> {
    let mut body = String::with_capacity(template.body.len() + 16);
    let is_json = is_json(&template.content_type);
    let mut rest = &*template.body;
    while let Some(open) = rest.find('{') {
        body.push_str(&rest[..open]);
        rest = &rest[open..];
        let placeholder = rest[1..]
            .find('}')
            .and_then(|close| Value::of(&rest[1..=close], refusal, is_json).zip(Some(close + 2)));
        let end = match placeholder {
            Some((value, end)) => {
                value.write(&mut body);
                end
            }
            None => {
                body.push('{');
                1
            }
        };
        rest = &rest[end..];
    }
    body.push_str(rest);
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = template.status;
    response.headers_mut().insert(CONTENT_TYPE, template.content_type.clone());
    response
}

/// Whether a text with this content type is JSON (RFC 6839, section 3.1).
fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let suffix = essence.rfind('+').map_or("", |at| &essence[at..]);
    essence.eq_ignore_ascii_case("application/json") || suffix.eq_ignore_ascii_case("+json")
}

enum Value<'a> {
    Number(u64),
    Text(&'a str),
    /// A part of a string of JSON: quotation marks and backslashes are escaped.
    InJson(&'a str),
}

impl<'a> Value<'a> {
    /// The value of a placeholder, for a text that is JSON or not.
    fn of(name: &str, refusal: &Refusal<'a>, is_json: bool) -> Option<Self> {
        match name {
            "retry_after" => Some(
                refusal
                    .wait
                    .map_or(Self::Text("null"), |wait| Self::Number(wait.as_secs_ceil().max(1))),
            ),
            "limit" => Some(Self::Number(refusal.limit)),
            "remaining" => Some(Self::Number(refusal.remaining)),
            "policy" if is_json => refusal.policies.first().map(|name| Self::InJson(name)),
            "policy" => refusal.policies.first().map(|name| Self::Text(name)),
            _ => None,
        }
    }

    fn write(&self, body: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Number(number) => write!(body, "{number}"),
            Self::Text(text) => body.write_str(text),
            Self::InJson(text) => {
                let quoted = serde_json::Value::from(*text).to_string();
                body.write_str(&quoted[1..quoted.len() - 1])
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::*;

    fn fill(body: &str, wait: Option<Span>) -> String {
        let template = Template {
            status: StatusCode::SERVICE_UNAVAILABLE,
            content_type: HeaderValue::from_static("application/json"),
            body: body.into(),
        };
        let refusal = Refusal {
            policies: &["login"],
            limit: 5,
            remaining: 0,
            unit: Unit::Requests,
            wait,
            message: None,
            template: Some(&template),
        };
        let response = super::fill(&template, &refusal);
        assert_eq!(response.status(), 503);
        String::from_utf8(response.into_body().to_vec()).expect("UTF-8")
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        let wait = Some(Span::from_millis(2500));
        let cases = [
            (r#"{"retry":{retry_after},"of":"{policy}"}"#, r#"{"retry":3,"of":"login"}"#),
            ("{limit}/{remaining}", "5/0"),
            ("{unknown} {} {", "{unknown} {} {"),
            ("", ""),
        ];
        for (body, filled) in cases {
            assert_eq!(fill(body, wait), filled);
        }
    }

    #[test]
    fn a_name_is_escaped_in_json_only() {
        let policies = &["a\"b\\c"];
        let of = |content_type: &'static str| {
            let template = Template {
                status: StatusCode::TOO_MANY_REQUESTS,
                content_type: HeaderValue::from_static(content_type),
                body: r#""{policy}""#.into(),
            };
            let refusal = Refusal {
                policies,
                limit: 5,
                remaining: 0,
                unit: Unit::Requests,
                wait: None,
                message: None,
                template: Some(&template),
            };
            String::from_utf8(super::fill(&template, &refusal).into_body().to_vec()).expect("UTF-8")
        };
        for json in ["application/json", "application/problem+JSON; charset=utf-8"] {
            assert_eq!(of(json), r#""a\"b\\c""#, "{json}");
        }
        assert_eq!(of("text/plain"), "\"a\"b\\c\"");
    }

    #[test]
    fn if_waiting_does_not_help_there_is_no_number() {
        assert_eq!(fill(r#"{"retry":{retry_after}}"#, None), r#"{"retry":null}"#);
    }
}
