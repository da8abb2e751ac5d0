//! The header fields of a request that is described.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Header fields, as pairs or as an object.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Fields {
    List(Vec<(String, String)>),
    Map(BTreeMap<String, String>),
}

impl Default for Fields {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldsVisitor)
    }
}

/// A mistake has the place where it is, which no untagged enum can say.
struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and texts, or a list of pairs")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fields, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Fields::Map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Fields, A::Error> {
        let pairs = Vec::<Pair>::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(Fields::List(pairs.into_iter().map(|Pair(name, value)| (name, value)).collect()))
    }
}

/// The name and the value of a field.
struct Pair(String, String);

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PairVisitor)
    }
}

struct PairVisitor;

impl<'de> Visitor<'de> for PairVisitor {
    type Value = Pair;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of a name and a text")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pair, A::Error> {
        let lacking = |length| A::Error::invalid_length(length, &Self);
        let name = list.next_element()?.ok_or_else(|| lacking(0))?;
        let value = list.next_element()?.ok_or_else(|| lacking(1))?;
        match list.next_element::<IgnoredAny>()? {
            None => Ok(Pair(name, value)),
            Some(_) => Err(lacking(3)),
        }
    }
}
