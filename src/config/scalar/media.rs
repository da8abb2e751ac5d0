//! Media types: `application/json`, `text/*`. And the word `none`, which removes a default.

use std::str::FromStr;

use tollgate_core::scalar::ScalarError;

use super::text::{read_as_text, written_as_text};
use crate::message::MediaRange;

const ADVICE: &str = "like application/json or text/*";

/// A media type, or all types of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType(pub MediaRange);

written_as_text!(
    MediaType, text MEDIA_TYPE,
    "A media type, or all types of a kind with *",
    "application/json",
    "text/*"
);

impl FromStr for MediaType {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let invalid = || ScalarError::new(format!("\"{text}\" is not a media type"), ADVICE);
        let (kind, subtype) = text.split_once('/').ok_or_else(invalid)?;
        if !is_token(kind) || subtype != "*" && !is_token(subtype) {
            return Err(invalid());
        }
        let lower = |part: &str| part.to_ascii_lowercase().into();
        let subtype = (subtype != "*").then(|| lower(subtype));
        Ok(Self(MediaRange { kind: lower(kind), subtype }))
    }
}

/// The names of types and subtypes (RFC 6838, section 4.2).
fn is_token(part: &str) -> bool {
    let mut bytes = part.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
}

/// The word `none` instead of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDefault;

read_as_text!(NoDefault);

impl schemars::JsonSchema for NoDefault {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NoDefault".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let about = "It removes the section of `defaults`.";
        schemars::json_schema!({ "oneOf": [{ "const": "none", "description": about }] })
    }
}

impl FromStr for NoDefault {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        match text {
            "none" => Ok(Self),
            _ => {
                let message = format!("\"{text}\" is not valid here");
                Err(ScalarError::new(message, "write none, or a map like { min_size: 1KiB }"))
            }
        }
    }
}
