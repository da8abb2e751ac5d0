//! The document that describes the admin API: OpenAPI 3.1, at `GET /openapi.json`.
//!
//! It is made from the table of calls, and from the types that answers are serialised from and
//! bodies are read into. It is the same for every gateway of a version, tells nothing of this one,
//! and is made when it is first asked for.

mod responses;
mod schemas;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::Role;
use super::parameter::{Parameter, PathName, Values};
use super::spec::{Api, CallSpec, Group};
use responses::responses;
use schemas::Schemas;
pub use schemas::{either, object, of};

const DESCRIPTION: &str = "\
What operators see and change of a running gateway.

Every call but those of health, of the page and of this document needs a credential: a token, a \
client certificate, or a Unix socket. `x-role` is the role that it must have: `metrics`, `read` \
includes it, and `operate` includes both. An operation answers HEAD like GET, without the body. \
Other paths are answered with 404, other methods with 405 and `Allow`. Every answer has \
`Cache-Control: no-store`. A credential has 50 calls a second. Heads that are too large or cannot \
be read are refused before they reach a call.";

/// The document of the API of this program as text.
pub fn text(api: &Api) -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{:#}\n", document(api)))
}

/// The document.
fn document(api: &Api) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for group in api.groups {
        for spec in group.calls {
            let described = described(group, spec, &mut schemas);
            let path = paths.entry(spec.path).or_insert_with(|| path_item(spec.names));
            path[spec.method.to_ascii_lowercase()] = described;
        }
    }
    let tag = |it: &Group| json!({ "name": it.tag, "description": it.about });
    let responses = responses::components(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "info": {
            "title": "Tollgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache License 2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "the admin listener" }],
        "security": [{ "token": [] }, { "certificate": [] }],
        "tags": api.groups.iter().map(tag).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": schemas.into_definitions(),
            "responses": responses,
            "headers": responses::headers(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "certificate": { "type": "mutualTLS" },
            },
        },
    })
}

/// The names in braces of a path.
fn path_item(names: &[PathName]) -> Value {
    let parameters: Vec<Value> = names.iter().map(path_parameter).collect();
    if parameters.is_empty() { json!({}) } else { json!({ "parameters": parameters }) }
}

fn path_parameter(of_path: &PathName) -> Value {
    let PathName { name, about, example, known } = of_path;
    let mut schema = json!({ "type": "string", "minLength": 1 });
    if let Some(known) = known {
        schema["enum"] = known().into();
    }
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": about,
        "schema": schema,
        "example": example,
    })
}

fn query_parameter(parameter: &Parameter) -> Value {
    let words = |words: &[&str]| json!({ "type": "string", "enum": words });
    let mut described = json!({
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
    });
    described["schema"] = match parameter.values {
        Values::Number { least, most, default } => {
            json!({ "type": "integer", "minimum": least, "maximum": most, "default": default })
        }
        Values::Word(all) => {
            let mut schema = words(all);
            schema["default"] = json!(all.first());
            schema
        }
        Values::Words(all) => {
            described["style"] = json!("form");
            described["explode"] = json!(false);
            json!({
                "type": "array",
                "items": words(all),
                "minItems": 1,
                "default": parameter.words(None),
            })
        }
        Values::Text => json!({ "type": "string" }),
    };
    described
}

/// The operation of a call.
fn described(group: &Group, spec: &CallSpec, schemas: &mut Schemas) -> Value {
    let mut parameters: Vec<Value> = spec.query.iter().map(query_parameter).collect();
    if spec.needs_match {
        parameters.push(json!({
            "name": "If-Match",
            "in": "header",
            "required": true,
            "description": "`ETag` of the policy, so that no other change is overwritten; `*` \
                            forces the change",
            "schema": { "type": "string" },
            "example": "*",
        }));
    }
    let mut described = json!({
        "operationId": spec.id,
        "tags": [group.tag],
        "summary": spec.summary,
        "description": description(spec),
        "responses": responses(spec, schemas),
    });
    if !parameters.is_empty() {
        described["parameters"] = Value::from(parameters);
    }
    if let Some(body) = &spec.body {
        let schema = schemas.read(body.schema);
        let examples: Map<String, Value> =
            body.examples.iter().map(|(name, text)| example(name, text)).collect();
        let content = body.types.iter().map(|it| {
            ((*it).to_owned(), json!({ "schema": schema.clone(), "examples": examples.clone() }))
        });
        let content: Map<String, Value> = content.collect();
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    match spec.role {
        Some(role) => described["x-role"] = json!(role.as_str()),
        None => described["security"] = json!([]),
    }
    described
}

fn example(name: &str, text: &str) -> (String, Value) {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    (name.to_owned(), json!({ "value": value }))
}

fn description(spec: &CallSpec) -> String {
    let role = match spec.role.map(Role::as_str) {
        Some(role) => format!("It needs the role `{role}`{}", reveal(spec)),
        None => "It needs no credential.".to_owned(),
    };
    [spec.about, &role].map(str::trim).join(" ").trim().to_owned()
}

/// What else the call needs to show whole keys, if it can.
fn reveal(spec: &CallSpec) -> &'static str {
    match spec.query.iter().any(|it| it.name == "reveal") {
        true => {
            "; with `reveal=true` it needs `operate`, and the configuration has to have \
             `admin.reveal_keys: true`. The audit log has each such call."
        }
        false => ".",
    }
}
