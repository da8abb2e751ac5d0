//! Text from servers, made safe for a terminal.
//!
//! Guarantee: what comes out has no character that a terminal acts on, that reverses the
//! direction of text, or that has no width. Only documents have line breaks, where a text has
//! several lines.

use serde_json::Value;
use tollgate_core::text::is_printable;

/// The same document with safe texts and names. Its texts keep their line breaks.
pub fn document(value: Value) -> Value {
    match value {
        Value::String(it) => Value::String(lines(&it)),
        Value::Array(items) => items.into_iter().map(document).collect(),
        Value::Object(fields) => {
            let cleaned = fields.into_iter().map(|(name, it)| (text(&name), document(it)));
            Value::Object(cleaned.collect())
        }
        other => other,
    }
}

/// The text of several lines, each of them safe.
pub fn lines(text: &str) -> String {
    text.lines().map(self::text).collect::<Vec<_>>().join("\n")
}

/// The text with escapes like `\u{1b}` instead of such characters.
pub fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match is_printable(c) {
            true => safe.push(c),
            false => safe.extend(c.escape_unicode()),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        for (from, to) in [
            ("header x-api-key 4f…", "header x-api-key 4f…"),
            ("\u{1b}]0;owned\u{7}", "\\u{1b}]0;owned\\u{7}"),
            ("a\r\nb\tc", "a\\u{d}\\u{a}b\\u{9}c"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\u{202e}b\u{200b}\u{2066}\u{7f}", "a\\u{202e}b\\u{200b}\\u{2066}\\u{7f}"),
            ("größe 東京", "größe 東京"),
        ] {
            assert_eq!(text(from), to);
        }
        let lines = document(json!("a\r\n b\u{7}\nc"));
        assert_eq!(lines, "a\n b\\u{7}\nc");
        let cleaned = document(json!({ "a\u{1b}": ["\u{1b}", 1, null, { "b": "\u{7}" }] }));
        assert_eq!(cleaned, json!({ "a\\u{1b}": ["\\u{1b}", 1, null, { "b": "\\u{7}" }] }));
    }

    proptest! {
        #[test]
        fn nothing_else_reaches_the_terminal(from in any::<String>()) {
            let cleaned = text(&from);
            prop_assert!(cleaned.chars().all(is_printable));
            prop_assert_eq!(text(&cleaned), cleaned);
        }
    }
}
