//! Bodies of calls in JSON (RFC 8259).
//!
//! Guarantee: a body that is read has one reading. A member that occurs twice is a mistake in
//! every object, also where any name is allowed: readers differ in which of the two they take.

mod pointer;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use pointer::length_until;
#[cfg(any(test, feature = "fuzzing"))]
pub use pointer::pointer_at;
#[cfg(not(any(test, feature = "fuzzing")))]
use pointer::pointer_at;

/// What is wrong with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The place (RFC 6901).
    pub pointer: String,
    /// What is wrong there.
    pub detail: String,
}

/// Reads a body, which is an object.
///
/// # Errors
/// If it is not JSON of this form, or a member occurs twice.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Mistake> {
    let read = || -> serde_json::Result<T> {
        let Object(inner) = serde_json::from_slice(body)?;
        let Unique = serde_json::from_slice(body)?;
        Ok(inner)
    };
    read().map_err(|error| {
        let pointer = pointer_at(body, length_until(&error, body));
        // The text ends with the place, which the pointer says better.
        let text = error.to_string();
        let detail = text.rsplit_once(" at line ").map_or(&*text, |(detail, _)| detail);
        Mistake { pointer, detail: detail.to_owned() }
    })
}

/// An object. Without this, a list of values in the order of the fields would do as well.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

/// An object, or `null`.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(from)?.map(|Object(inner)| inner))
}

/// A list of objects, or `null`.
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Option::<Objects<{ usize::MAX }, T>>::deserialize(from)?.map(|Objects(list)| list))
}

/// The first elements of a list of objects: at most `MAX`, and one more if there is one. So the
/// reader sees that there are too many, and the others take no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects<const MAX: usize, T>(pub Vec<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Deserialize<'de> for Objects<MAX, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let First(list) = First::<MAX, Object<T>>::deserialize(deserializer)?;
        Ok(Self(list.into_iter().map(|Object(inner)| inner).collect()))
    }
}

/// The same of a list of any values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct First<const MAX: usize, T>(pub Vec<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Deserialize<'de> for First<MAX, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfList<const MAX: usize, T>(PhantomData<T>);

        impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for OfList<MAX, T> {
            type Value = First<MAX, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while list.len() <= MAX {
                    match from.next_element()? {
                        Some(element) => list.push(element),
                        None => return Ok(First(list)),
                    }
                }
                while from.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(list))
            }
        }

        deserializer.deserialize_seq(OfList(PhantomData))
    }
}

/// Any value in whose objects no member occurs twice.
struct Unique;

/// The name of a member.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'n>(#[serde(borrow)] Cow<'n, str>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfAny;

        impl<'de> Visitor<'de> for OfAny {
            type Value = Unique;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut names = BTreeSet::new();
                while let Some(name) = map.next_key::<Name<'de>>()? {
                    if names.contains(&name) {
                        return Err(A::Error::custom(format!("duplicate field `{}`", name.0)));
                    }
                    names.insert(name);
                    map.next_value::<Unique>()?;
                }
                Ok(Unique)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unique, A::Error> {
                while list.next_element::<Unique>()?.is_some() {}
                Ok(Unique)
            }

            fn visit_unit<E>(self) -> Result<Unique, E> {
                Ok(Unique)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
                Ok(Unique)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
                Ok(Unique)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
                Ok(Unique)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
                Ok(Unique)
            }

            fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
                Ok(Unique)
            }
        }

        deserializer.deserialize_any(OfAny)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Map, Value};

    use super::*;

    #[test]
    fn no_member_occurs_twice() {
        for (body, pointer) in [
            (r#"{"a": 1, "a": 1}"#, "/a"),
            (r#"{"a": 1, "b": null, "\u0061": 2}"#, "/a"),
            (r#"{"a": {"b": [1, {"c": 1, "c": 2}]}}"#, "/a/b/1/c"),
            (r#"{"a": [[], {}, true, -1, 1.5, "x", {"": 1, "": 1}]}"#, "/a/6/"),
        ] {
            let mistake = read::<Map<String, Value>>(body.as_bytes()).expect_err(body);
            assert_eq!(mistake.pointer, pointer, "{body}");
            assert!(mistake.detail.starts_with("duplicate field"), "{mistake:?}");
        }
        for body in [r#"{}"#, r#"{"a": {"a": [{"a": 1}, {"a": "\u0061"}]}, "A": 1}"#] {
            let value: Value = serde_json::from_str(body).expect("it is JSON");
            assert_eq!(read::<Value>(body.as_bytes()), Ok(value));
        }
        let mistake = read::<BTreeMap<String, u8>>(b"[]").expect_err("it is no object");
        assert_eq!((&*mistake.pointer, mistake.detail.contains("an object")), ("", true));
    }
}
