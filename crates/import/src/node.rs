//! YAML with the lines of its values. Only this file uses the parser.
//!
//! The parser has a budget of nodes, depth and aliases, so an alias cannot make a small file large.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{DuplicateKeyPolicy, NonFiniteFloatPolicy, Spanned};

use crate::files::{Files, Place, Source, Unreadable};

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it is.
    pub place: Place,
}

/// A value. Numbers and words are texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A text, a number, or true or false.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Fields in their order.
    Map(Vec<(String, Node)>),
}

/// What is returned for a field that is not there.
const NOTHING: Node = Node { value: Value::Null, place: Place { file: 0, line: 0 } };

impl Node {
    /// The value of a field, or nothing.
    pub fn get(&self, name: &str) -> &Self {
        self.fields().iter().find(|(own, _)| own == name).map_or(&NOTHING, |(_, node)| node)
    }

    /// The value at the end of these fields.
    pub fn at(&self, names: &[&str]) -> &Self {
        names.iter().fold(self, |node, name| node.get(name))
    }

    /// The fields, if it has some.
    pub fn fields(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(fields) => fields,
            _ => &[],
        }
    }

    /// The items, if it is a list.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a field, or an empty one.
    pub fn str(&self, name: &str) -> &str {
        self.get(name).text().unwrap_or_default()
    }

    /// The texts of a list, or of one text.
    pub fn texts(&self) -> Vec<&str> {
        match &self.value {
            Value::Text(text) => vec![text],
            _ => self.items().iter().filter_map(Self::text).collect(),
        }
    }

    /// The number of a field.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name).text()?.parse().ok()
    }

    /// Whether a field is true; `other` if it is not there.
    pub fn is(&self, name: &str, other: bool) -> bool {
        match self.str(name) {
            "true" => true,
            "false" => false,
            _ => other,
        }
    }

    /// Whether there is nothing.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }
}

/// The documents of a file.
///
/// # Errors
/// If it is no YAML, or too deep, or too large by its aliases.
pub fn documents(files: &Files, source: &Source) -> Result<Vec<Node>, Unreadable> {
    let options = serde_yaml::options! {
        strict_booleans: true,
        with_snippet: false,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        budget: serde_yaml::budget! {
            max_events: 16_000_000,
            max_nodes: 8_000_000,
            max_documents: 100_000,
            max_depth: 64,
        },
    };
    let parsed = serde_yaml::from_multiple_with_options::<Spanned<Untyped>>(&source.text, options);
    match parsed {
        Ok(documents) => Ok(documents.into_iter().map(|it| node(it, source.file)).collect()),
        Err(error) => {
            let line = error.location().and_then(|it| u32::try_from(it.line()).ok()).unwrap_or(0);
            let place = Place { file: source.file, line };
            Err(files
                .unreadable(place, "it is no YAML that can be read: too deep, too large, or wrong"))
        }
    }
}

fn node(tree: Spanned<Untyped>, file: u32) -> Node {
    let line = u32::try_from(tree.referenced.line()).unwrap_or(0);
    let value = match tree.value {
        Untyped::Null => Value::Null,
        Untyped::Text(text) => Value::Text(text),
        Untyped::List(items) => Value::List(items.into_iter().map(|it| node(it, file)).collect()),
        Untyped::Map(entries) => {
            // The last of equal names counts.
            let mut fields: Vec<(String, Node)> = Vec::with_capacity(entries.len());
            for (name, value) in entries {
                fields.push((name, node(value, file)));
            }
            Value::Map(fields)
        }
    };
    Node { value, place: Place { file, line } }
}

/// A value from the parser.
enum Untyped {
    Null,
    Text(String),
    List(Vec<Spanned<Untyped>>),
    Map(Vec<(String, Spanned<Untyped>)>),
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
        Ok(Untyped::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Untyped, E> {
        Ok(Untyped::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Untyped, E> {
        Ok(Untyped::Text(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Untyped, E> {
        Ok(Untyped::Text(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Untyped, E> {
        Ok(Untyped::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Untyped, E> {
        Ok(Untyped::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Untyped, E> {
        Ok(Untyped::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Untyped, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Untyped::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Untyped, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Untyped::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Node>, Unreadable> {
        let files = Files::of_text(text);
        documents(&files, &files.sources()[0])
    }

    #[test]
    fn documents_have_lines() {
        let all = read("a: 1\nb: [x, { c: yes }]\n---\nd: true\n").unwrap();
        assert_eq!(all.len(), 2);
        let [first, second] = &all[..] else { panic!("two documents") };
        assert_eq!(first.number("a"), Some(1));
        assert_eq!(first.get("b").items()[1].str("c"), "yes");
        assert_eq!((first.get("b").place.line, second.get("d").place.line), (2, 4));
        assert!(second.is("d", false) && second.is("e", true) && second.get("e").is_null());
    }

    #[test]
    fn evil_files_are_refused() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for at in 1..12 {
            let last = format!("*a{}", at - 1);
            bomb.push_str(&format!("a{at}: &a{at} [{}]\n", vec![last; 10].join(",")));
        }
        assert!(read(&bomb).is_err(), "aliases");
        assert!(read(&"[".repeat(10_000)).is_err(), "depth");
        let blocks: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert!(read(&blocks).is_err(), "depth of blocks");
        assert!(read("a: &x [*x]\n").is_err(), "an alias of itself");
        assert!(read("a: [").unwrap_err().at.contains("input"));
    }
}
