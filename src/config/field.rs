//! The parts of the types that mirror sections: values with their positions in the file.
//!
//! Reading a field never fails. The deserializer records the mistake, and the field becomes
//! [`Field::Broken`], so that all other mistakes of the file are found too.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use tollgate_core::policy::spec::Written;

use super::node::TextSpan;
use super::words::Word;

/// With this name, a [`Field`] asks the deserializer for the value, the position and the original
/// text.
pub const FIELD: &str = "$field";
/// With this name, an [`Either`] asks the deserializer for its variant.
pub const EITHER: &str = "$either";

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    pub value: T,
    pub span: TextSpan,
    /// The original text, if a `${...}` was replaced in it.
    pub written: Option<String>,
}

impl Spanned<String> {
    /// The text in a form that messages may show: with `${...}`, never with its value.
    pub fn shown(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.value)
    }
}

impl<T> Spanned<T> {
    /// Another value that is written in the same place.
    pub fn with<U>(&self, value: U) -> Spanned<U> {
        Spanned { value, span: self.span, written: self.written.clone() }
    }

    /// The form that messages may show, if `text` is the value.
    pub fn shown_as(&self, text: impl fmt::Display) -> String {
        self.written.clone().unwrap_or_else(|| text.to_string())
    }
}

/// A field of the file.
#[derive(Clone, Debug, Default)]
pub enum Field<T> {
    /// The field is not in the file.
    #[default]
    Absent,
    /// The field has a mistake, which is already reported.
    Broken,
    /// The field has this value.
    Given(Spanned<T>),
}

impl<T> Field<T> {
    /// The value and its position, if it is given and not broken.
    pub fn given(&self) -> Option<&Spanned<T>> {
        match self {
            Self::Given(spanned) => Some(spanned),
            Self::Absent | Self::Broken => None,
        }
    }

    /// The value, if it is given and not broken.
    pub fn value(&self) -> Option<&T> {
        self.given().map(|spanned| &spanned.value)
    }

    /// Whether it has a mistake.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Broken)
    }

    /// Whether it is not in the file.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<T> Field<T> {
    /// The field of a specification, whose value `read` makes of this one.
    pub fn written<U>(&self, read: impl FnOnce(&T) -> U) -> Written<U> {
        self.read(|given| Some(read(&given.value)))
    }

    /// The field of a specification. It cannot be read if `read` returns None.
    pub fn read<U>(&self, read: impl FnOnce(&Spanned<T>) -> Option<U>) -> Written<U> {
        match self {
            Self::Absent => Written::Absent,
            Self::Broken => Written::Unreadable,
            Self::Given(given) => read(given).map_or(Written::Unreadable, Written::Given),
        }
    }

    /// Where it is written, if it is given and not broken.
    pub fn span(&self) -> Option<TextSpan> {
        self.given().map(|given| given.span)
    }
}

impl<T: Copy> Field<T> {
    /// A copy of the value, if it is given and not broken.
    pub fn copied(&self) -> Option<T> {
        self.value().copied()
    }
}

impl<T: Copy> Field<Word<T>> {
    /// The value of the word, if it is given and not broken.
    pub fn word(&self) -> Option<T> {
        self.value().map(|Word(value)| *value)
    }
}

impl<T> Field<Entries<T>> {
    /// The named values. Empty if there is no map.
    pub fn entries(&self) -> &[(Spanned<String>, Field<T>)] {
        self.value().map_or(&[], |entries| &entries.0)
    }
}

impl<T> List<T> {
    /// The items of a list that are not broken. Empty if there is no list.
    pub fn items(&self) -> impl Iterator<Item = &Spanned<T>> {
        self.value().into_iter().flatten().filter_map(Field::given)
    }
}

impl<T> OneOrMore<T> {
    /// The items of a list that are not broken, or the single value.
    pub fn one_or_more(&self) -> impl Iterator<Item = &T> {
        let (one, more) = match self.value() {
            Some(Either::Short(one)) => (Some(one), None),
            Some(Either::Long(more)) => (None, Some(more)),
            None => (None, None),
        };
        one.into_iter().chain(more.into_iter().flatten().filter_map(Field::value))
    }
}

/// A list in which each item may be broken independently of the others.
pub type List<T> = Field<Vec<Field<T>>>;

/// A single value, or a list of them.
pub type OneOrMore<T> = Field<Either<T, Vec<Field<T>>>>;

/// Named values in the order of the file.
#[derive(Clone, Debug)]
pub struct Entries<T>(pub Vec<(Spanned<String>, Field<T>)>);

/// A short form, which is a scalar, or a long form, which is not.
#[derive(Clone, Debug, serde::Deserialize, JsonSchema)]
#[serde(rename = "$either")]
#[schemars(untagged, inline)]
pub enum Either<S, L> {
    Short(S),
    Long(L),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    /// It is read as an option, because serde gives a missing field to options only.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(FieldVisitor(PhantomData))
    }
}

struct FieldVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FieldVisitor<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Field::Absent)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_newtype_struct(FIELD, self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let Some(value) = parts.next_element()? else { return Ok(Field::Broken) };
        let [line, column, length] = parts.next_element()?.unwrap_or_default();
        let written = parts.next_element()?;
        Ok(Field::Given(Spanned { value, span: TextSpan { line, column, length }, written }))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Field<String>, Field<T>>()? {
            if let Field::Given(key) = key {
                entries.push((key, value));
            }
        }
        Ok(Entries(entries))
    }
}

impl<T: JsonSchema> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("map of {}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<T>();
        schemars::json_schema!({ "type": "object", "additionalProperties": values })
    }
}
