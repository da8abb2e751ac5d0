//! A `RateLimitResponse` as JSON (the ProtoJSON format of Protocol Buffers). Pure.
//!
//! Fields with their default value are left out, as envoyproxy/ratelimit leaves them out.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value, json};

use crate::check::grpc::ratelimit::{
    Code, DescriptorStatus, HeaderValue, Kind, ProtoValue, RateLimit, RateLimitResponse, Struct,
};
use crate::check::rls::Unit;

/// The document of a response.
pub fn document(response: &RateLimitResponse) -> Value {
    let list = |fields: &[HeaderValue]| fields.iter().map(field).collect::<Value>();
    let mut document = Fields::default();
    document.add("overallCode", code(response.overall_code));
    document.add("statuses", response.statuses.iter().map(status).collect());
    document.add("responseHeadersToAdd", list(&response.response_headers_to_add));
    document.add("requestHeadersToAdd", list(&response.request_headers_to_add));
    document.add("rawBody", bytes(&response.raw_body));
    if let Some(metadata) = &response.dynamic_metadata {
        document.set("dynamicMetadata", map(metadata));
    }
    document.0.into()
}

fn status(status: &DescriptorStatus) -> Value {
    let mut fields = Fields::default();
    fields.add("code", code(status.code));
    if let Some(limit) = &status.current_limit {
        fields.set("currentLimit", limit_of(limit));
    }
    fields.add("limitRemaining", status.limit_remaining.into());
    if let Some(reset) = &status.duration_until_reset {
        // The service only writes whole seconds.
        fields.set("durationUntilReset", format!("{}s", reset.seconds).into());
    }
    fields.0.into()
}

fn limit_of(limit: &RateLimit) -> Value {
    let mut fields = Fields::default();
    fields.add("requestsPerUnit", limit.requests_per_unit.into());
    let unit = Unit::of_number(limit.unit).map(|unit| unit.name().to_ascii_uppercase());
    fields.add("unit", unit.unwrap_or_default().into());
    fields.add("name", limit.name.as_str().into());
    fields.0.into()
}

fn field(field: &HeaderValue) -> Value {
    let mut fields = Fields::default();
    fields.add("key", field.key.as_str().into());
    fields.add("value", field.value.as_str().into());
    fields.add("rawValue", bytes(&field.raw_value));
    fields.0.into()
}

fn code(number: i32) -> Value {
    match Code::try_from(number) {
        Ok(Code::Ok) => "OK".into(),
        Ok(Code::OverLimit) => "OVER_LIMIT".into(),
        Ok(Code::Unknown) => "".into(),
        Err(_) => number.into(),
    }
}

fn bytes(bytes: &[u8]) -> Value {
    BASE64_STANDARD.encode(bytes).into()
}

fn map(fields: &Struct) -> Value {
    let each = fields.fields.iter();
    each.map(|(name, it)| (name.clone(), value(it))).collect::<Map<_, _>>().into()
}

fn value(it: &ProtoValue) -> Value {
    match &it.kind {
        None | Some(Kind::Null(_)) => Value::Null,
        Some(Kind::Number(number)) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Some(Kind::String(text)) => text.as_str().into(),
        Some(Kind::Bool(is)) => (*is).into(),
        Some(Kind::Struct(fields)) => map(fields),
        Some(Kind::List(list)) => list.values.iter().map(value).collect(),
    }
}

/// The fields of a document.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    /// Adds a field, unless it has the default value of its type.
    fn add(&mut self, name: &str, value: Value) {
        if value != json!("") && value != json!(0) && value != json!([]) {
            self.set(name, value);
        }
    }

    /// Adds a field of a message, which may be empty.
    fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::grpc::ratelimit::ProtoDuration;

    #[test]
    fn defaults_are_left_out() {
        let response = RateLimitResponse {
            overall_code: 2,
            statuses: vec![
                DescriptorStatus {
                    code: 2,
                    current_limit: Some(RateLimit {
                        requests_per_unit: 3,
                        unit: 7,
                        name: "logins".to_owned(),
                    }),
                    limit_remaining: 0,
                    duration_until_reset: Some(ProtoDuration { seconds: 0, nanos: 0 }),
                },
                DescriptorStatus { code: 1, limit_remaining: 9, ..Default::default() },
            ],
            response_headers_to_add: vec![HeaderValue {
                key: "retry-after".to_owned(),
                value: "3".to_owned(),
                raw_value: Vec::new(),
            }],
            request_headers_to_add: Vec::new(),
            raw_body: b"wait".to_vec(),
            dynamic_metadata: json!({ "a": [null, 1.5, true, {}] }).as_object().map(Into::into),
        };
        let expected = json!({
            "overallCode": "OVER_LIMIT",
            "statuses": [
                {
                    "code": "OVER_LIMIT",
                    "currentLimit": { "requestsPerUnit": 3, "unit": "WEEK", "name": "logins" },
                    "durationUntilReset": "0s",
                },
                { "code": "OK", "limitRemaining": 9 },
            ],
            "responseHeadersToAdd": [{ "key": "retry-after", "value": "3" }],
            "rawBody": "d2FpdA==",
            "dynamicMetadata": { "a": [null, 1.5, true, {}] },
        });
        assert_eq!(document(&response), expected);
        assert_eq!(document(&RateLimitResponse::default()), json!({}));
    }
}
