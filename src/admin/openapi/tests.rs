//! The document and the list of calls.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::admin::calls::API;

/// The operations with their methods and paths.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("an object");
    let operations = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().expect("an object").iter();
        let methods = item.filter(|(name, _)| *name != "parameters");
        methods.map(|(method, it)| (method.to_ascii_uppercase(), path.clone(), it.clone()))
    });
    operations.collect()
}

/// All values under this name, at any depth.
fn all<'v>(value: &'v Value, name: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(name));
            fields.values().for_each(|it| all(it, name, found));
        }
        Value::Array(items) => items.iter().for_each(|it| all(it, name, found)),
        _ => {}
    }
}

#[test]
fn each_call_has_one_operation_and_each_operation_is_a_call() {
    let document = document(&API);
    let described = operations(&document);
    let described: BTreeSet<(&str, &str)> =
        described.iter().map(|(method, path, _)| (&**method, &**path)).collect();
    let calls: BTreeSet<(&str, &str)> = API.calls().map(|it| (it.method, it.path)).collect();
    assert_eq!(described, calls);
    assert_eq!(calls.len(), API.calls().count(), "two calls have the same method and path");
}

#[test]
fn operations_say_what_the_list_of_calls_says() {
    let document = document(&API);
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let spec = API.calls().find(|it| it.method == method && it.path == path);
        let spec = spec.expect("each operation is a call");
        assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}");
        assert!(ids.insert(operation["summary"].to_string()), "{method} {path}");
        assert!(!spec.id.is_empty() && !spec.summary.is_empty(), "{method} {path}");
        assert_eq!(operation["x-role"].as_str(), spec.role.map(Role::as_str));
        assert_eq!(operation["security"], spec.role.map_or(json!([]), |_| Value::Null));
        assert_eq!(operation["requestBody"].is_object(), spec.body.is_some(), "{method} {path}");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let of = |place: &str, from: &[Value]| -> BTreeSet<String> {
            let names = from.iter().filter(|it| it["in"] == place);
            names.map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
        };
        let query: BTreeSet<String> = spec.query.iter().map(|it| it.name.to_owned()).collect();
        assert_eq!(of("query", &parameters), query, "{method} {path}");
        let item = &document["paths"][&path]["parameters"];
        let named = of("path", item.as_array().map_or(&[][..], Vec::as_slice));
        let braces = path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
        assert_eq!(named, braces.map(str::to_owned).collect(), "{path}");
        let done = &operation["responses"][spec.status.as_str()];
        assert!(done["content"].is_object(), "{method} {path}");
    }
}

#[test]
fn everything_in_the_document_is_described_and_found() {
    let document = document(&API);
    let mut references = Vec::new();
    all(&document, "$ref", &mut references);
    assert!(references.len() > 100, "{}", references.len());
    for reference in references {
        let path = reference.as_str().and_then(|it| it.strip_prefix('#')).expect("a local one");
        assert!(document.pointer(path).is_some(), "{path}");
    }
    let mut descriptions = Vec::new();
    all(&document, "description", &mut descriptions);
    assert!(descriptions.iter().all(|it| it.as_str() != Some("")), "a name has no description");
    for (name, schema) in document["components"]["schemas"].as_object().expect("an object") {
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        // A second type of the same name would get a number.
        assert!(name.chars().all(is_name) && !name.ends_with(char::is_numeric), "{name}");
        assert!(schema["description"].is_string(), "{name} has no description");
    }
}

#[test]
fn bodies_have_no_unknown_fields_and_their_examples_are_read() {
    let document = document(&API);
    for (method, path, operation) in operations(&document) {
        let Some(contents) = operation["requestBody"]["content"].as_object() else { continue };
        for content in contents.values() {
            let named = content["schema"]["$ref"].as_str();
            if let Some(schema) = named.and_then(|it| document.pointer(it.trim_start_matches('#')))
            {
                assert_eq!(schema["additionalProperties"], false, "{method} {path}");
            }
            let examples = content["examples"].as_object().expect("an object");
            assert!(!examples.is_empty(), "{method} {path}");
            assert!(examples.values().all(|it| it["value"].is_object()), "{method} {path}");
        }
    }
}

#[test]
fn the_document_is_made_once_and_has_a_bound() {
    assert_eq!(text(&API).as_ptr(), text(&API).as_ptr());
    assert!(text(&API).len() < 256 * 1024, "{}", text(&API).len());
}
