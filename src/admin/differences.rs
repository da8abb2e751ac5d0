//! What differs between two configurations, for the answers to their changes.

use serde_json::{Map, Value, json};

/// The most differences that are listed.
const MAX_LISTED: usize = 100;
/// A longer value is not shown.
const MAX_VALUE_BYTES: usize = 200;

/// The differences between two configurations without their secrets: the first 100, each with
/// the place as a JSON Pointer and the values, and how many more there are.
pub(super) fn differences(before: &Value, after: &Value) -> Value {
    let mut found = Found::default();
    found.compare("", before, after);
    json!({ "changes": found.listed, "more_changes": found.more })
}

#[derive(Default)]
struct Found {
    listed: Vec<Value>,
    more: usize,
}

impl Found {
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
        if self.listed.len() == MAX_LISTED {
            self.more += 1;
            return;
        }
        let shown = |value: &Value| match value.to_string() {
            text if text.len() > MAX_VALUE_BYTES => json!("…"),
            _ => value.clone(),
        };
        self.listed.push(json!({ "at": path, "before": shown(before), "after": shown(after) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_by_their_places() {
        let before = json!({ "a": { "x/y": 1, "z": [1, 2] }, "b": true, "c": [1], "d": "same" });
        let after = json!({ "a": { "x/y": 2, "z": [1, 3] }, "c": [1, 2], "d": "same", "e": "x" });
        assert_eq!(differences(&before, &before), json!({ "changes": [], "more_changes": 0 }));
        let expected = json!({ "changes": [
            { "at": "/a/x~1y", "before": 1, "after": 2 },
            { "at": "/a/z/1", "before": 2, "after": 3 },
            { "at": "/b", "before": true, "after": null },
            { "at": "/c", "before": [1], "after": [1, 2] },
            { "at": "/e", "before": null, "after": "x" },
        ], "more_changes": 0 });
        assert_eq!(differences(&before, &after), expected);
    }

    #[test]
    fn a_list_of_differences_has_a_bound() {
        let of = |value: usize| -> Value {
            let entries = (0..1000).map(|index| (format!("k{index}"), json!("x".repeat(value))));
            Value::Object(entries.collect())
        };
        let found = differences(&of(1), &of(10_000));
        assert_eq!(found["changes"].as_array().map(Vec::len), Some(MAX_LISTED));
        assert_eq!(found["more_changes"], 900);
        assert!(found.to_string().len() < 10_000, "{}", found.to_string().len());
    }
}
