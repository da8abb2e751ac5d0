//! How serde reads a value that is written as one text, and the error for a mistake in it.

use std::fmt;

/// Why a text is not what it should be: what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarError {
    /// What is wrong.
    pub message: String,
    /// It does not contain the text itself, which may be secret.
    pub advice: &'static str,
}

impl ScalarError {
    /// An error with this message and advice.
    pub fn new(message: impl Into<String>, advice: &'static str) -> Self {
        Self { message: message.into(), advice }
    }

    /// The error of another module, with the quotes of reports.
    pub fn of(error: impl fmt::Display, advice: &'static str) -> Self {
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
                text.parse().map_err(|error: $crate::config::scalar::text::ScalarError| {
                    serde::de::Error::custom(format_args!("{}\n{}", error.message, error.advice))
                })
            }
        }
    };
}
pub(crate) use read_as_text;

/// Lets serde read a type by its `FromStr`, and describes it in the schema. With a form, an editor
/// finds texts of another one. A type whose form comes first as `text` is never a number alone.
macro_rules! written_as_text {
    ($type:ident, text $form:ident, $about:literal, $($example:literal),+) => {
        $crate::config::scalar::text::described_as_text!(
            $type,
            { "type": "string", "pattern": $crate::config::scalar::form::pattern($crate::config::scalar::form::$form) },
            $about,
            $($example),+
        );
    };
    ($type:ident, form $form:ident, $about:literal, $($example:literal),+) => {
        $crate::config::scalar::text::described_as_text!(
            $type,
            { "type": ["string", "number"], "pattern": $crate::config::scalar::form::pattern($crate::config::scalar::form::$form) },
            $about,
            $($example),+
        );
    };
    ($type:ident, $about:literal, $($example:literal),+) => {
        $crate::config::scalar::text::described_as_text!(
            $type,
            { "type": ["string", "number"] },
            $about,
            $($example),+
        );
    };
}
pub(crate) use written_as_text;

/// Lets serde read a type by its `FromStr`, and describes it with these members in the schema.
macro_rules! described_as_text {
    ($type:ident, { $($name:literal: $value:expr),+ }, $about:literal, $($example:literal),+) => {
        $crate::config::scalar::text::read_as_text!($type);

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    $($name: $value,)+
                    "description": $about,
                    "examples": [$($example),+],
                })
            }
        }
    };
}
pub(crate) use described_as_text;
