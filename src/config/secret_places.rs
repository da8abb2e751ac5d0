//! Marks in the tree of a file what may be secret.
//!
//! A value may be shown only if the schema has its place, and the place is not that of a secret. So
//! a mistake in the file reveals nothing: what stands in a place that the schema does not have,
//! for example under a misspelt name, is secret with all that is below it.

use serde_json::Value as Json;

use super::kind::{self, Kind, SCHEMA, Schema};
use super::node::{Entry, Node, Value};
use super::secrecy::{SECRET_FIELDS, Secrecy, contains_secret_field};

/// The forms of the values of header fields, parameters and cookies. In a map of them, they may be
/// secret.
const VALUES: [&str; 2] = ["FieldValue", "MatchText"];
/// The form of targets, whose queries may be secret.
const TARGET: &str = "TargetText";
/// The fields with URLs, whose queries may be secret even if the scheme is not written.
const URL_FIELDS: [&str; 5] = ["endpoints", "jwks", "otlp", "shards", "url"];

/// The section whose short form is a URL, which may have a password.
const SHORT_SECTION: &str = "redis";

/// The field of access rules with the values of keys.
const VALUES_FIELD: &str = "values";
/// The beginnings of keys whose values clients send.
const SENT_KEYS: [&str; 4] = ["api_key", "cookie:", "header:", "query:"];

/// A shorter text of letters is no good secret.
const MIN_SECRET_CHARS: usize = 16;

/// Marks what may be secret in the tree of a whole file.
pub fn mark(root: &mut Node) {
    place(root, &SCHEMA, Secrecy::OfUrl);
}

/// Marks the value in a place of this kind, whose texts have this secrecy.
fn place(node: &mut Node, schema: &'static Json, texts: Secrecy) {
    match (Schema::new(&SCHEMA).kind(schema), &mut node.value) {
        (Kind::Section(section), Value::Map(entries)) => {
            entries.iter_mut().for_each(|entry| field(entry, section));
        }
        (Kind::Map(kind), Value::Map(entries)) => {
            let is_secret = is_value(kind);
            for entry in entries {
                if let (Some(form), Value::Map(fields)) = (section_in(kind), &mut entry.value.value)
                    && is_secret
                {
                    fields.iter_mut().for_each(|field| hide_field(field, form));
                } else if is_secret {
                    if matches!(entry.value.value, Value::Null) {
                        entry.key.secrecy = Secrecy::All;
                    }
                    hide(&mut entry.value);
                } else {
                    place(&mut entry.value, kind, texts);
                }
            }
        }
        (Kind::List(kind), Value::List(items)) => {
            items.iter_mut().for_each(|item| place(item, kind, texts));
        }
        // One item that is not in brackets.
        (Kind::List(kind), _) => place(node, kind, texts),
        (Kind::Either(kinds), _) => {
            let schema = Schema::new(&SCHEMA);
            match kinds.iter().find(|kind| fits(&schema.kind(kind), &node.value)) {
                Some(kind) => place(node, kind, texts),
                None => hide(node),
            }
        }
        (Kind::Section(_) | Kind::Map(_), _) => hide(node),
        (_, Value::List(_)) => hide(node),
        // Most likely a text that begins with a brace.
        (_, Value::Map(entries)) => {
            for Entry { key, value } in entries {
                key.secrecy = of_text(schema, texts);
                hide(value);
            }
        }
        (_, _) => node.secrecy = of_text(schema, texts),
    }
}

/// Whether values of this kind, or in one of its forms, may be secret.
fn is_value(kind: &Json) -> bool {
    let is = |kind: &Json| kind::form(kind).is_some_and(|form| VALUES.contains(&form));
    is(kind) || kind["anyOf"].as_array().is_some_and(|kinds| kinds.iter().any(is))
}

/// The section among the forms of a value, if it has one.
fn section_in(kind: &'static Json) -> Option<&'static Json> {
    let kinds = kind["anyOf"].as_array()?;
    kinds.iter().find_map(|kind| match Schema::new(&SCHEMA).kind(kind) {
        Kind::Section(section) => Some(section),
        _ => None,
    })
}

/// Marks a field of a section whose values may be secret. Only the names of its fields are none.
fn hide_field(field: &mut Entry, section: &Json) {
    if section["properties"].get(field.name()).is_none() {
        field.key.secrecy = Secrecy::All;
    }
    hide(&mut field.value);
}

fn of_text(schema: &Json, texts: Secrecy) -> Secrecy {
    if kind::form(schema) == Some(TARGET) { Secrecy::OfTarget } else { texts }
}

/// Marks a field of a section.
fn field(entry: &mut Entry, section: &'static Json) {
    let name = entry.name();
    let texts = if URL_FIELDS.contains(&name) { Secrecy::OfTarget } else { Secrecy::OfUrl };
    match section["properties"].get(name) {
        Some(_) if SECRET_FIELDS.contains(&name) => hide(&mut entry.value),
        // A text that could be its URL is the field of a map by now. Any other text is a mistake.
        Some(_) if name == SHORT_SECTION && !matches!(entry.value.value, Value::Map(_)) => {
            hide(&mut entry.value);
        }
        Some(schema) if name == VALUES_FIELD => {
            place(&mut entry.value, schema, texts);
            hide_credentials(&mut entry.value);
        }
        Some(schema) => place(&mut entry.value, schema, texts),
        None => {
            hide_name(entry, has_secret(section));
            hide(&mut entry.value);
        }
    }
}

/// Marks the values of keys that clients send as they are, because these may be credentials.
fn hide_credentials(values: &mut Node) {
    let Value::Map(entries) = &mut values.value else { return };
    let is_sent = |entry: &&mut Entry| SENT_KEYS.iter().any(|kind| entry.name().starts_with(kind));
    entries.iter_mut().filter(is_sent).for_each(|entry| hide(&mut entry.value));
}

/// Marks a value with all that is in it.
fn hide(node: &mut Node) {
    node.secrecy = Secrecy::All;
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(hide),
        Value::Map(entries) => {
            for Entry { key, value } in entries {
                key.secrecy = Secrecy::All;
                hide(value);
            }
        }
        _ => {}
    }
}

/// Marks a name that the schema does not have if it may be a secret or a part of one, as in
/// `{ token:VALUE }`, `{ token: VALUE,VALUE }` and `{ VALUE: name }`.
fn hide_name(entry: &mut Entry, is_near_secret: bool) {
    let name = entry.name();
    let is_word = name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    let is_lower = !name.contains(|c: char| c.is_ascii_uppercase());
    let is_name = is_word && (is_lower || name.len() < MIN_SECRET_CHARS);
    let has_value = !matches!(entry.value.value, Value::Null);
    let is_shown = match is_near_secret {
        true => is_name && has_value,
        false => has_value || !contains_secret_field(name),
    };
    if !is_shown {
        entry.key.secrecy = Secrecy::All;
    }
}

/// Whether a field of the section itself may be secret.
fn has_secret(section: &'static Json) -> bool {
    kind::fields(section).any(|(name, schema)| {
        SECRET_FIELDS.contains(&name)
            || name == SHORT_SECTION
            || URL_FIELDS.contains(&name)
            || kind::form(schema) == Some(TARGET)
    })
}

/// Whether a value could be of this kind.
fn fits(kind: &Kind<'_>, value: &Value) -> bool {
    match value {
        Value::Map(_) => matches!(kind, Kind::Section(_) | Kind::Map(_)),
        Value::List(_) => matches!(kind, Kind::List(_)),
        _ => !matches!(kind, Kind::Section(_) | Kind::Map(_) | Kind::List(_)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Problems;
    use crate::config::yaml;

    /// The values that may be shown.
    fn shown(text: &str) -> Vec<String> {
        let mut tree = yaml::parse(text, &Problems::default()).expect("it is YAML");
        mark(&mut tree);
        let mut found = Vec::new();
        collect(&tree, &mut found);
        found
    }

    fn collect(node: &Node, found: &mut Vec<String>) {
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| collect(item, found)),
            Value::Map(entries) => {
                for entry in entries {
                    collect(&entry.key, found);
                    collect(&entry.value, found);
                }
            }
            _ => found
                .extend(node.scalar().filter(|it| node.secrecy.shows_all(it)).map(str::to_owned)),
        }
    }

    #[test]
    fn what_the_schema_does_not_have_is_secret() {
        for (text, expected) in [
            ("admin: { address: a, token: x1 }", "admin address a token"),
            ("admin: { address: a, tokne: x1 }", "admin address a tokne"),
            ("admin: { tokne: { token: x1, y: [x2] } }", "admin tokne"),
            ("admin: x1", "admin"),
            ("admin: [x1, { token: x2 }]", "admin"),
            ("admin: { tokens: x1 }", "admin tokens"),
            ("admin: { tokens: [x1] }", "admin tokens"),
            ("admin: { tokens: { name: n, token: x1 } }", "admin tokens name n token"),
            ("admin: { tokens: { ops: x1 } }", "admin tokens ops"),
            ("admin: { tokens: { x1: ops } }", "admin tokens"),
            ("admin: { token:x1 }", "admin"),
            ("admin: { token x1 }", "admin"),
            ("admin: { tokenx }", "admin"),
            ("listeners: [{ tokenx }, { X1,x2/x3 }]", "listeners X1 x2/x3"),
            ("admin: { token: x1,X2, address: a }", "admin token address a"),
            ("admin: { token: { x1 } }", "admin token"),
            ("routes: [{ headers: { x-a:x1, x-b: x2, x-c } }]", "routes headers x-b"),
            ("routes: [{ headers: [x1] }]", "routes headers"),
            ("routes: [{ path: { id } }]", "routes path id"),
            ("listeners: { address: a }", "listeners address a"),
            ("routes: [{ methods: GET }]", "routes methods GET"),
            (
                "policies: { p: { limit: 1/s, cost: { max: 2 } } }",
                "policies p limit 1/s cost max 2",
            ),
            ("upstreams: { u: { tls: { key: k.pem } } }", "upstreams u tls key k.pem"),
            (
                "check: { http: { tokens: [{ token: x1, dynamic: true }] } }",
                "check http tokens token dynamic true",
            ),
            ("token: x1", "token"),
        ] {
            assert_eq!(shown(text).join(" "), expected, "{text}");
        }
    }
}
