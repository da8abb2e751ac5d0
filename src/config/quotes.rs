//! Advice to put a value in quotes, if YAML does not read it as the text that was most likely
//! intended.
//!
//! Between braces, a comma ends a value. `{` begins a map, `*` begins an alias, and `#` begins a
//! comment. The message of the parser says only what it found in that position.

use super::node::{Entry, Node, TextSpan, Value};
use super::problem::Problems;
use super::secrecy::{Secrecy, contains_secret_field};

/// Longer lines get no advice, because the search takes quadratic time.
const MAX_LINE_BYTES: usize = 2000;
/// A text that begins with one of these characters must be in quotes.
const INDICATORS: [char; 6] = ['*', '&', '!', '%', '@', '`'];

/// Advice for a mistake that the YAML parser found at `place` in `text`. Empty if quotes would not
/// correct it.
pub fn advice(text: &str, place: TextSpan) -> &'static str {
    let (before, here) = around(line(text, place.line), place.column);
    let last = before.chars().last().unwrap_or(' ');
    if here.starts_with(INDICATORS) {
        "if this is a text, put it in quotes"
    } else if (here.starts_with('{') && !is_separator(last)) || "]}".contains(last) {
        "put the whole value in quotes: braces and brackets end it otherwise"
    } else if here.starts_with(':') && before.contains(": ") {
        "put the whole value in quotes: a colon before a blank begins another one"
    } else if (place.line.saturating_sub(1)..=place.line).any(|at| swallows(line(text, at))) {
        "put a value with # in quotes: text after a blank and # is a comment"
    } else {
        ""
    }
}

/// Reports values of `root`, which was read from `text`, that end too early because they are not in
/// quotes.
pub fn check(root: &mut Node, text: &str, problems: &Problems) {
    Checker { lines: text.lines().collect(), problems }.node(root);
}

struct Checker<'a> {
    lines: Vec<&'a str>,
    problems: &'a Problems,
}

impl Checker<'_> {
    fn node(&self, node: &mut Node) {
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|item| self.node(item)),
            Value::Map(entries) => {
                self.join(entries);
                entries.iter_mut().for_each(|entry| self.entry(entry));
            }
            _ => {}
        }
    }

    /// Joins names without a value to the value before them, if only a comma separates them.
    fn join(&self, entries: &mut Vec<Entry>) {
        let mut index = 1;
        while index < entries.len() {
            let start = entries[index - 1].value.span;
            let rest = entries[index..].iter();
            let mut end = start;
            let parts = rest.take_while(|part| {
                let is_part = self.is_part(end, part);
                end = if is_part { part.key.span } else { end };
                is_part
            });
            let parts = index..index + parts.count();
            if !parts.is_empty() && entries[index - 1].value.scalar().is_some() {
                let parts: Vec<Entry> = entries.drain(parts).collect();
                let length = end.column + end.length - start.column;
                self.joined(&mut entries[index - 1].value, TextSpan { length, ..start }, &parts);
            }
            index += 1;
        }
    }

    /// Reports a value that continues in `parts` and is `whole`.
    fn joined(&self, value: &mut Node, whole: TextSpan, parts: &[Entry]) {
        let written = self.written(whole);
        let mut advice = "put the whole value in quotes".to_owned();
        // Of a URL, the parts are other hosts: credentials are seen in the whole.
        let is_url = written.contains("://") && !contains_secret_field(written);
        let is_secret = |part: &Entry| part.key.secrecy == Secrecy::All && !is_url;
        if value.secrecy.shows_all(written) && !parts.iter().any(is_secret) {
            advice += &format!(": {written:?}");
        } else {
            value.secrecy = Secrecy::All;
        }
        self.problems.error(whole, "between braces a comma ends a value", &advice);
        *value = Node { value: Value::Unresolved, span: whole, ..*value };
    }

    /// Whether `part` most likely continues the value that ends with `before`, and is not a field
    /// without a value.
    fn is_part(&self, before: TextSpan, part: &Entry) -> bool {
        let key = part.key.span;
        let end = before.column + before.length;
        let is_near = key.line == before.line && (end..=end + 2).contains(&key.column);
        if !matches!(part.value.value, Value::Null) || !is_near {
            return false;
        }
        let between = self.written(TextSpan { column: end, length: key.column - end, ..key });
        let is_quoted = self.written(before).starts_with(['"', '\'']);
        let has_colon = self.written(part.value.span).starts_with(':');
        let may_be_field =
            part.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let is_glued = match between {
            "," => !may_be_field || self.written(before).contains("://"),
            ", " => !may_be_field,
            _ => false,
        };
        is_glued && !is_quoted && !has_colon
    }

    fn entry(&self, entry: &mut Entry) {
        if let Value::Null = entry.value.value
            && self.begins_with_indicator(entry.key.span)
        {
            let message = "there is no value here: YAML reads the following text as something else";
            self.problems.error(entry.value.span, message, "if it is a text, put it in quotes");
            entry.value.value = Value::Unresolved;
        }
        self.node(&mut entry.value);
    }

    /// Whether the text after the name at `key` begins with a character that begins no value.
    fn begins_with_indicator(&self, key: TextSpan) -> bool {
        let (_, rest) = around(self.line(key.line), key.column + key.length);
        let mut rest = rest.trim_start_matches(':').trim_start().chars();
        let begins = rest.next().is_some_and(|c| c == '#' || INDICATORS.contains(&c));
        begins && rest.next().is_some_and(|c| !c.is_whitespace())
    }

    fn written(&self, span: TextSpan) -> &str {
        let (_, rest) = around(self.line(span.line), span.column);
        around(rest, span.length + 1).0
    }

    fn line(&self, number: u64) -> &str {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let line = index.and_then(|index| self.lines.get(index)).copied().unwrap_or_default();
        if line.len() > MAX_LINE_BYTES { "" } else { line }
    }
}

/// The line with this number, counted from 1.
fn line(text: &str, number: u64) -> &str {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    index.and_then(|index| text.lines().nth(index)).unwrap_or_default()
}

/// The text before this column, and the rest of the line.
fn around(line: &str, column: u64) -> (&str, &str) {
    let index = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    let at = line.char_indices().nth(index).map_or(line.len(), |(at, _)| at);
    line.split_at(at)
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "[{,".contains(c)
}

/// Whether a comment contains the brackets that close the ones before it.
fn swallows(line: &str) -> bool {
    let Some((before, comment)) = line.split_once(" #") else { return false };
    let open = |text: &str| {
        let count = |brackets: [char; 2]| text.matches(brackets).count();
        count(['[', '{']).saturating_sub(count([']', '}']))
    };
    let closed = comment.matches([']', '}']).count();
    open(before) > 0 && closed > comment.matches(['[', '{']).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_advised_only_where_they_help() {
        let at = |text: &str, line, column| advice(text, TextSpan { line, column, length: 1 });
        let cases = [
            ("hosts: [*.example.com]", 9, "text"),
            ("secret: @abc", 9, "text"),
            ("{ path: /v1/{id} }", 13, "braces"),
            ("{ address: [::]:80 }", 16, "braces"),
            ("{ to: {path}/x }", 13, "braces"),
            ("body: error: slow", 12, "colon"),
            ("  c: d", 4, ""),
            ("{ a: b { c: d } }", 8, ""),
            ("- a", 1, ""),
        ];
        for (text, column, expected) in cases {
            let advice = at(text, 1, column);
            assert_eq!(advice.is_empty(), expected.is_empty(), "{text}: {advice}");
            assert!(advice.contains(expected), "{text}: {advice}");
        }
        let comment = "a: { secret: abc #def }\nb: [1]";
        assert!(at(comment, 2, 1).contains('#'));
        assert!(at("a: { b: c } # [d]]\nb: [1", 2, 1).is_empty());
        assert!(at("a", 9, 9).is_empty() && at("", 0, 0).is_empty());
    }

    #[test]
    fn a_column_counts_characters_and_may_be_after_the_end() {
        assert_eq!(around("äöü", 2), ("ä", "öü"));
        assert_eq!(around("äöü", 9), ("äöü", ""));
        assert_eq!(around("", 1), ("", ""));
    }
}
