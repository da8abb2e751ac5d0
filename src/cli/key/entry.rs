//! The entry of a new key in a file of keys, and the file with one entry more.

use serde_json::Value as Json;
use tollgate_core::api_keys::NewKey;

use super::args::CreateArgs;

/// What a file without keys begins with.
const HEAD: &str = "keys:\n";
/// A file whose list is empty ends with one of these.
const EMPTY: [&str; 2] = ["keys: []", "keys:"];

/// The entry of a key in one line. The values are in quotes, in the form that YAML and JSON share.
pub fn entry(args: &CreateArgs, key: &NewKey) -> String {
    let quoted = |text: &str| Json::from(text).to_string();
    let mut fields = vec![format!("id: \"{}\"", key.id)];
    let texts = [
        ("name", &args.name),
        ("team", &args.team),
        ("plan", &args.plan),
        ("expires", &args.expires),
    ];
    for (name, text) in texts {
        fields.extend(text.as_ref().map(|text| format!("{name}: {}", quoted(text))));
    }
    for (name, pairs) in [("limits", &args.limits), ("labels", &args.labels)] {
        let pair = |pair: &String| {
            let (left, right) = pair.split_once('=').unwrap_or((pair, ""));
            format!("{}: {}", quoted(left), quoted(right))
        };
        if !pairs.is_empty() {
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            fields.push(format!("{name}: {{ {} }}", pairs.join(", ")));
        }
    }
    fields.push(format!("sha256: [\"{}\"]", key.digest));
    format!("- {{ {} }}", fields.join(", "))
}

/// The text of a file with one entry more at its end. Whether that is the end of the list of keys is
/// for the caller to check.
pub fn with_entry(text: &str, entry: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return format!("{HEAD}{entry}\n");
    }
    let last = text.lines().last().unwrap_or_default();
    if EMPTY.contains(&last.trim_end()) {
        let before = text.strip_suffix(last).unwrap_or(text);
        return format!("{before}{HEAD}{entry}\n");
    }
    // All items of a list have the same indentation.
    let item = text.lines().rev().find(|line| line.trim_start().starts_with("- "));
    let indent = item.map_or(0, |line| line.len() - line.trim_start().len());
    format!("{text}\n{}{entry}\n", " ".repeat(indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_follows_the_others() {
        let cases = [
            ("", "keys:\n- E\n"),
            ("keys: []\n", "keys:\n- E\n"),
            ("teams: { a: {} }\nkeys:\n", "teams: { a: {} }\nkeys:\n- E\n"),
            ("keys:\n- A", "keys:\n- A\n- E\n"),
            (
                "# ours\nkeys:\n  - id: A\n    x: 1\n\n",
                "# ours\nkeys:\n  - id: A\n    x: 1\n  - E\n",
            ),
        ];
        for (before, after) in cases {
            assert_eq!(with_entry(before, "- E"), after, "{before:?}");
        }
    }
}
