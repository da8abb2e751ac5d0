//! What differs between two configurations, for the answers to their changes.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::Index;
use serde_json::{Value, json};

use crate::admin::masked_config::MaskedConfig;

/// The most differences that are listed.
const MAX_LISTED: usize = 100;
/// A longer value is not shown.
const MAX_VALUE_BYTES: usize = 200;

/// What differs between two configurations. A secret that differs is shown as `***` on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Differences {
    /// The first 100 differences.
    pub changes: Vec<Difference>,
    /// How many more there are.
    more_changes: usize,
}

/// A value that differs. A long value is shown as `…`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// The place as a JSON Pointer (RFC 6901).
    pub at: String,
    before: Value,
    after: Value,
}

impl Differences {
    /// What differs between these.
    pub fn between(before: &MaskedConfig, after: &MaskedConfig) -> Self {
        let mut found = Self::default();
        found.compare("", Side::of(before), Side::of(after));
        found
    }

    fn compare(&mut self, path: &str, before: Side<'_>, after: Side<'_>) {
        if before.identity == after.identity {
            return;
        }
        match (before.shown, after.shown) {
            (Value::Object(one), Value::Object(other)) => {
                let new = other.keys().filter(|name| !one.contains_key(*name));
                for name in one.keys().chain(new) {
                    let inner = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    self.compare(&inner, before.at(&**name), after.at(&**name));
                }
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                for index in 0..one.len() {
                    self.compare(&format!("{path}/{index}"), before.at(index), after.at(index));
                }
            }
            (one, other) => self.add(path, one, other),
        }
    }

    fn add(&mut self, path: &str, before: &Value, after: &Value) {
        if self.changes.len() == MAX_LISTED {
            self.more_changes += 1;
            return;
        }
        let shown = |value: &Value| match value.to_string() {
            text if text.len() > MAX_VALUE_BYTES => json!("…"),
            _ => value.clone(),
        };
        let before = shown(before);
        let after = shown(after);
        self.changes.push(Difference { at: path.to_owned(), before, after });
    }
}

/// A value of one of the two configurations.
#[derive(Clone, Copy)]
struct Side<'v> {
    shown: &'v Value,
    identity: &'v Value,
}

impl<'v> Side<'v> {
    fn of(config: &'v MaskedConfig) -> Self {
        Self { shown: &config.written, identity: &config.identity }
    }

    /// The value at a place in it. Null: there is none.
    fn at(self, place: impl Index + Copy) -> Self {
        Self { shown: &self.shown[place], identity: &self.identity[place] }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A configuration without secrets.
    fn plain(value: &Value) -> MaskedConfig {
        secret(value, value)
    }

    fn secret(written: &Value, identity: &Value) -> MaskedConfig {
        let [written, identity] = [written, identity].map(|it| Arc::new(it.clone()));
        MaskedConfig { written, identity, ..MaskedConfig::default() }
    }

    #[test]
    fn differences_are_told_by_their_places() {
        let before = json!({ "a": { "x/y": 1, "z": [1, 2] }, "b": true, "c": [1], "d": "same" });
        let after = json!({ "a": { "x/y": 2, "z": [1, 3] }, "c": [1, 2], "d": "same", "e": "x" });
        assert_eq!(Differences::between(&plain(&before), &plain(&before)), Differences::default());
        let expected = json!({ "changes": [
            { "at": "/a/x~1y", "before": 1, "after": 2 },
            { "at": "/a/z/1", "before": 2, "after": 3 },
            { "at": "/b", "before": true, "after": null },
            { "at": "/c", "before": [1], "after": [1, 2] },
            { "at": "/e", "before": null, "after": "x" },
        ], "more_changes": 0 });
        let found = Differences::between(&plain(&before), &plain(&after));
        assert_eq!(serde_json::to_value(found).unwrap(), expected);
    }

    #[test]
    fn a_secret_that_differs_is_told_without_the_secret() {
        let shown = json!({ "tokens": [{ "name": "a", "token": "***" }], "url": "redis://***@r" });
        let identity = |digest: &str| json!({ "tokens": [{ "name": "a", "token": digest }], "url": format!("x{digest}") });
        let [one, other] = ["1", "2"].map(|digest| secret(&shown, &identity(digest)));
        assert_eq!(Differences::between(&one, &one), Differences::default());
        let expected = json!({ "changes": [
            { "at": "/tokens/0/token", "before": "***", "after": "***" },
            { "at": "/url", "before": "redis://***@r", "after": "redis://***@r" },
        ], "more_changes": 0 });
        let found = Differences::between(&one, &other);
        assert_eq!(serde_json::to_value(found).unwrap(), expected);
    }

    #[test]
    fn a_list_of_differences_has_a_bound() {
        let of = |value: usize| -> Value {
            let entries = (0..1000).map(|index| (format!("k{index}"), json!("x".repeat(value))));
            Value::Object(entries.collect())
        };
        let found = Differences::between(&plain(&of(1)), &plain(&of(10_000)));
        assert_eq!((found.changes.len(), found.more_changes), (MAX_LISTED, 900));
        let bytes = serde_json::to_vec(&found).unwrap().len();
        assert!(bytes < 10_000, "{bytes}");
    }
}
