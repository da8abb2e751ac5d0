//! What the JSON Schema of the file says of a field: what it may hold, and its default.
//!
//! Attributes of the fields of sections are the source. `default` is the value of an absent field,
//! and tests/configuration compares each of them with the compiler. `x-default` is what applies to
//! an absent field for which no value could be written, in words. `x-algorithms` are the algorithms
//! to which a field belongs. The descriptions end with the default, because editors show them.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::sections::RawConfig;

/// The JSON Schema of the file (draft 2020-12).
pub static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = schemars::schema_for!(RawConfig).to_value();
    describe_defaults(&mut schema);
    let sections = schema.get_mut("$defs").and_then(Value::as_object_mut);
    sections.into_iter().flatten().for_each(|(_, section)| describe_defaults(section));
    schema
});

/// The names of all fields of the file.
pub static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let sections = SCHEMA["$defs"].as_object().into_iter().flat_map(|defs| defs.values());
    std::iter::once(&*SCHEMA).chain(sections).flat_map(fields).map(|(name, _)| name).collect()
});

/// Forms of texts that are never secrets. A reference in such a place is shown with its value.
const PLAIN_FORMS: [&str; 8] =
    ["Allowance", "Date", "Limit", "Percent", "Period", "Rate", "Size", "Workers"];

/// The schema of the whole file.
#[derive(Clone, Copy)]
pub struct Schema<'s> {
    root: &'s Value,
}

/// What may be written in a place of the file.
pub enum Kind<'s> {
    /// A map with these fields.
    Section(&'s Value),
    /// A list of this.
    List(&'s Value),
    /// A map from names to this.
    Map(&'s Value),
    /// One of these.
    Either(&'s [Value]),
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A text that is no secret: a word, a rate, a duration.
    Plain,
    /// Any other text.
    Text,
}

/// The form of a text, by its name in the schema. None: it has no form of its own.
pub fn form(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.strip_prefix("#/$defs/")
}

impl<'s> Schema<'s> {
    pub const fn new(root: &'s Value) -> Self {
        Self { root }
    }

    /// What `value`, or the definition that it refers to, allows.
    pub fn kind(self, value: &'s Value) -> Kind<'s> {
        if let Some(reference) = value["$ref"].as_str() {
            let name = reference.trim_start_matches("#/$defs/").replace("%20", " ");
            return match self.kind(&self.root["$defs"][&name]) {
                Kind::Text if PLAIN_FORMS.contains(&&*name) => Kind::Plain,
                kind => kind,
            };
        }
        if let Some(kinds) = value["anyOf"].as_array() {
            return Kind::Either(kinds);
        }
        if value["oneOf"].is_array() {
            return Kind::Plain;
        }
        match value["type"].as_str() {
            Some("object") if value["properties"].is_object() => Kind::Section(value),
            Some("object") => Kind::Map(&value["additionalProperties"]),
            Some("array") => Kind::List(&value["items"]),
            Some("boolean") => Kind::Bool,
            Some("integer") => Kind::Number,
            _ if value["const"].is_boolean() => Kind::Bool,
            _ => Kind::Text,
        }
    }
}

/// The fields of a section, by name.
pub fn fields(section: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = section["properties"].as_object().into_iter().flatten();
    fields.map(|(name, field)| (&**name, field))
}

/// The value of a field that is absent. None: it has none that could be written.
pub fn default(field: &Value) -> Option<&Value> {
    field.get("default")
}

/// Whether a field has neither a value nor a section that could be shown.
pub fn is_absent_by_default(field: &Value) -> bool {
    field["x-default"].is_string()
}

/// Whether a section cannot be empty.
pub fn has_required(section: &Value) -> bool {
    section["required"].as_array().is_some_and(|names| !names.is_empty())
        || section["minProperties"].as_u64().is_some_and(|fields| fields > 0)
}

/// Whether a field belongs to policies with this algorithm.
pub fn belongs_to(field: &Value, algorithm: &str) -> bool {
    let owners = field["x-algorithms"].as_array();
    owners.is_none_or(|owners| owners.iter().any(|owner| owner == algorithm))
}

/// Whether a field of a section with these fields cannot be written, even with its default.
pub fn is_excluded(name: &str, fields: &Map<String, Value>) -> bool {
    match name {
        // Of `cost`: what a request without the header costs.
        "default" => !fields.contains_key("header"),
        // Of `access_log`: the names of fields in JSON.
        "names" => fields.get("format").is_some_and(|format| format != "json"),
        _ => false,
    }
}

/// Adds the defaults of its fields to their descriptions.
fn describe_defaults(section: &mut Value) {
    let fields = section.get_mut("properties").and_then(Value::as_object_mut);
    for (_, field) in fields.into_iter().flatten() {
        let default = field.get("default").or_else(|| field.get("x-default")).map(words);
        if let (Some(default), Some(text)) = (default, field["description"].as_str()) {
            field["description"] = format!("{text} Default: {default}.").into();
        }
    }
}

/// A value as it is written in a sentence.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) if text.parse::<f64>().is_ok() => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}
