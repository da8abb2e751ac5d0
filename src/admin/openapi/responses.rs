//! The answers that a call can get.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::schemas::{Schemas, of};
use crate::admin::problem::ProblemDocument;
use crate::admin::spec::{CallSpec, Content};

/// The statuses of problems, and what each of them means.
const PROBLEMS: [(StatusCode, &str); 11] = [
    (StatusCode::BAD_REQUEST, "the call has a mistake, such as an unknown parameter or field"),
    (StatusCode::UNAUTHORIZED, "there is no credential, or it is not valid"),
    (
        StatusCode::FORBIDDEN,
        "the role does not suffice, a web page could have sent the request, or the configuration \
         does not allow it",
    ),
    (StatusCode::NOT_FOUND, "there is no such thing"),
    (StatusCode::CONFLICT, "the configuration does not allow it, or there is no room for it"),
    (StatusCode::PRECONDITION_FAILED, "`If-Match` is out of date"),
    (StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 4 MiB"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has another type"),
    (StatusCode::UNPROCESSABLE_ENTITY, "the configuration or the change has mistakes: `errors`"),
    (StatusCode::PRECONDITION_REQUIRED, "there is no `If-Match`"),
    (
        StatusCode::TOO_MANY_REQUESTS,
        "there were too many calls of this credential, or too many wrong tokens of this address",
    ),
];
const UNAVAILABLE: (StatusCode, &str) = (
    StatusCode::SERVICE_UNAVAILABLE,
    "the store is not available, the call took longer than 5 s (a reload: 30 s), or the node drains",
);

/// The answers of a call by their statuses.
pub fn responses(spec: &CallSpec, schemas: &mut Schemas) -> Value {
    let mut described = Map::new();
    let mut headers = json!({ "Cache-Control": reference("headers", "Cache-Control") });
    if spec.has_tag {
        headers["ETag"] = reference("headers", "ETag");
    }
    let content = match spec.answer {
        Content::Json(schema) => {
            json!({ "application/json": { "schema": schemas.written(schema) } })
        }
        Content::Text(types) => {
            let text = |it: &&str| ((*it).to_owned(), json!({ "schema": { "type": "string" } }));
            Value::Object(types.iter().map(text).collect())
        }
        Content::Events(events) => {
            let event = |(name, schema): &(&str, _)| ((*name).to_owned(), schemas.written(*schema));
            let events: Map<String, Value> = events.iter().map(event).collect();
            json!({ "text/event-stream": { "schema": { "type": "string" }, "x-events": events } })
        }
    };
    let done = json!({ "description": spec.done, "headers": headers, "content": content });
    described.insert(spec.status.as_u16().to_string(), done);
    for status in statuses(spec) {
        described.insert(status.as_u16().to_string(), reference("responses", &name(status)));
    }
    for (status, about, schema) in spec.others {
        let response = json!({
            "description": about,
            "headers": { "Cache-Control": reference("headers", "Cache-Control") },
            "content": { "application/json": { "schema": schemas.written(*schema) } },
        });
        described.insert(status.as_u16().to_string(), response);
    }
    Value::Object(described)
}

/// The statuses of the problems that a call can have.
fn statuses(spec: &CallSpec) -> BTreeSet<StatusCode> {
    let mut statuses = BTreeSet::from([StatusCode::BAD_REQUEST]);
    if spec.role.is_some() {
        statuses.extend([
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ]);
    }
    if spec.is_public {
        statuses.insert(StatusCode::FORBIDDEN);
    }
    if spec.path.contains('{') {
        statuses.insert(StatusCode::NOT_FOUND);
    }
    if spec.body.is_some() {
        statuses.extend([StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNSUPPORTED_MEDIA_TYPE]);
    }
    if spec.needs_match {
        statuses.extend([StatusCode::PRECONDITION_FAILED, StatusCode::PRECONDITION_REQUIRED]);
    }
    statuses.extend(spec.problems);
    statuses
}

/// The problems, to which the operations refer.
pub fn components(schemas: &mut Schemas) -> Value {
    let schema = schemas.written(of::<ProblemDocument<'static>>);
    let problem = |(status, about): (StatusCode, &str)| {
        let mut headers = json!({ "Cache-Control": reference("headers", "Cache-Control") });
        let own = match status {
            StatusCode::UNAUTHORIZED => Some("WWW-Authenticate"),
            StatusCode::TOO_MANY_REQUESTS => Some("Retry-After"),
            _ => None,
        };
        if let Some(own) = own {
            headers[own] = reference("headers", own);
        }
        let content = json!({ "application/problem+json": { "schema": schema } });
        (name(status), json!({ "description": about, "headers": headers, "content": content }))
    };
    Value::Object(PROBLEMS.into_iter().chain([UNAVAILABLE]).map(problem).collect())
}

/// The fields of answers.
pub fn headers() -> Value {
    json!({
        "Cache-Control": {
            "description": "answers are not stored",
            "required": true,
            "schema": { "type": "string", "const": "no-store" },
        },
        "ETag": {
            "description": "identifies the definition and the changes of a policy, for `If-Match`",
            "schema": { "type": "string", "pattern": "^\"[^\"]+\"$" },
        },
        "Retry-After": {
            "description": "the seconds until a call can succeed",
            "required": true,
            "schema": { "type": "integer", "minimum": 1 },
        },
        "WWW-Authenticate": {
            "description": "the kind of credential",
            "required": true,
            "schema": { "type": "string", "pattern": "^Bearer " },
        },
    })
}

/// The name of the component for a status, such as `NotFound`.
fn name(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("Problem").split(' ').collect()
}

fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}
