//! What differs between two configurations, for the answers to their changes.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The most differences that are listed.
const MAX_LISTED: usize = 100;
/// A longer value is not shown.
const MAX_VALUE_BYTES: usize = 200;

/// What differs between two configurations without their secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct Differences {
    /// The first 100 differences.
    pub(super) changes: Vec<Difference>,
    /// How many more there are.
    more_changes: usize,
}

/// A value that differs. A long value is shown as `…`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Difference {
    /// The place as a JSON Pointer (RFC 6901).
    pub(super) at: String,
    before: Value,
    after: Value,
}

impl Differences {
    /// What differs between these.
    pub(super) fn between(before: &Value, after: &Value) -> Self {
        let mut found = Self::default();
        found.compare("", before, after);
        found
    }

    fn compare(&mut self, path: &str, before: &Value, after: &Value) {
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.compare_maps(path, before, after),
            (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
                for (index, (before, after)) in before.iter().zip(after).enumerate() {
                    self.compare(&format!("{path}/{index}"), before, after);
                }
            }
            _ if before == after => {}
            _ => self.add(path, before, after),
        }
    }

    fn compare_maps(
        &mut self,
        path: &str,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
    ) {
        let new = after.keys().filter(|name| !before.contains_key(*name));
        for name in before.keys().chain(new) {
            let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
            let inner = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            self.compare(&inner, &of(before), &of(after));
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
        let (before, after) = (shown(before), shown(after));
        self.changes.push(Difference { at: path.to_owned(), before, after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_by_their_places() {
        let before = json!({ "a": { "x/y": 1, "z": [1, 2] }, "b": true, "c": [1], "d": "same" });
        let after = json!({ "a": { "x/y": 2, "z": [1, 3] }, "c": [1, 2], "d": "same", "e": "x" });
        assert_eq!(Differences::between(&before, &before), Differences::default());
        let expected = json!({ "changes": [
            { "at": "/a/x~1y", "before": 1, "after": 2 },
            { "at": "/a/z/1", "before": 2, "after": 3 },
            { "at": "/b", "before": true, "after": null },
            { "at": "/c", "before": [1], "after": [1, 2] },
            { "at": "/e", "before": null, "after": "x" },
        ], "more_changes": 0 });
        let found = Differences::between(&before, &after);
        assert_eq!(serde_json::to_value(found).unwrap(), expected);
    }

    #[test]
    fn a_list_of_differences_has_a_bound() {
        let of = |value: usize| -> Value {
            let entries = (0..1000).map(|index| (format!("k{index}"), json!("x".repeat(value))));
            Value::Object(entries.collect())
        };
        let found = Differences::between(&of(1), &of(10_000));
        assert_eq!((found.changes.len(), found.more_changes), (MAX_LISTED, 900));
        let bytes = serde_json::to_vec(&found).unwrap().len();
        assert!(bytes < 10_000, "{bytes}");
    }
}
