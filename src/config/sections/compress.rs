//! `compress` of a route and of `defaults`: which responses are compressed.

use std::ops::RangeInclusive;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::context::Context;
use crate::config::field::{Either, Field, List};
use crate::config::scalar::{MediaType, NoDefault, Size};
use crate::config::words::{Word, words};
use crate::message::{CompressSettings, Encoding};

const MIN_SIZE: RangeInclusive<u64> = 0..=1024 * 1024 * 1024;
const TYPES: [&str; 6] = [
    "text/*",
    "application/json",
    "application/problem+json",
    "application/javascript",
    "application/xml",
    "image/svg+xml",
];

words! {
    /// An encoding of responses.
    Encoding as "encoding" {
        /// RFC 1952, which all browsers and most programs read.
        "gzip" => Encoding::Gzip,
        /// RFC 8878, which takes less time. Browsers read it over HTTPS.
        "zstd" => Encoding::Zstd,
    }
}

/// Which responses are compressed, for clients that accept it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "compress", default)]
#[schemars(deny_unknown_fields)]
pub struct RawCompress {
    /// The encodings, the best one first. The preference of the client comes before it.
    #[schemars(extend("x-default" = "gzip"))]
    #[schemars(example = ["zstd", "gzip"])]
    encodings: List<Word<Encoding>>,
    /// The smallest response that is compressed. A response whose length is not known at its
    /// beginning is compressed, too.
    #[schemars(extend("default" = "1KiB"))]
    #[schemars(example = &"4KiB")]
    min_size: Field<Size>,
    /// The media types of the responses.
    #[schemars(extend("x-default" = "text/*, application/json, application/problem+json, \
        application/javascript, application/xml and image/svg+xml"))]
    #[schemars(example = ["text/*", "application/json"])]
    types: List<MediaType>,
}

/// The section in a route: none removes that of `defaults`.
pub type RouteCompress = Field<Either<NoDefault, RawCompress>>;

impl RawCompress {
    pub fn compile(&self, cx: &Context<'_>) -> Arc<CompressSettings> {
        let advice = "leave the list out, or leave \"compress\" out";
        let message = "the list is empty, so no response is compressed";
        cx.not_empty(&self.encodings, message, advice);
        cx.not_empty(&self.types, message, advice);
        let encodings = match self.encodings.is_absent() {
            true => vec![Encoding::Gzip],
            false => self.encodings.items().map(|encoding| encoding.value.0).collect(),
        };
        let types = match self.types.is_absent() {
            true => {
                TYPES.into_iter().filter_map(|it| Some(it.parse::<MediaType>().ok()?.0)).collect()
            }
            false => self.types.items().map(|it| it.value.0.clone()).collect(),
        };
        let min_size = self.min_size.given();
        let min_size =
            min_size.and_then(|given| cx.within(given.value.0, given.span, "min_size", MIN_SIZE));
        Arc::new(CompressSettings { encodings, min_size: min_size.unwrap_or(1024), types })
    }
}

/// What holds for a route: its own section, or that of `defaults`.
pub fn of_route(
    own: &RouteCompress,
    default: Option<&Arc<CompressSettings>>,
    cx: &Context<'_>,
) -> Option<Arc<CompressSettings>> {
    match own.value() {
        Some(Either::Short(NoDefault)) => None,
        Some(Either::Long(raw)) => Some(raw.compile(cx)),
        None => default.cloned(),
    }
}
