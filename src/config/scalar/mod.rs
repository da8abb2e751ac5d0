//! Values that are written as one text: limits, durations, sizes, addresses,
//! keys, names.
//!
//! Each is read by [`FromStr`](std::str::FromStr), so that the command line
//! takes the same forms as the file, with the same words for mistakes.

mod address;
mod document_url;
mod duration;
mod endpoint;
mod http_names;
mod key;
mod limit;
mod location;
mod number;
mod pattern;
mod percent;
mod place;
mod pointer;
mod rate;
mod retry;
mod size;
mod target;
mod telemetry;

use std::fmt;

pub(super) use address::Cidr;
pub use address::ListenAddress;
pub(super) use document_url::DocumentUrl;
pub(super) use duration::Period;
pub use endpoint::Endpoint;
pub(super) use http_names::{FieldName, FieldValue, MethodName};
pub use key::KeyWord;
pub use limit::KeyLimit;
pub(super) use limit::{Allowance, Limit};
pub(super) use location::{HostAndPort, LocationText, PrefixText};
pub(super) use pattern::{HostText, PathText};
pub(super) use percent::Percent;
pub(super) use place::PlaceCode;
pub(super) use pointer::PointerText;
pub use rate::Rate;
pub(super) use retry::RetryOn;
pub(super) use size::Size;
pub(super) use target::{ServerNameText, TargetText};
pub(super) use telemetry::{Level, Off, OutputPath, Workers};

/// Why a text is not what it should be: what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarError {
    message: String,
    /// Says nothing of the text itself, which may be a secret.
    advice: &'static str,
}

impl ScalarError {
    fn new(message: impl Into<String>, advice: &'static str) -> Self {
        Self { message: message.into(), advice }
    }

    /// What another module says of a text it refuses, in the quotes of reports.
    fn of(error: impl fmt::Display, advice: &'static str) -> Self {
        Self::new(error.to_string().replace('`', "\""), advice)
    }
}

impl fmt::Display for ScalarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.advice.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}; {}", self.message, self.advice)
    }
}

impl std::error::Error for ScalarError {}

/// Lets serde read a type by its `FromStr`.
macro_rules! read_as_text {
    ($type:ident) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(|error: $crate::config::scalar::ScalarError| {
                    serde::de::Error::custom(format_args!("{}\n{}", error.message, error.advice))
                })
            }
        }
    };
}
use read_as_text;

/// Lets serde read a type by its `FromStr`, and describes it in the schema.
macro_rules! written_as_text {
    ($type:ident, $about:literal, $($example:literal),+) => {
        $crate::config::scalar::read_as_text!($type);

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": ["string", "number"],
                    "description": $about,
                    "examples": [$($example),+],
                })
            }
        }
    };
}
use written_as_text;

#[cfg(test)]
mod tests;
