//! A configuration file in a form that may be shown: with `${...}` as it is written, and without
//! secrets that stand in the file itself.
//!
//! What may be secret is decided by the names of fields, so that a mistake in the file does not
//! reveal anything.

use serde_json::{Map, Value as Json};

use super::node::{Entry, Node, TextSpan, Value};

/// Replaces a text that is not shown.
const MASK: &str = "***";
/// The fields whose texts are secret.
const SECRET_FIELDS: [&str; 3] = ["password", "secret", "token"];
/// The maps of header fields, whose values may be secret.
const FIELD_MAPS: [&str; 2] = ["headers", "set"];

/// The tree as JSON.
pub(super) fn shown(node: &Node) -> Json {
    value(node, Secrecy::None)
}

/// The same after the replacement of `${...}`, with the values in its places. A value may be
/// secret where no field says so: it is not to be shown as it is.
pub(super) fn shown_expanded(node: &Node) -> Json {
    let mut node = node.clone();
    forget_references(&mut node);
    shown(&node)
}

fn forget_references(node: &mut Node) {
    match &mut node.value {
        Value::Text(text) => text.written = None,
        Value::List(items) => items.iter_mut().for_each(forget_references),
        Value::Map(entries) => {
            entries.iter_mut().for_each(|entry| forget_references(&mut entry.value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Unresolved => {}
    }
}

/// What of a value is secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    /// Only passwords in URLs.
    None,
    /// The texts of a map.
    OfMap,
    /// Every text.
    All,
}

fn value(node: &Node, secrecy: Secrecy) -> Json {
    match &node.value {
        Value::Null | Value::Unresolved => Json::Null,
        Value::Number(_) if secrecy == Secrecy::All => Json::from(MASK),
        Value::Bool(value) => Json::from(*value),
        Value::Number(text) => text.parse::<u64>().map_or_else(|_| Json::from(&**text), Json::from),
        Value::Text(text) => {
            let text = text.written.as_deref().unwrap_or(&text.value);
            let is_hidden = secrecy == Secrecy::All && !is_reference(text);
            Json::from(if is_hidden { MASK.to_owned() } else { without_credentials(text) })
        }
        Value::List(items) => {
            let secrecy = if secrecy == Secrecy::All { secrecy } else { Secrecy::None };
            items.iter().map(|item| value(item, secrecy)).collect()
        }
        Value::Map(entries) => {
            let mut map = Map::new();
            for entry in entries {
                let name = entry.name();
                map.insert(name.to_owned(), value(&entry.value, secrecy_of(entry, secrecy)));
            }
            Json::Object(map)
        }
    }
}

/// Whether a text that was shown is not shown whole.
pub(super) fn is_masked(text: &str) -> bool {
    text == MASK || text.contains("://***@") || text.ends_with("?***")
}

/// What of the value of a field is secret, if its map has this secrecy.
fn secrecy_of(entry: &Entry, secrecy: Secrecy) -> Secrecy {
    let name = entry.name();
    match (secrecy, &entry.value.value) {
        (Secrecy::All, _) => Secrecy::All,
        _ if SECRET_FIELDS.contains(&name) => Secrecy::All,
        // A section may have the name of such a map; its lists are not secret.
        (Secrecy::OfMap, Value::List(_) | Value::Map(_)) => Secrecy::None,
        (Secrecy::OfMap, _) => Secrecy::All,
        (Secrecy::None, Value::Map(_)) if FIELD_MAPS.contains(&name) => Secrecy::OfMap,
        (Secrecy::None, _) => Secrecy::None,
    }
}

/// Where a file has texts that were masked when it was shown: it lacks the secrets themselves.
pub(super) fn masks(node: &Node) -> Vec<TextSpan> {
    let mut found = Vec::new();
    find_masks(node, Secrecy::None, &mut found);
    found
}

fn find_masks(node: &Node, secrecy: Secrecy, found: &mut Vec<TextSpan>) {
    match &node.value {
        Value::Text(text) => {
            let is_mask = text.value == MASK && secrecy == Secrecy::All;
            if is_mask || text.value.contains("://***@") {
                found.push(node.span);
            }
        }
        Value::List(items) => {
            let secrecy = if secrecy == Secrecy::All { secrecy } else { Secrecy::None };
            items.iter().for_each(|item| find_masks(item, secrecy, found));
        }
        Value::Map(entries) => {
            for entry in entries {
                find_masks(&entry.value, secrecy_of(entry, secrecy), found);
            }
        }
        _ => {}
    }
}

/// Whether a text is one reference without a default, which tells only where the value is.
fn is_reference(text: &str) -> bool {
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| !inner.contains(['{', '}']) && !inner.contains(":-"))
}

/// A text without what precedes `@` in the authority of a URL, and without its query.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password may contain a slash by mistake.
    let end = rest.rfind('@').map_or(end, |at| end.max(at + 1));
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    match path.split_once('?') {
        Some((path, _)) => format!("{scheme}://{host}{path}?{MASK}"),
        None => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::problem::Problems;
    use crate::config::yaml;

    fn of(text: &str) -> Json {
        shown(&yaml::parse(text, &Problems::default()).expect("it is YAML"))
    }

    #[test]
    fn secrets_are_masked_and_references_are_shown_as_written() {
        let file = of(
            "admin:\n  token: 0123456789abcdef\n  tokens:\n    - { name: a, token: \"${A}\" }\n    \
             - { name: b, token: 1234567890123456 }\n    - { name: c, token: \"${C:-hunter2}\" }\n    \
             - { name: d, token: \"${file:/run/d}\" }\n    - { name: e, token: \"x${E}\" }\n\
             client: { user: { jwt: { secret: hunter2, algorithms: [HS256] } } }\n\
             store: { redis: { url: \"redis://u:hunter2@r:6379/0\", password: hunter2, timeout: 20ms } }\n",
        );
        assert_eq!(
            file,
            json!({
                "admin": { "token": "***", "tokens": [
                    { "name": "a", "token": "${A}" }, { "name": "b", "token": "***" },
                    { "name": "c", "token": "***" }, { "name": "d", "token": "${file:/run/d}" },
                    { "name": "e", "token": "***" },
                ] },
                "client": { "user": { "jwt": { "secret": "***", "algorithms": ["HS256"] } } },
                "store": { "redis": {
                    "url": "redis://***@r:6379/0", "password": "***", "timeout": "20ms",
                } },
            })
        );
    }

    #[test]
    fn masked_texts_are_found_where_secrets_are() {
        let masks = |text: &str| {
            let tree = yaml::parse(text, &Problems::default()).expect("it is YAML");
            masks(&tree).into_iter().map(|span| span.line).collect::<Vec<_>>()
        };
        let file = "a: '***'\ntoken: '***'\nset:\n  x: '***'\nurl: redis://***@r\nb: redis://u@r\n";
        assert_eq!(masks(file), [2, 4, 5]);
    }

    #[test]
    fn values_of_header_fields_are_masked_and_names_are_shown() {
        let file = of("headers: { dialects: [ietf], expose_cors: true }\n\
             client: { api_key: { headers: [x-api-key] } }\n\
             policies: { p: { exempt: { headers: { x-internal: hunter2, x-number: 1 } } } }\n\
             routes: [{ headers: { x-version: hunter2 }, request_headers: { remove: [server], \
             set: { authorization: hunter2, x-from: \"${FROM}\" } } }]\n");
        assert!(!file.to_string().contains("hunter2"), "{file}");
        assert_eq!(file["headers"]["dialects"], json!(["ietf"]));
        assert_eq!(file["client"]["api_key"]["headers"], json!(["x-api-key"]));
        assert_eq!(file["policies"]["p"]["exempt"]["headers"]["x-number"], "***");
        let set = &file["routes"][0]["request_headers"]["set"];
        assert_eq!(*set, json!({ "authorization": "***", "x-from": "${FROM}" }));
    }

    #[test]
    fn urls_lose_passwords_and_queries() {
        for (text, expected) in [
            ("redis://:hunter2@r:1/0", "redis://***@r:1/0"),
            ("redis://u:hun/ter2@r:1/0", "redis://***@r:1/0"),
            ("${R:-redis://:hunter2@r}", "${R:-redis://***@r}"),
            ("https://i.example/keys?key=hunter2", "https://i.example/keys?***"),
            ("https://i.example/keys", "https://i.example/keys"),
            ("user@host", "user@host"),
        ] {
            assert_eq!(without_credentials(text), expected);
        }
    }
}
