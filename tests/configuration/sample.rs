//! Small files with one field of the configuration.

use serde_json::{Map, Value, json};

use crate::schema::Section;

/// A small file that contains `section`, in it the required fields and `field`.
pub(crate) fn file(
    sections: &[Section<'_>],
    section: &Section<'_>,
    field: Option<(&str, Value)>,
) -> Value {
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
