//! The defaults that the schema tells are the defaults of the compiler.

use serde_json::{Map, Value, json};
use tollgate::config::{self, Config};

use crate::schema::{Kind, Schema, Section, flow};

/// Defaults that are no values of their field.
const SENTENCES: [&str; 7] = ["required", "none", "any", "all", "empty", "never", "auto"];

#[test]
fn a_field_with_its_default_changes_nothing() {
    let schema = config::schema();
    let sections = Schema::new(&schema).sections();
    let mut checked = 0;
    for section in &sections {
        for field in section.fields() {
            let default = field.default().filter(|it| !SENTENCES.contains(&it.as_str()));
            let Some(default) = default.filter(|it| !it.contains(' ')) else { continue };
            let Some(without) = compiled(&file(&sections, section, None)) else { continue };
            let value = match field.kind() {
                Kind::List(_) => json!([written(&default)]),
                _ => written(&default),
            };
            let value = Some((field.name, value));
            let with = compiled(&file(&sections, section, value));
            let name = format!("{}.{}", section.path, field.name);
            assert_eq!(with.as_ref(), Some(&without), "{default} is not the default of {name}");
            checked += 1;
        }
    }
    assert!(checked > 55, "only {checked} defaults are checked");
}

/// What a file compiles to, as text. None if it has mistakes.
fn compiled(file: &Value) -> Option<String> {
    let compiled = Config::parse(&flow(file), "gateway.yaml", &|_| None).ok()?;
    Some(format!("{:?}", compiled.config))
}

/// A default as a value of JSON.
fn written(default: &str) -> Value {
    serde_json::from_str(&default.replace('_', "")).unwrap_or_else(|_| json!(default))
}

/// A small file that contains `section`, in it the required fields and `field`.
fn file(sections: &[Section<'_>], section: &Section<'_>, field: Option<(&str, Value)>) -> Value {
    let mut file = json!({
        "listeners": [{ "address": "127.0.0.1:8080" }],
        "upstreams": { "app": { "endpoints": ["http://127.0.0.1:9000"] } },
        "policies": { "per-client": { "key": "ip", "limit": "100/minute" } },
        "routes": [{ "path": "/*", "policies": ["per-client"], "upstream": "app" }],
    });
    let mut at = &mut file;
    let mut path = String::new();
    for part in section.path.split('.').filter(|part| !part.is_empty()) {
        let dot = if path.is_empty() { "" } else { "." };
        path = format!("{path}{dot}{part}");
        let required = sections.iter().find(|it| it.path == path).map(Section::required_example);
        at = inner(at, part, required.unwrap_or_default());
    }
    if let (Some((name, value)), Some(fields)) = (field, at.as_object_mut()) {
        fields.insert(name.to_owned(), value);
    }
    file
}

/// The section `part` of a section, which is made with these fields if it is not there.
fn inner<'v>(at: &'v mut Value, part: &str, required: Map<String, Value>) -> &'v mut Value {
    let fields = at.as_object_mut().expect("every section is a map");
    let place = match part.strip_suffix("[]") {
        Some(list) => {
            let list = fields.entry(list).or_insert_with(|| json!([null]));
            &mut list[0]
        }
        None if part == "NAME" => {
            let first = fields.keys().next().cloned().unwrap_or_else(|| "app".to_owned());
            fields.entry(first).or_insert(Value::Null)
        }
        None => fields.entry(part).or_insert(Value::Null),
    };
    if !place.is_object() {
        *place = Value::Object(required);
    }
    place
}
