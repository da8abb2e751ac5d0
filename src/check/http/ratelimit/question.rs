//! A `RateLimitRequest` as JSON (the ProtoJSON format of Protocol Buffers). Pure.
//!
//! Fields have their names in both spellings, `hits_addend` and `hitsAddend`. Unknown fields are
//! mistakes, as they are for envoyproxy/ratelimit. `null` counts as absent.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::check::grpc::ratelimit::{
    Entry, MAX_DESCRIPTORS, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
};
use crate::check::http::api::{self, Problem};
use crate::check::rls::Unit;
use crate::message::json::{Objects, object, objects};

/// Reads a body.
///
/// # Errors
/// If it is no message of this type. The problem points to the place.
pub fn read(body: &[u8]) -> Result<RateLimitRequest, Problem> {
    api::read::<JsonRequest>(body).map(Into::into)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct JsonRequest {
    domain: Option<String>,
    descriptors: Option<Objects<MAX_DESCRIPTORS, JsonDescriptor>>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct JsonDescriptor {
    #[serde(deserialize_with = "objects")]
    entries: Option<Vec<JsonEntry>>,
    #[serde(deserialize_with = "object")]
    limit: Option<JsonLimit>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number<u64>>,
    #[serde(alias = "isNegativeHits")]
    is_negative_hits: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct JsonEntry {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct JsonLimit {
    #[serde(alias = "requestsPerUnit")]
    requests_per_unit: Option<Number<u32>>,
    unit: Option<UnitNumber>,
}

impl From<JsonRequest> for RateLimitRequest {
    fn from(it: JsonRequest) -> Self {
        let descriptors = it.descriptors.map(|Objects(list)| list).unwrap_or_default();
        Self {
            domain: it.domain.unwrap_or_default(),
            descriptors: descriptors.into_iter().map(Into::into).collect(),
            hits_addend: it.hits_addend.map_or(0, |it| it.0),
        }
    }
}

impl From<JsonDescriptor> for RateLimitDescriptor {
    fn from(it: JsonDescriptor) -> Self {
        let entry = |JsonEntry { key, value }| Entry {
            key: key.unwrap_or_default(),
            value: value.unwrap_or_default(),
        };
        let limit = |it: JsonLimit| RateLimitOverride {
            requests_per_unit: it.requests_per_unit.map_or(0, |it| it.0),
            unit: it.unit.map_or(0, |it| it.0),
        };
        Self {
            entries: it.entries.unwrap_or_default().into_iter().map(entry).collect(),
            limit: it.limit.map(limit),
            hits_addend: it.hits_addend.map(|it| it.0),
            is_negative_hits: it.is_negative_hits.unwrap_or(false),
        }
    }
}

/// A whole number: a number of JSON, also `1.0` or `1e2`, or a text that contains one.
#[derive(Clone, Copy, Debug)]
struct Number<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfNumber(PhantomData)).map(Self)
    }
}

struct OfNumber<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for OfNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number in the range of the field")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let unexpected = Unexpected::Unsigned(number);
        T::try_from(number).map_err(|_| E::invalid_value(unexpected, &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        match whole(number) {
            Some(number) => self.visit_u64(number),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        // The forms are those of a number of JSON, which has neither spaces nor a plus.
        let number: Option<serde_json::Number> = match text.trim() == text {
            true => serde_json::from_str(text).ok(),
            false => None,
        };
        match number.and_then(|it| it.as_u64().or_else(|| whole(it.as_f64()?))) {
            Some(number) => self.visit_u64(number),
            None => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

/// A number that has no fraction. Above 2^53 the form with a point is not exact, and none.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && (0.0..=EXACT).contains(&number);
    // `-0` is 0.
    is_whole.then(|| format!("{:.0}", number.abs()).parse().ok()).flatten()
}

/// The number of a unit: its name in capitals, or a number.
#[derive(Clone, Copy, Debug)]
struct UnitNumber(i32);

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfUnit).map(Self)
    }
}

struct OfUnit;

impl Visitor<'_> for OfUnit {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a unit like MINUTE")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i32, E> {
        let is_capital = !text.bytes().any(|it| it.is_ascii_lowercase());
        match Unit::of_name(text).filter(|_| is_capital) {
            Some(unit) => Ok(unit.number()),
            None if text == "UNKNOWN" => Ok(0),
            None => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i32, E> {
        let unit = i32::try_from(number);
        unit.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i32, E> {
        let unit = i32::try_from(number);
        unit.map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(text: &str) -> Result<u32, String> {
        let body = format!(r#"{{"hits_addend": {text}}}"#);
        read(body.as_bytes()).map(|it| it.hits_addend).map_err(|it| it.pointer.unwrap_or_default())
    }

    #[test]
    fn a_question_is_read_in_both_spellings() {
        let snake = r#"{"domain": "d", "hits_addend": 2, "descriptors": [
            {"entries": [{"key": "k", "value": "v"}, {"key": "l"}], "hits_addend": "0",
             "limit": {"requests_per_unit": 3, "unit": "WEEK"}, "is_negative_hits": true},
            {}]}"#;
        let camel = snake.replace("hits_a", "hitsA").replace("requests_per_u", "requestsPerU");
        let camel = camel.replace("is_negative_h", "isNegativeH");
        assert_ne!(snake, camel);
        let entry = |key: &str, value: &str| Entry { key: key.into(), value: value.into() };
        let descriptor = RateLimitDescriptor {
            entries: vec![entry("k", "v"), entry("l", "")],
            limit: Some(RateLimitOverride { requests_per_unit: 3, unit: 7 }),
            hits_addend: Some(0),
            is_negative_hits: true,
        };
        let expected = RateLimitRequest {
            domain: "d".into(),
            descriptors: vec![descriptor, RateLimitDescriptor::default()],
            hits_addend: 2,
        };
        assert_eq!(read(snake.as_bytes()), Ok(expected.clone()));
        assert_eq!(read(camel.as_bytes()), Ok(expected));
        let nothing = br#"{"domain": null, "descriptors": null, "hits_addend": null}"#;
        assert_eq!(read(nothing), Ok(RateLimitRequest::default()));
    }

    /// All of them were once read before their number was checked.
    #[test]
    fn of_too_many_descriptors_a_part_is_read() {
        let body = format!(r#"{{"descriptors": [{}]}}"#, vec!["{}"; 50_000].join(","));
        let question = read(body.as_bytes()).expect("it is one");
        assert_eq!(question.descriptors.len(), MAX_DESCRIPTORS + 1);
    }

    #[test]
    fn whole_numbers_have_many_forms() {
        for (text, expected) in [("7", 7), ("\"7\"", 7), ("1e2", 100), ("7.0", 7), ("\"1e1\"", 10)]
        {
            assert_eq!(hits(text), Ok(expected), "{text}");
        }
        assert_eq!(hits("4294967295"), Ok(u32::MAX));
        let wrong =
            ["-1", "1.5", "4294967296", "\"x\"", "\"\"", "\" 1\"", "\"+1\"", "true", "[]", "1e30"];
        for text in wrong {
            assert_eq!(hits(text), Err("/hits_addend".to_owned()), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_reported_with_its_place() {
        for (body, pointer) in [
            ("[]", ""),
            (r#"{"domian": "d"}"#, "/domian"),
            (r#"{"domain": 5}"#, "/domain"),
            (r#"{"hits_addend": 1, "hitsAddend": 2}"#, "/hitsAddend"),
            (r#"{"descriptors": {}}"#, "/descriptors"),
            (r#"{"descriptors": [[]]}"#, "/descriptors/0"),
            (r#"{"descriptors": [null]}"#, "/descriptors/0"),
            (r#"{"descriptors": [{"limit": {"unit": "day"}}]}"#, "/descriptors/0/limit/unit"),
            (r#"{"descriptors": [{"is_negative_hits": 1}]}"#, "/descriptors/0/is_negative_hits"),
            (
                r#"{"descriptors": [{"entries": [{"key": "k", "val": ""}]}]}"#,
                "/descriptors/0/entries/0/val",
            ),
        ] {
            let problem = read(body.as_bytes()).expect_err(body);
            assert_eq!(problem.pointer.as_deref(), Some(pointer), "{body}");
        }
    }
}
