//! How serde reads a value that is written as one text.

/// Lets serde read a type by its `FromStr`.
macro_rules! read_as_text {
    ($type:ident) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(|error: tollgate_core::scalar::ScalarError| {
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
    ($type:ident, { $($name:literal: $value:expr),+ }, $about:expr, $($example:literal),+) => {
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
