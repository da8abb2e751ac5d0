//! What the JSON Schema of the file says of a field: what it may hold, and its default.
//!
//! The descriptions of fields tell their defaults ("Default: 10s."), and tests/configuration
//! compares each of them with the compiler.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::sections::RawConfig;

/// The JSON Schema of the file (draft 2020-12).
pub(super) static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| schemars::schema_for!(RawConfig).to_value());

/// The names of all fields of the file.
pub(super) static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let sections = SCHEMA["$defs"].as_object().into_iter().flat_map(|defs| defs.values());
    std::iter::once(&*SCHEMA).chain(sections).flat_map(fields).map(|(name, _)| name).collect()
});

/// Defaults that are no values of their fields: the field is left out.
const NO_VALUE: [&str; 7] = ["none", "any", "all", "empty", "never", "auto", "required"];
/// Forms of texts that are never secrets. A reference in such a place is shown with its value.
const PLAIN_FORMS: [&str; 8] =
    ["Allowance", "Date", "Limit", "Percent", "Period", "Rate", "Size", "Workers"];

/// The algorithms to which some fields of policies belong.
const ALGORITHMS: [&str; 4] = ["sliding_window", "fixed_window", "token_bucket", "leaky_bucket"];

/// The schema of the whole file.
#[derive(Clone, Copy)]
pub(super) struct Schema<'s> {
    root: &'s Value,
}

/// What may be written in a place of the file.
pub(super) enum Kind<'s> {
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
pub(super) fn form(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.strip_prefix("#/$defs/")
}

impl<'s> Schema<'s> {
    pub(super) const fn new(root: &'s Value) -> Self {
        Self { root }
    }

    /// What `value`, or the definition that it refers to, allows.
    pub(super) fn kind(self, value: &'s Value) -> Kind<'s> {
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

    /// The value of a field of `section` that is absent. None: it has none that could be written.
    pub(super) fn default(self, section: &Value, name: &str) -> Option<Value> {
        let field = &section["properties"][name];
        let text = default_text(field)?;
        let value = serde_json::from_str(&text.replace('_', ""));
        let value = value.unwrap_or_else(|_| Value::from(text));
        Some(match self.kind(field) {
            Kind::List(_) => json!([value]),
            _ => value,
        })
    }
}

/// The fields of a section, by name.
pub(super) fn fields(section: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = section["properties"].as_object().into_iter().flatten();
    fields.map(|(name, field)| (&**name, field))
}

/// Whether a field has neither a value nor a section that could be shown.
pub(super) fn is_absent_by_default(field: &Value) -> bool {
    description(field).contains("Default: ")
}

/// Whether a section cannot be empty.
pub(super) fn has_required(section: &Value) -> bool {
    section["required"].as_array().is_some_and(|names| !names.is_empty())
        || section["minProperties"].as_u64().is_some_and(|fields| fields > 0)
}

/// The algorithms to which a field belongs ("With token_bucket: ..."). Empty: it belongs to all.
pub(super) fn algorithms(field: &Value) -> Vec<String> {
    let text = description(field);
    let sentences = text.split(". ").filter_map(|it| it.strip_prefix("With "));
    let names = sentences.filter_map(|it| Some(it.split_once([':', ','])?.0.to_owned()));
    names.filter(|name| ALGORITHMS.contains(&&**name)).collect()
}

/// Whether a field of a section with these fields cannot be written, even with its default.
pub(super) fn is_excluded(name: &str, fields: &Map<String, Value>) -> bool {
    match name {
        // Of `cost`: what a request without the header costs.
        "default" => !fields.contains_key("header"),
        // Of `access_log`: the names of fields in JSON.
        "names" => fields.get("format").is_some_and(|format| format != "json"),
        _ => false,
    }
}

/// The default that a description tells, if it is a value.
fn default_text(field: &Value) -> Option<String> {
    let text = description(field);
    let (_, rest) = text.split_once("Default: ")?;
    let end = rest.find(". ").unwrap_or(rest.len());
    let default = rest.get(..end)?.trim_end_matches('.');
    let is_value = !default.contains(' ') && !NO_VALUE.contains(&default);
    is_value.then(|| default.to_owned())
}

fn description(field: &Value) -> String {
    field["description"].as_str().unwrap_or_default().replace('\n', " ")
}
