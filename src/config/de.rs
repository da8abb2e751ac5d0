//! Reads [`Node`]s into the types of sections with serde, and records all mistakes.
//!
//! serde stops at the first error. Here, an error stops only the [`Field`] that contains it. The
//! field becomes broken, and reading continues after it. Unknown fields are recorded without
//! stopping anything.
//!
//! [`Field`]: super::field::Field

use std::fmt;

use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::field::{EITHER, FIELD};
use super::neighbours;
use super::node::{Entry, Node, Value};
use super::problem::Problems;
use super::suggest;

/// Reads a `T` from `node`. None with a recorded mistake if `node` is not a `T`.
pub fn read<'de, T: Deserialize<'de>>(node: &'de Node, problems: &'de Problems) -> Option<T> {
    let reader = Reader { node, problems };
    T::deserialize(reader).map_err(|mistake| reader.record(mistake)).ok()
}

/// Why a value is refused: what is wrong, and what would be right. A message that passes through
/// serde contains both, separated by a newline.
#[derive(Debug)]
pub struct Mistake {
    message: String,
    advice: String,
    /// Whether the message may quote the value.
    quotes_value: bool,
}

impl Mistake {
    fn new(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { message: message.into(), advice: advice.into(), quotes_value: true }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl de::Error for Mistake {
    fn custom<T: fmt::Display>(text: T) -> Self {
        let text = text.to_string();
        let (message, advice) = text.split_once('\n').unwrap_or((&text, ""));
        Self::new(message, advice)
    }
}

/// Reads one node.
#[derive(Clone, Copy)]
struct Reader<'de> {
    node: &'de Node,
    problems: &'de Problems,
}

impl<'de> Reader<'de> {
    fn at(self, node: &'de Node) -> Self {
        Self { node, ..self }
    }

    /// Messages quote the value that they refuse. If the value may be secret, the message shows
    /// only how it was written. The advice is general and does not change.
    fn record(self, mistake: Mistake) {
        let may_quote = mistake.quotes_value || self.node.written().is_some();
        let message = match self.node.shown() {
            Some(shown) if may_quote => format!("the value of {shown:?} is not valid here"),
            _ => mistake.message,
        };
        self.problems.error(self.node.span, &message, &mistake.advice);
    }

    fn scalar(self) -> Result<&'de str, Mistake> {
        let of_neighbour = || match &self.node.value {
            // For example the map of Kong, { minute: 100 }.
            Value::Map(entries) => entries.first().and_then(|it| neighbours::policy(it.name())),
            _ => None,
        };
        let advice = match self.node.is_text_in_braces() {
            true => "put the text in quotes",
            false => of_neighbour().unwrap_or_default(),
        };
        self.node.scalar().ok_or_else(|| self.expected("a single value", advice))
    }

    fn expected(self, what: &str, advice: &str) -> Mistake {
        let message = format!("expected {what}, found {}", self.node.kind());
        Mistake { quotes_value: false, ..Mistake::new(message, advice) }
    }

    fn entries(self, what: &str, advice: &str) -> Result<&'de [Entry], Mistake> {
        match &self.node.value {
            Value::Map(entries) => Ok(entries),
            _ => Err(self.expected(what, advice)),
        }
    }

    fn list(self) -> Result<&'de [Node], Mistake> {
        match &self.node.value {
            Value::List(items) => Ok(items),
            Value::Map(_) => Err(self.expected("a list", "begin each item with \"- \"")),
            _ => Err(self.expected("a list", "put it in brackets: [...]")),
        }
    }

    fn unknown_field(self, section: &str, fields: &[&'static str], entry: &Entry) {
        let message = format!("\"{}\" is not a field of \"{section}\"", entry.shown_name());
        let fields = fields.iter().copied();
        let advice = match neighbours::field(section, entry.name()) {
            Some(advice) => advice.to_owned(),
            None => suggest::advice(&entry.shown_name(), fields, "its fields are", self.problems),
        };
        self.problems.error(entry.key.span, &message, &advice);
    }

    fn unknown_variant(self, name: &str, variants: &[&'static str]) -> Mistake {
        let written = match &self.node.value {
            Value::Map(entries) => entries.first().map_or("", Entry::name),
            _ => self.node.scalar().unwrap_or_default(),
        };
        if self.node.scalar().is_none() {
            return self.expected("a single word", &format!("one of: {}", variants.join(", ")));
        }
        // A suggestion for a secret value would reveal a part of it.
        let advice = if self.node.shown().is_some() {
            format!("one of: {}", variants.join(", "))
        } else {
            suggest::advice(written, variants.iter().copied(), "one of", self.problems)
        };
        Mistake::new(format!("\"{written}\" is not a valid {name}"), advice)
    }
}

impl<'de> de::Deserializer<'de> for Reader<'de> {
    type Error = Mistake;

    /// All types of sections request their own kind of value, so this is called for texts only.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_borrowed_str(self.scalar()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match (self.node.scalar(), &self.node.value) {
            (_, Value::Bool(value)) => visitor.visit_bool(*value),
            // Values from the environment are always texts.
            (Some("true"), _) if self.node.written().is_some() => visitor.visit_bool(true),
            (Some("false"), _) if self.node.written().is_some() => visitor.visit_bool(false),
            _ => Err(self.expected("true or false", "write true or false, without quotes")),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let text = self.scalar()?;
        let digits: String = text.chars().filter(|c| *c != '_').collect();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let advice = "write digits only, like 10000 or 10_000";
            return Err(Mistake::new(format!("\"{text}\" is not a whole number"), advice));
        }
        match digits.parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => Err(Mistake::new(format!("the number {text} is too large"), "")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match name {
            FIELD => visitor.visit_seq(FieldParts { reader: self, part: 0 }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_seq(Items { reader: self, rest: self.list()?.iter() })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let rest = self.entries("a map", "write NAME: and its value")?.iter();
        visitor.visit_map(Fields { reader: self, rest, known: None, value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let advice = format!("its fields are: {}", fields.join(", "));
        let entries = self.entries(&format!("the map \"{name}\""), &advice)?;
        for entry in entries.iter().filter(|entry| !fields.contains(&entry.name())) {
            self.unknown_field(name, fields, entry);
        }
        let rest = entries.iter();
        visitor.visit_map(Fields { reader: self, rest, known: Some(fields), value: None })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        if name == EITHER {
            let short = self.node.scalar().is_some();
            return visitor
                .visit_enum(Variant { reader: self, name: variants[usize::from(!short)] });
        }
        let known = variants.iter().find(|variant| Some(**variant) == self.node.scalar());
        let name = known.ok_or_else(|| self.unknown_variant(name, variants))?;
        visitor.visit_enum(Variant { reader: self, name })
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// A field in three parts: its value if it is not broken, its position, and how it was written.
struct FieldParts<'de> {
    reader: Reader<'de>,
    part: u8,
}

impl<'de> SeqAccess<'de> for FieldParts<'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Mistake> {
        let Reader { node, problems } = self.reader;
        self.part += 1;
        match (self.part, &node.value) {
            (1, Value::Unresolved) => Ok(None),
            (1, Value::Null) => {
                problems.error(
                    node.span,
                    "there is no value here",
                    "write one, or leave the field out",
                );
                Ok(None)
            }
            (1, _) => match seed.deserialize(self.reader) {
                Ok(value) => Ok(Some(value)),
                Err(mistake) => {
                    self.reader.record(mistake);
                    Ok(None)
                }
            },
            (2, _) => {
                let place = [node.span.line, node.span.column, node.span.length];
                seed.deserialize(SeqDeserializer::new(place.into_iter())).map(Some)
            }
            _ => node.shown().map(|text| seed.deserialize(text.into_deserializer())).transpose(),
        }
    }
}

struct Items<'de> {
    reader: Reader<'de>,
    rest: std::slice::Iter<'de, Node>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Mistake> {
        self.rest.next().map(|node| seed.deserialize(self.reader.at(node))).transpose()
    }
}

/// The entries of a map. For a struct, only the entries that are fields of it.
struct Fields<'de> {
    reader: Reader<'de>,
    rest: std::slice::Iter<'de, Entry>,
    known: Option<&'static [&'static str]>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mistake> {
        let known = self.known;
        let mut wanted = self
            .rest
            .by_ref()
            .filter(|entry| known.is_none_or(|names| names.contains(&entry.name())));
        let Some(entry) = wanted.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        seed.deserialize(self.reader.at(&entry.key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let node = self.value.take().expect("serde asks for a value after its key");
        seed.deserialize(self.reader.at(node))
    }
}

struct Variant<'de> {
    reader: Reader<'de>,
    name: &'static str,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let name: StrDeserializer<'_, Mistake> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        de::Deserializer::deserialize_seq(self.reader, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        de::Deserializer::deserialize_struct(self.reader, self.name, fields, visitor)
    }
}
