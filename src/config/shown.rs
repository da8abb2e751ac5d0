//! A configuration file in a form that may be shown: with `${...}` as it is written, and without
//! secrets that stand in the file itself.

use std::sync::LazyLock;

use aws_lc_rs::digest::SHA256;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand;
use serde_json::{Map, Value as Json};

use super::node::{Entry, Node, TextSpan, Value};
use super::secrecy::Secrecy;

/// The key of the digests that stand for secrets. Each process has its own, so that a digest says
/// nothing of a secret.
static KEY: LazyLock<Key> = LazyLock::new(|| {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).expect("the system has random bytes");
    Key::new(HMAC_SHA256, &bytes)
});

/// Which text of a node counts.
#[derive(Clone, Copy)]
enum Texts {
    /// `${...}` as they are written.
    Written,
    /// The values in their places.
    Values,
}

/// The tree as JSON.
pub fn shown(node: &Node) -> Json {
    tree(node, Texts::Written, &|node, text| Json::from(node.secrecy.form(text)))
}

/// The same after the replacement of `${...}`, with the values in its places. A value may be
/// secret where no field says so: it is not to be shown as it is.
pub fn shown_expanded(node: &Node) -> Json {
    tree(node, Texts::Values, &|node, text| Json::from(node.secrecy.form(text)))
}

/// Whether a value of the tree was, or was to be, replaced.
pub fn has_replaced(node: &Node) -> bool {
    any(node, &|node| node.written().is_some() || matches!(node.value, Value::Unresolved))
}

/// Whether a value of the tree is secret, or has a secret part.
pub fn has_secrets(node: &Node) -> bool {
    any(node, &|node| {
        let text = node.written().or_else(|| node.scalar());
        let is_shown = |text| node.secrecy != Secrecy::All && node.secrecy.shows_all(text);
        text.is_some_and(|text| !is_shown(text))
    })
}

/// The tree as JSON with keyed digests in the places of secrets: two trees are equal in this form
/// if their secrets are equal, too. `${...}` must have been replaced.
pub fn identity(node: &Node) -> Json {
    tree(node, Texts::Written, &|node, text| {
        if node.secrecy != Secrecy::All && node.secrecy.shows_all(text) {
            return Json::from(text);
        }
        let value = node.scalar().unwrap_or_default();
        let digest = sign(&KEY, format!("{text}\0{value}").as_bytes());
        let digits = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}"));
        Json::from(digits.collect::<String>())
    })
}

/// The digest of a tree: 32 hexadecimal digits. The order of fields does not count, because
/// serde_json sorts them.
pub fn digest(tree: &Json) -> String {
    let bytes = aws_lc_rs::digest::digest(&SHA256, tree.to_string().as_bytes());
    bytes.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a value of the tree that is no list and no map `is_so`.
fn any(node: &Node, is_so: &dyn Fn(&Node) -> bool) -> bool {
    match &node.value {
        Value::List(items) => items.iter().any(|item| any(item, is_so)),
        Value::Map(entries) => entries.iter().any(|entry| any(&entry.value, is_so)),
        _ => is_so(node),
    }
}

/// The tree as JSON, with these texts as `scalar` shows them.
fn tree(node: &Node, texts: Texts, scalar: &dyn Fn(&Node, &str) -> Json) -> Json {
    match &node.value {
        Value::Null | Value::Unresolved => Json::Null,
        Value::Bool(_) | Value::Number(_) if node.secrecy == Secrecy::All => {
            scalar(node, node.scalar().unwrap_or_default())
        }
        Value::Bool(value) => Json::from(*value),
        Value::Number(text) => number(text),
        Value::Text(text) => match (texts, &text.written) {
            (Texts::Written, Some(written)) => scalar(node, written),
            _ => scalar(node, &text.value),
        },
        Value::List(items) => items.iter().map(|item| tree(item, texts, scalar)).collect(),
        Value::Map(entries) => {
            let entry =
                |entry: &Entry| (entry.name().to_owned(), tree(&entry.value, texts, scalar));
            Json::Object(entries.iter().map(entry).collect::<Map<_, _>>())
        }
    }
}

/// A number as JSON. In another form, such as `007`, it is a text: the value may be one, and then
/// each of its characters counts.
fn number(written: &str) -> Json {
    let is_in_form = |value: &u64| value.to_string() == written;
    written.parse().ok().filter(is_in_form).map_or_else(|| Json::from(written), Json::from)
}

/// Where a file has texts that were masked when it was shown: it lacks the secrets themselves.
pub fn masks(node: &Node) -> Vec<TextSpan> {
    let mut found = Vec::new();
    find_masks(node, &mut found);
    found
}

fn find_masks(node: &Node, found: &mut Vec<TextSpan>) {
    match &node.value {
        Value::Text(text) if node.secrecy.is_mask(&text.value) => found.push(node.span),
        Value::List(items) => items.iter().for_each(|item| find_masks(item, found)),
        Value::Map(entries) => entries.iter().for_each(|entry| find_masks(&entry.value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::problem::Problems;
    use crate::config::{secret_places, yaml};

    fn marked(text: &str) -> Node {
        let mut tree = yaml::parse(text, &Problems::default()).expect("it is YAML");
        secret_places::mark(&mut tree);
        tree
    }

    fn of(text: &str) -> Json {
        shown(&marked(text))
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
        let masks =
            |text: &str| masks(&marked(text)).into_iter().map(|span| span.line).collect::<Vec<_>>();
        let file = "listeners:\n- address: '***'\nadmin:\n  token: '***'\n  hosts: ['***']\n\
            routes:\n- request_headers:\n    set:\n      x: '***'\n      y: x\n\
            store:\n  redis:\n    url: redis://***@r\n    shards: [redis://u@r]\n\
            client:\n  user:\n    jwt:\n      jwks: https://i.example/keys?***\n";
        assert_eq!(masks(file), [4, 9, 13, 18]);
    }

    #[test]
    fn a_tree_is_identified_with_its_secrets_but_does_not_show_them() {
        let of = |token: &str, path: &str| {
            identity(&marked(&format!("{{ admin: {{ token: {token}, address: {path} }} }}")))
        };
        let [one, other] = [of("hunter2", "a"), of("hunter3", "a")];
        assert!(!one.to_string().contains("hunter"), "{one}");
        assert_eq!(one, of("hunter2", "a"));
        assert_ne!(one["admin"]["token"], other["admin"]["token"]);
        assert_eq!(one["admin"]["address"], other["admin"]["address"]);
        assert_ne!(one, of("hunter2", "b"));
    }

    #[test]
    fn trees_without_secrets_or_references_are_one_in_all_forms() {
        let forms = |text: &str| {
            let tree = marked(text);
            (has_secrets(&tree), identity(&tree) != shown(&tree))
        };
        for plain in
            ["{ headers: { dialects: [ietf] } }", "{ store: { redis: { timeout: 20ms } } }"]
        {
            assert_eq!(forms(plain), (false, false), "{plain}");
        }
        for secret in [
            "{ admin: { token: hunter2 } }",
            "{ admin: { token: 7 } }",
            "{ admin: { token: true } }",
            "{ store: { redis: { url: \"redis://u:hunter2@r\" } } }",
        ] {
            assert_eq!(forms(secret), (true, true), "{secret}");
        }
        let mut tree = marked("{ listeners: [{ address: x }] }");
        assert!(!has_replaced(&tree));
        assert_eq!(shown_expanded(&tree), shown(&tree));
        let Value::Map(entries) = &mut tree.value else { panic!("a map") };
        let Value::List(items) = &mut entries[0].value.value else { panic!("a list") };
        let Value::Map(fields) = &mut items[0].value else { panic!("a map") };
        let Value::Text(text) = &mut fields[0].value.value else { panic!("a text") };
        text.written = Some("${X}".to_owned());
        assert!(has_replaced(&tree));
        assert_eq!(shown_expanded(&tree)["listeners"][0]["address"], "x");
        assert_eq!(shown(&tree)["listeners"][0]["address"], "${X}");
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
}
