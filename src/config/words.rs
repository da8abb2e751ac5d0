//! Words of the file that stand for a value of another module, such as `round_robin`.
//!
//! The modules below depend neither on serde nor on the schema. One table for each of their types
//! gives the words with their meanings. The way in which a word is read, the message for a mistake,
//! and the schema follow from the table.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, EnumAccess, Visitor};

/// A type with a fixed set of values, each of which has a word in the file.
///
/// The macro [`words`] implements it.
pub trait Words: Copy + 'static {
    /// What messages and the schema call such a word.
    const NAME: &'static str;
    /// The words, in the order in which messages list them.
    const WORDS: &'static [&'static str];
    /// The value of each word, in the same order.
    const VALUES: &'static [Self];
    /// What the schema says of the type.
    const DESCRIPTION: &'static str;
    /// What the schema says of each word, in the same order.
    const DESCRIPTIONS: &'static [&'static str];
}

/// A value that is written as one of its [`Words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<T>(pub T);

impl<'de, T: Words> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum(T::NAME, T::WORDS, WordVisitor(PhantomData))
    }
}

struct WordVisitor<T>(PhantomData<T>);

impl<'de, T: Words> Visitor<'de> for WordVisitor<T> {
    type Value = Word<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, word: A) -> Result<Self::Value, A::Error> {
        let (word, _) = word.variant::<String>()?;
        let index = T::WORDS.iter().position(|known| *known == word);
        index
            .map(|index| Word(T::VALUES[index]))
            .ok_or_else(|| serde::de::Error::unknown_variant(&word, T::WORDS))
    }
}

impl<T: Words> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    /// Two types with the same name have two schemas.
    fn schema_id() -> Cow<'static, str> {
        type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = T::WORDS.iter().zip(T::DESCRIPTIONS).map(|(word, description)| {
            json_schema!({ "type": "string", "const": word, "description": description.trim() })
        });
        let words: Vec<Schema> = words.collect();
        json_schema!({ "description": T::DESCRIPTION.trim(), "oneOf": words })
    }
}

/// Gives the values of a type their words.
macro_rules! words {
    (
        $(#[doc = $description:literal])+
        $type:ty as $name:literal {
            $($(#[doc = $meaning:literal])+ $word:literal => $value:expr,)+
        }
    ) => {
        impl $crate::config::words::Words for $type {
            const NAME: &'static str = $name;
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$($value),+];
            const DESCRIPTION: &'static str = concat!($($description),+);
            const DESCRIPTIONS: &'static [&'static str] = &[$(concat!($($meaning),+)),+];
        }
    };
}
pub(crate) use words;
