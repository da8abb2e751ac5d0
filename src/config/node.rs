//! The tree of a configuration file: the values with their positions.
//!
//! It does not depend on YAML or on the sections. Every node keeps its position, so that a report
//! can show the text that a mistake is about.

use std::borrow::Cow;

use super::secrecy::{MASK, Secrecy};

/// A position in the file, counted in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextSpan {
    /// The line. 0 means the whole file.
    pub line: u64,
    /// The column of the first character.
    pub column: u64,
    /// The number of characters, which may exceed the line.
    pub length: u64,
}

impl TextSpan {
    /// The whole file, for mistakes that do not belong to a line.
    pub const FILE: Self = Self { line: 0, column: 0, length: 0 };
}

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub span: TextSpan,
    /// What of it may be shown.
    pub secrecy: Secrecy,
}

/// The value of a node.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing, as after `key:`.
    Null,
    /// `true` or `false`, not quoted.
    Bool(bool),
    /// A number, not quoted, as it was written.
    Number(String),
    /// Any other scalar.
    Text(Text),
    /// A text with a `${...}` that has no value. The mistake is already reported.
    Unresolved,
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file.
    Map(Vec<Entry>),
}

/// A text, possibly with values from outside of the file.
#[derive(Clone, Debug)]
pub struct Text {
    /// The value.
    pub value: String,
    /// The original text, if a `${...}` was replaced in it. Then `value` may be secret.
    pub written: Option<String>,
}

/// A field of a map.
#[derive(Clone, Debug)]
pub struct Entry {
    /// A text, or a number, which is a mistake.
    pub key: Node,
    pub value: Node,
}

impl Entry {
    /// The field's name.
    pub fn name(&self) -> &str {
        self.key.scalar().unwrap_or_default()
    }

    /// The name in the form that messages may show.
    pub fn shown_name(&self) -> Cow<'_, str> {
        self.key.shown().unwrap_or_else(|| self.name().into())
    }
}

impl Node {
    /// The text of a scalar. None for other values.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Bool(true) => Some("true"),
            Value::Bool(false) => Some("false"),
            Value::Number(text) => Some(text),
            Value::Text(text) => Some(&text.value),
            Value::Null | Value::Unresolved | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The original text, if a `${...}` was replaced in it.
    pub fn written(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => text.written.as_deref(),
            _ => None,
        }
    }

    /// The form of a scalar that messages show instead of its value: with `${...}` as they are
    /// written, and without secrets. None: they may show the value.
    pub fn shown(&self) -> Option<Cow<'_, str>> {
        match &self.value {
            Value::Text(Text { value, written }) => {
                let text = written.as_ref().unwrap_or(value);
                if !self.secrecy.shows_all(text) {
                    return Some(self.secrecy.form(text).into());
                }
                written.as_deref().map(Cow::from)
            }
            Value::Bool(_) | Value::Number(_) if self.secrecy == Secrecy::All => Some(MASK.into()),
            _ => None,
        }
    }

    /// Whether it is most likely a text that begins with a brace, such as `{id}` or JSON.
    pub fn is_text_in_braces(&self) -> bool {
        let Value::Map(entries) = &self.value else { return false };
        entries.first().is_some_and(|Entry { key, value }| {
            let chars = key.scalar().map_or(0, |name| name.chars().count());
            let is_quoted = usize::try_from(key.span.length).is_ok_and(|length| length > chars);
            is_quoted || matches!(value.value, Value::Null)
        })
    }

    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) | Value::Unresolved => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}
