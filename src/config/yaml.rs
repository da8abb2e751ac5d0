//! Parses YAML into [`Node`]s. Only this file uses the YAML crate.
//!
//! Parsing stops at a syntax error, at a YAML bomb (the parser has a budget of nodes, depth,
//! aliases and bytes) and at a file above [`MAX_BYTES`]. It does not stop at duplicate keys:
//! [`check_names`] reports them together with other mistakes.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{DuplicateKeyPolicy, NonFiniteFloatPolicy, RenderOptions, Spanned};

use super::node::{Entry, Node, Text, TextSpan, Value};
use super::problem::Problems;
use super::quotes;
use super::secrecy::Secrecy;

/// The largest file that is read, in bytes.
pub const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The tree of `text`, with all entries of the same name. None if `text` is not YAML. Mistakes go to
/// `problems`.
pub fn parse(text: &str, problems: &Problems) -> Option<Node> {
    parse_advised(text, "write at least listeners, routes and upstreams", problems)
}

/// The same for a long list of small entries, which is much longer than other files.
pub fn parse_long(text: &str, if_empty: &str, problems: &Problems) -> Option<Node> {
    let options = serde_yaml::options! {
        strict_booleans: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        budget: long(),
    };
    parsed(text, options, if_empty, problems)
}

/// What is in a long text that another program has written, or this one. The error is the number of
/// the line that cannot be read, if it is known, and not what is in it.
pub fn read_long<T: DeserializeOwned>(text: &str) -> Result<T, Option<usize>> {
    let options = serde_yaml::options! { budget: long() };
    serde_yaml::from_str_with_options(text, options)
        .map_err(|error| error.location().and_then(|it| usize::try_from(it.line()).ok()))
}

/// The budget of a long text.
fn long() -> Option<serde_yaml::Budget> {
    serde_yaml::budget! { max_events: 16_000_000, max_nodes: 8_000_000, max_aliases: 0 }
}

/// The same, with advice for an empty file.
pub fn parse_advised(text: &str, if_empty: &str, problems: &Problems) -> Option<Node> {
    if u64::try_from(text.len()).map_or(true, |bytes| bytes > MAX_BYTES) {
        problems.error(TextSpan::FILE, "the file is larger than 8 MiB", "split it, or shorten it");
        return None;
    }
    let options = serde_yaml::options! {
        strict_booleans: true,
        // The visitor below gets both entries.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // Enough for 10,000 routes with their policies, as `tollgate import` may write them. What an
        // alias repeats counts, so aliases need no bound of their own.
        budget: serde_yaml::budget! {
            max_events: 4_000_000,
            max_nodes: 800_000,
            enforce_alias_anchor_ratio: false,
        },
    };
    parsed(text, options, if_empty, problems)
}

fn parsed(
    text: &str,
    options: serde_yaml::Options,
    if_empty: &str,
    problems: &Problems,
) -> Option<Node> {
    match serde_yaml::from_str_with_options::<Spanned<Untyped>>(text, options) {
        Ok(Spanned { value: Untyped::Null, .. }) => {
            problems.error(TextSpan::FILE, "the file is empty", if_empty);
            None
        }
        Ok(tree) => Some(Source { text }.node(tree.into())),
        Err(error) => {
            let span = error.location().map_or(TextSpan::FILE, span);
            let (message, advice) = reason(&error, text, span);
            problems.error(span, &message, advice);
            None
        }
    }
}

/// Reports names that appear a second time in a map, and removes their values; and names that are
/// numbers.
pub fn check_names(node: &mut Node, problems: &Problems) {
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| check_names(item, problems)),
        Value::Map(entries) => {
            let mut seen = HashSet::new();
            entries.retain(|entry| {
                // If a map has a number as a key, the parser keeps only the last of equal keys, so a
                // duplicate could be hidden.
                if let Value::Number(_) = entry.key.value {
                    let message = format!("the name {} is a number", entry.shown_name());
                    problems.error(entry.key.span, &message, "put it in quotes");
                    return true;
                }
                let is_new = seen.insert(entry.name().to_owned());
                if !is_new {
                    let message = format!("{:?} appears a second time", entry.shown_name());
                    problems.error(entry.key.span, &message, "remove or rename one of them");
                }
                is_new
            });
            entries.iter_mut().for_each(|entry| check_names(&mut entry.value, problems));
        }
        _ => {}
    }
}

/// The message of the parser without its position, and advice.
fn reason(error: &serde_yaml::Error, text: &str, span: TextSpan) -> (String, &'static str) {
    if is_budget(error) {
        let advice = "write less, or repeat less by aliases";
        return ("from here on the file is too large or too deep".to_owned(), advice);
    }
    let formatter = serde_yaml::UserMessageFormatter;
    let words = error.without_snippet().render_with_options(RenderOptions::new(&formatter));
    let first = words.lines().next().unwrap_or_default();
    let first = first.split(" at line ").next().unwrap_or(first);
    // A part of a secret may look like a tag.
    let first = if quotes_file(error) { "this value cannot be read" } else { first };
    (format!("this is not valid YAML: {first}"), quotes::advice(text, span))
}

/// Whether the message of the parser contains texts of the file.
fn quotes_file(error: &serde_yaml::Error) -> bool {
    use serde_yaml::Error;
    match error.without_snippet() {
        Error::UnsupportedTag { .. }
        | Error::TaggedEnumMismatch { .. }
        | Error::DuplicateMappingKey { .. }
        | Error::NonFiniteFloat { .. }
        | Error::SerdeInvalidType { .. }
        | Error::SerdeInvalidValue { .. }
        | Error::SerdeUnknownVariant { .. }
        | Error::SerdeUnknownField { .. } => true,
        Error::AliasError { error, .. } => quotes_file(error),
        _ => false,
    }
}

/// Whether the budget of the parser was exceeded, in the file or in an alias.
fn is_budget(error: &serde_yaml::Error) -> bool {
    match error.without_snippet() {
        serde_yaml::Error::Budget { .. } => true,
        serde_yaml::Error::AliasError { error, .. } => is_budget(error),
        _ => false,
    }
}

fn span(location: serde_yaml::Location) -> TextSpan {
    TextSpan { line: location.line(), column: location.column(), length: location.span().len() }
}

/// A value from the parser, before it gets its position.
enum Untyped {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Placed<Untyped>>),
    Map(Vec<(Placed<String>, Placed<Untyped>)>),
}

/// A value with the place where it is defined. [`Spanned`] has two places, and large files have a
/// million values.
struct Placed<T> {
    value: T,
    defined: serde_yaml::Location,
}

impl<T> From<Spanned<T>> for Placed<T> {
    fn from(Spanned { value, defined, .. }: Spanned<T>) -> Self {
        Self { value, defined }
    }
}

/// The text of a tree.
struct Source<'a> {
    text: &'a str,
}

impl Source<'_> {
    /// Positions are those of the definition, because a mistake in an alias must be corrected where
    /// its value is written, not where it is used.
    fn node(&self, tree: Placed<Untyped>) -> Node {
        let value = match tree.value {
            Untyped::Null => Value::Null,
            Untyped::Bool(value) => Value::Bool(value),
            Untyped::Number(parsed) => {
                // With a tag it may be in quotes: !!int "2".
                let plain = |it: &&str| !it.starts_with(['"', '\'']);
                let written = self.written(tree.defined).filter(plain);
                Value::Number(written.map_or(parsed, str::to_owned))
            }
            Untyped::Text(value) => Value::Text(Text { value, written: None }),
            Untyped::List(items) => {
                Value::List(items.into_iter().map(|item| self.node(item)).collect())
            }
            Untyped::Map(entries) => self.map(entries),
        };
        Node { value, span: span(tree.defined), secrecy: Secrecy::default() }
    }

    fn map(&self, pairs: Vec<(Placed<String>, Placed<Untyped>)>) -> Value {
        let entry = |(key, value): (Placed<String>, _)| {
            let name = match self.written(key.defined).is_some_and(is_number) {
                true => Value::Number(key.value),
                false => Value::Text(Text { value: key.value, written: None }),
            };
            let secrecy = Secrecy::default();
            let key = Node { value: name, span: span(key.defined), secrecy };
            Entry { key, value: self.node(value) }
        };
        Value::Map(pairs.into_iter().map(entry).collect())
    }

    fn written(&self, location: serde_yaml::Location) -> Option<&str> {
        let start = usize::try_from(location.span().byte_offset()?).ok()?;
        let length = usize::try_from(location.span().byte_len()?).ok()?;
        self.text.get(start..start.checked_add(length)?)
    }
}

/// Whether the parser reads a key with this text as an integer.
fn is_number(written: &str) -> bool {
    let unsigned = written.trim_start_matches(['-', '+']);
    let all = |digits: &str, radix: u32| {
        !digits.is_empty() && digits.chars().all(|c| c == '_' || c.is_digit(radix))
    };
    all(unsigned, 10)
        || unsigned.strip_prefix("0x").is_some_and(|digits| all(digits, 16))
        || unsigned.strip_prefix("0o").is_some_and(|digits| all(digits, 8))
        || unsigned.strip_prefix("0b").is_some_and(|digits| all(digits, 2))
}

impl<'de> Deserialize<'de> for Untyped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UntypedVisitor)
    }
}

struct UntypedVisitor;

impl<'de> Visitor<'de> for UntypedVisitor {
    type Value = Untyped;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Untyped, E> {
        Ok(Untyped::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Untyped, E> {
        Ok(Untyped::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Untyped, E> {
        Ok(Untyped::Number(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Untyped, E> {
        Ok(Untyped::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Untyped, E> {
        Ok(Untyped::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Untyped, E> {
        Ok(Untyped::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Untyped, E> {
        Ok(Untyped::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Untyped, E> {
        Ok(Untyped::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Untyped, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<_>>()? {
            list.push(item.into());
        }
        list.shrink_to_fit();
        Ok(Untyped::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Untyped, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<_>, Spanned<_>>()? {
            map.push((key.into(), value.into()));
        }
        map.shrink_to_fit();
        Ok(Untyped::Map(map))
    }
}
