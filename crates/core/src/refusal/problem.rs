//! Problem details (RFC 9457), the body of responses to requests that are not served.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;

use crate::meter::RpcMessage;
use crate::policy::Unit;
use crate::text::push_json;
use crate::time::Span;

/// Registered by draft-ietf-httpapi-ratelimit-headers-11, section 10.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Why a request was not served.
#[derive(Debug)]
pub struct Problem<'a> {
    /// Its type, a URI that is registered.
    pub kind: Option<&'static str>,
    /// Its name.
    pub title: &'a str,
    /// The status of the response.
    pub status: StatusCode,
    /// What happened to this request.
    pub detail: Cow<'a, str>,
    /// The side that must change something, unless it is a limit.
    pub source: Option<&'static str>,
    /// The names of all policies that refuse the request, the binding one first.
    pub violated_policies: &'a [&'a str],
    /// What the binding policy counts.
    pub unit: Unit,
    /// How long the client should wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The id of the request, if it has one.
    pub request_id: Option<&'a str>,
    /// The limit of the binding policy.
    pub limit: Option<u64>,
    /// The message of JSON-RPC in the request, if it was read.
    pub message: Option<&'a RpcMessage>,
    /// The code of an error of JSON-RPC, if it is not that of the status.
    pub rpc_code: Option<i32>,
}

impl<'a> Problem<'a> {
    /// A request beyond the limits of these policies. Without `wait`, waiting does not help.
    pub fn beyond_a_limit(
        policies: &'a [&'a str],
        wait: Option<Span>,
        request_id: Option<&'a str>,
    ) -> Self {
        let detail = match wait {
            Some(wait) => Cow::Owned(try_again(wait.as_secs_ceil().max(1))),
            None => Cow::Borrowed("The request costs more than the limit can ever admit."),
        };
        Self {
            kind: Some(QUOTA_EXCEEDED),
            title: "Quota Exceeded",
            status: StatusCode::TOO_MANY_REQUESTS,
            detail,
            source: None,
            violated_policies: policies,
            unit: Unit::Requests,
            retry_after_ms: wait.map(|wait| wait.as_millis_ceil().max(1)),
            request_id,
            limit: None,
            message: None,
            rpc_code: None,
        }
    }

    /// A request that was not served for another reason than a limit. `source` is the side that
    /// must change something.
    pub fn of_status(
        status: StatusCode,
        source: &'static str,
        detail: impl Into<Cow<'a, str>>,
        request_id: Option<&'a str>,
    ) -> Self {
        Self {
            kind: None,
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: detail.into(),
            source: Some(source),
            violated_policies: &[],
            unit: Unit::Requests,
            retry_after_ms: None,
            request_id,
            limit: None,
            message: None,
            rpc_code: None,
        }
    }

    /// Whether a limit refuses the request.
    pub(super) const fn is_refusal(&self) -> bool {
        !self.violated_policies.is_empty()
    }

    /// The text for a person. A limit is named, so that a reader of the error knows which one it is.
    pub(super) fn text(&self) -> String {
        let Self { title, detail, violated_policies, .. } = self;
        match violated_policies {
            [] => format!("{title}: {detail}"),
            policies => format!("{title} ({}): {detail}", policies.join(", ")),
        }
    }

    /// The problem as JSON.
    ///
    /// It is written without a general serializer, because a refusal must cost little. A test
    /// holds both to the same text.
    pub(super) fn to_json(&self) -> Bytes {
        let mut json = Object(String::with_capacity(320));
        if let Some(kind) = self.kind {
            json.text(r#","type":"#, kind);
        }
        json.text(r#","title":"#, self.title);
        json.number(r#","status":"#, self.status.as_u16().into());
        json.text(r#","detail":"#, &self.detail);
        if let Some(source) = self.source {
            json.text(r#","source":"#, source);
        }
        if !self.violated_policies.is_empty() {
            json.texts(r#","violated-policies":"#, self.violated_policies);
        }
        if let Some(wait_ms) = self.retry_after_ms {
            json.number(r#","retry-after-ms":"#, wait_ms);
        }
        if let Some(request_id) = self.request_id {
            json.text(r#","request-id":"#, request_id);
        }
        json.close()
    }
}

/// What a client does that exceeds a limit.
fn try_again(seconds: u64) -> String {
    let mut buffer = itoa::Buffer::new();
    let unit = if seconds == 1 { " second." } else { " seconds." };
    ["Try again in ", buffer.format(seconds), unit].concat()
}

/// A JSON object that is being written. Names of members come as they are written, after a
/// comma and before a colon.
struct Object(String);

impl Object {
    /// Ends the object. Its first comma becomes the brace.
    fn close(mut self) -> Bytes {
        self.0.push('}');
        let mut bytes = self.0.into_bytes();
        bytes[0] = b'{';
        Bytes::from(bytes)
    }

    fn number(&mut self, name: &str, number: u64) {
        self.0.push_str(name);
        self.0.push_str(itoa::Buffer::new().format(number));
    }

    fn text(&mut self, name: &str, text: &str) {
        self.0.push_str(name);
        push_json(&mut self.0, text);
    }

    fn texts(&mut self, name: &str, texts: &[&str]) {
        self.0.push_str(name);
        for (index, text) in texts.iter().enumerate() {
            self.0.push(if index == 0 { '[' } else { ',' });
            push_json(&mut self.0, text);
        }
        self.0.push(']');
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::text::is_printable;

    /// The problem by a general serializer, with its members in their order.
    fn serialized(problem: &Problem<'_>) -> String {
        let policies = problem.violated_policies;
        let members = [
            ("type", problem.kind.map(Value::from)),
            ("title", Some(problem.title.into())),
            ("status", Some(problem.status.as_u16().into())),
            ("detail", Some(problem.detail.as_ref().into())),
            ("source", problem.source.map(Value::from)),
            ("violated-policies", (!policies.is_empty()).then(|| policies.into())),
            ("retry-after-ms", problem.retry_after_ms.map(Value::from)),
            ("request-id", problem.request_id.map(Value::from)),
        ];
        let text = |(name, value): (&str, Option<Value>)| Some(format!("\"{name}\":{}", value?));
        let texts: Vec<String> = members.into_iter().filter_map(text).collect();
        format!("{{{}}}", texts.join(","))
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_a_general_serializer(
            kind in of(Just("https://a.test#b")),
            texts in [".{0,9}", "[a\"\\\\\u{7f}\n\u{1}\u{e9}\u{1f600}\u{e0001}]{0,9}", "[a-z]{0,9}"],
            status in 100..1000_u16,
            source in of(Just("client")),
            names in vec("[a-z\"\\\\]{0,4}", 0..4),
            retry_after_ms in of(any::<u64>()),
            has_id in any::<bool>(),
        ) {
            let [title, detail, id] = &texts;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let problem = Problem {
                kind,
                title,
                status: StatusCode::from_u16(status).expect("it is a status"),
                detail: detail.into(),
                source,
                violated_policies: &names,
                unit: Unit::Requests,
                retry_after_ms,
                request_id: has_id.then_some(id),
                limit: None,
                message: None,
                rpc_code: None,
            };
            let json = problem.to_json();
            let written = std::str::from_utf8(&json).expect("text");
            let expected = serialized(&problem);
            if title.chars().chain(detail.chars()).all(is_printable) {
                prop_assert_eq!(written, &expected);
            }
            // The serializer writes other escapes, or none, for what is not printable.
            let value = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
            prop_assert_eq!(value(written), value(&expected));
        }
    }
}
