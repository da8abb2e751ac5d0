//! The part of a line of the file that a report shows, without secrets.
//!
//! Of a line, only these characters are shown: names of fields, values that may be shown, and what
//! YAML needs between them. Everything else may be a secret or a part of one, also a comment. If
//! the file is not YAML, no value may be shown.

use std::collections::HashSet;
use std::ops::Range;

use tollgate_core::text::is_printable;

use super::node::{Node, TextSpan, Value};
use super::secrecy::{MASK, Secrecy};

/// The most characters of a line that are shown.
const MAX_SHOWN_CHARS: usize = 160;
/// The characters before the mistake that are shown of a longer line.
const SHOWN_BEFORE_CHARS: usize = 60;
/// What YAML needs between names and values.
const BETWEEN: [char; 11] = [' ', '\t', '-', ':', ',', '{', '}', '[', ']', '"', '\''];

/// Which parts of a file may be shown, and which are secret.
#[derive(Debug, Default)]
pub struct Excerpts {
    /// The names of fields.
    names: HashSet<&'static str>,
    /// Sorted by their positions.
    spans: Vec<(TextSpan, Show)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Show {
    All,
    Nothing,
}

impl Excerpts {
    /// Of a file whose fields have these names, and whose values are not known.
    pub fn of_names(names: &HashSet<&'static str>) -> Self {
        Self { names: names.clone(), spans: Vec::new() }
    }

    /// The same with the values of this tree, in which secrets are marked and `${...}` are as they
    /// are written.
    pub fn with_values(mut self, tree: &Node) -> Self {
        self.node(tree);
        self.spans.sort();
        self
    }

    fn node(&mut self, node: &Node) {
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| self.node(item)),
            Value::Map(entries) => {
                for entry in entries {
                    self.node(&entry.key);
                    self.node(&entry.value);
                }
            }
            // A text that YAML has ended too early, which is reported.
            Value::Unresolved if node.secrecy != Secrecy::All => {
                self.spans.push((node.span, Show::All));
            }
            _ => {
                let is_shown = node.scalar().is_some_and(|text| node.secrecy.shows_all(text));
                self.spans.push((node.span, if is_shown { Show::All } else { Show::Nothing }));
            }
        }
    }

    /// The line with this number, counted from 1.
    pub fn line(&self, text: &str, number: u64) -> Line {
        let chars: Vec<char> = text.chars().collect();
        let mut shown = vec![false; chars.len()];
        self.names(&chars, |range| shown[range].fill(true));
        let mut secret = vec![false; chars.len()];
        let first = self.spans.partition_point(|(it, _)| it.line < number);
        let on_line = self.spans[first..].iter().take_while(|(it, _)| it.line == number);
        for (span, show) in on_line {
            let Range { start, end } = columns(*span);
            let range = start.min(chars.len())..end.min(chars.len());
            match show {
                Show::All => shown[range].fill(true),
                Show::Nothing => secret[range].fill(true),
            }
        }
        for (shown, secret) in shown.iter_mut().zip(&secret) {
            *shown &= !secret;
        }
        Line { number, masked: Masked::new(&chars, &shown, &secret), chars }
    }

    /// Whether the file is not YAML.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Calls `found` with the position of each name of a field before a colon.
    fn names(&self, line: &[char], mut found: impl FnMut(Range<usize>)) {
        let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '-';
        let mut start = 0;
        while start < line.len() {
            let end = start + line[start..].iter().take_while(|c| is_part(c)).count();
            let rest: String = line[end..].iter().take(2).collect();
            let is_before_colon = rest.starts_with(':') || rest == "\":" || rest == "':";
            let begins = start.checked_sub(1).is_none_or(|before| BETWEEN.contains(&line[before]));
            let name: String = line[start..end].iter().collect();
            if is_before_colon && begins && self.names.contains(&*name) {
                found(start..end);
            }
            start = end + 1;
        }
    }
}

/// The first column of a span, and the one after its last, counted from 0.
fn columns(span: TextSpan) -> Range<usize> {
    let index = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let start = index(span.column.saturating_sub(1));
    start..start.saturating_add(index(span.length))
}

/// A line of a file, of which parts are shown.
pub struct Line {
    number: u64,
    chars: Vec<char>,
    masked: Masked,
}

impl Line {
    /// Its number in the file, counted from 1.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The part that is shown for a mistake at `span`, without secrets.
    pub fn masked(&self, span: TextSpan) -> Excerpt {
        Excerpt::new(&self.masked.text, self.masked.columns_of(span))
    }

    /// The same with its secrets.
    pub fn whole(&self, span: TextSpan) -> Excerpt {
        Excerpt::new(&self.chars, columns(span))
    }
}

/// A line in which parts are replaced by [`MASK`].
struct Masked {
    text: Vec<char>,
    /// Where each character of the line is in `text`.
    places: Vec<Range<usize>>,
}

impl Masked {
    /// `shown`: which characters may be shown. `secret`: which may not, whatever they are.
    fn new(line: &[char], shown: &[bool], secret: &[bool]) -> Self {
        let mut masked = Self { text: Vec::new(), places: Vec::with_capacity(line.len()) };
        let mut start = 0;
        while start < line.len() {
            let is_same = |it: &&bool| **it == shown[start];
            let end = start + shown[start..].iter().take_while(is_same).count();
            let is_hidden = |index: &usize| secret[*index] || !BETWEEN.contains(&line[*index]);
            let hidden = (start..end).find(is_hidden).zip((start..end).rfind(is_hidden));
            match hidden {
                Some((first, last)) if !shown[start] => {
                    masked.show(&line[start..first]);
                    masked.mask(last + 1 - first);
                    masked.show(&line[last + 1..end]);
                }
                _ => masked.show(&line[start..end]),
            }
            start = end;
        }
        masked
    }

    fn show(&mut self, part: &[char]) {
        let start = self.text.len();
        self.places.extend((start..start + part.len()).map(|at| at..at + 1));
        self.text.extend(part);
    }

    fn mask(&mut self, chars: usize) {
        let start = self.text.len();
        self.text.extend(MASK.chars());
        self.places.extend(std::iter::repeat_n(start..self.text.len(), chars));
    }

    /// Where a span of the line is in `text`.
    fn columns_of(&self, span: TextSpan) -> Range<usize> {
        let Range { start, end } = columns(span);
        let behind = |column: usize| self.text.len() + column.saturating_sub(self.places.len());
        let first = self.places.get(start).map_or_else(|| behind(start), |it| it.start);
        let last = self.places.get(end.saturating_sub(1)).map_or_else(|| behind(end), |it| it.end);
        first..last.max(first)
    }
}

/// The part of a line that is shown, and the position of the carets in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    pub text: String,
    pub indent: usize,
    pub carets: usize,
}

impl Excerpt {
    /// Of a line with a mistake in these columns.
    fn new(line: &[char], Range { start, end }: Range<usize>) -> Self {
        let is_long = line.len() > MAX_SHOWN_CHARS;
        let first = if is_long { start.saturating_sub(SHOWN_BEFORE_CHARS) } else { 0 };
        let shown = line.iter().skip(first).take(MAX_SHOWN_CHARS);
        // Others would move the carets, or change the terminal.
        let text: String = shown.copied().map(printable).collect();
        let indent = (start - first).min(MAX_SHOWN_CHARS);
        let visible = text.trim_end().chars().count().saturating_sub(indent);
        let carets = (end - start).min(visible).max(1);
        Self { text: text.trim_end().to_owned(), indent, carets }
    }
}

/// A blank instead of a character that is not printable.
pub fn printable(c: char) -> char {
    if is_printable(c) { c } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Problems;
    use crate::config::{kind, secret_places, yaml};

    /// Line `line` of a file, with carets under the text `at` of the line as it is.
    fn excerpt(file: &str, line: usize, at: &str) -> (String, String) {
        let mut excerpts = Excerpts::of_names(&kind::NAMES);
        if let Some(mut tree) = yaml::parse(file, &Problems::default()) {
            secret_places::mark(&mut tree);
            excerpts = excerpts.with_values(&tree);
        }
        let text = file.lines().nth(line - 1).expect("it is a line of the file");
        let column = text.split_once(at).expect("it is in the line").0.chars().count() + 1;
        let number = |count: usize| u64::try_from(count).unwrap();
        let length = number(at.chars().count());
        let span = TextSpan { line: number(line), column: number(column), length };
        let Excerpt { text, indent, carets } = excerpts.line(text, span.line).masked(span);
        let marked = text.chars().skip(indent).take(carets).collect();
        (text, marked)
    }

    #[test]
    fn secrets_are_masked_and_carets_mark_the_same_place() {
        for (line, at, shown, marked) in [
            (
                "admin: { token: \"hun:ter2\", adress: a }",
                "adress",
                "admin: { token: ***, adress: *** }",
                "adress",
            ),
            (
                "admin: { token: hunter2, address: a }",
                "a }",
                "admin: { token: ***, address: a }",
                "a }",
            ),
            (
                "admin: { token: hunter2, address: a }",
                "hunter2",
                "admin: { token: ***, address: a }",
                "***",
            ),
            ("admin: { tokne: hunter2 } # hunter3", "tokne", "admin: { tokne: ***", "tokne"),
            ("admin: { token:hunter2 }", "token:hunter2", "admin: { *** }", "***"),
            ("admin: { token: '-hunter,2}' }", "}", "admin: { token: *** }", "***"),
            (
                "admin: { token: \"${TOKEN}\", a: 1 }",
                "a:",
                "admin: { token: \"${TOKEN}\", a: *** }",
                "a:",
            ),
            (
                "store: { redis: { url: \"redis://u:hunter2@r\" } }",
                "redis://u",
                "store: { redis: { url: *** } }",
                "***",
            ),
            ("a: hunter2 # path: hunter3", "a", "a: *** path: ***", "a"),
            // Not YAML.
            ("routes: [{ hosts: [*.hunter2] }]", "*", "routes: [{ hosts: [***] }]", "***"),
            ("admin: { token: hunter2", "{", "admin: { token: ***", "{"),
            (
                "admin: { token: \"hunter2, address: a }",
                "hunter2",
                "admin: { token: \"***, address: *** }",
                "***",
            ),
            ("token: a: hunter2", "a: hunter2", "token: ***", "***"),
            ("admin: { hunter2 token: x", "token", "admin: { *** token: ***", "token"),
        ] {
            let (text, at) = excerpt(line, 1, at);
            assert_eq!((&*text, &*at), (shown, marked), "{line}");
        }
    }

    #[test]
    fn a_secret_of_several_lines_is_masked_in_each() {
        let file = "admin:\n  token: \"hunter2\n    hunter3\n    hunter4\"\n  x: |\n    hunter5\n";
        for (line, at, shown) in [
            (2, "token", "  token: ***"),
            (3, "hunter3", "    ***"),
            (4, "hunter4", "    ***\""),
            (5, "x", "  x: ***"),
            (6, "hunter5", "    ***"),
        ] {
            assert_eq!(excerpt(file, line, at).0, shown.trim_end(), "{line}");
        }
    }
}
