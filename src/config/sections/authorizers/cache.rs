//! `cache` of an authorizer: answers that are used for equal questions.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::time::Span;

use crate::config::field::{Field, List};
use crate::config::scalar::Period;
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};
use crate::message::{AnswerCacheSettings, AnswerPart};

/// A right that was withdrawn ends after this time at most.
const TIME: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(60);
const MAX: RangeInclusive<u64> = 1..=1_000_000;

const USUAL_TIME: Duration = Duration::from_secs(10);
const USUAL_MAX: usize = 10_000;

/// Answers that are used for equal questions: 2xx and 403, without Set-Cookie. A shorter max-age
/// and no-store in Cache-Control of the answer take precedence.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "cache", default)]
#[schemars(deny_unknown_fields)]
pub struct RawAnswerCache {
    /// How long an answer is used, up to 60s. A right that was withdrawn ends that much later.
    #[serde(rename = "for")]
    #[schemars(extend("default" = "10s"))]
    #[schemars(example = &"30s")]
    time: Field<Period>,
    /// The most answers that each worker keeps.
    #[schemars(extend("default" = 10000))]
    #[schemars(example = 1000)]
    #[schemars(range(min = *MAX.start(), max = *MAX.end()))]
    max: Field<u64>,
    /// The parts of a request, besides the fields in `send`, on which the answer depends.
    #[schemars(extend("x-default" = "method, host and target"))]
    #[schemars(example = ["host"])]
    by: List<Word<AnswerPart>>,
}

words! {
    /// A part of a request on which an answer depends.
    AnswerPart as "part of a request" {
        /// The method.
        "method" => AnswerPart::Method,
        /// The host.
        "host" => AnswerPart::Host,
        /// The path and the query.
        "target" => AnswerPart::Target,
    }
}

impl RawAnswerCache {
    pub fn compile(&self, cx: &Context<'_>) -> AnswerCacheSettings {
        let all = vec![AnswerPart::Method, AnswerPart::Host, AnswerPart::Target];
        let listed = || self.by.items().map(|part| part.value.0).collect();
        AnswerCacheSettings {
            time: cx.duration(&self.time, "for", TIME).map_or(USUAL_TIME, Duration::from),
            max: cx.number(&self.max, "max", MAX).unwrap_or(USUAL_MAX),
            by: if self.by.is_absent() { all } else { listed() },
        }
    }
}
