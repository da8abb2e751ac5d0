//! `penalty` of a policy: bans for clients that are refused too often.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::spec::{self, LimitSpec, PenaltySpec};

use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::scalar::{Period, Rate};

/// Bans for clients that are refused too often.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "penalty", default)]
#[schemars(deny_unknown_fields, extend("required" = ["after", "ban"]))]
pub struct RawPenalty {
    /// The refusals that lead to a ban: with 3/10s, about the third one within ten seconds. They are
    /// counted as by `sliding_window`, so the rest of an older one can count for twice this time.
    #[schemars(example = &"10/minute")]
    after: Field<Rate>,
    /// The length of the first ban. Each further ban lasts twice as long.
    #[schemars(example = &"5m")]
    ban: Field<Period>,
    /// The length of the longest ban.
    #[schemars(extend("x-default" = "1d, or the first ban if that is longer"))]
    #[schemars(example = &"2d")]
    max_ban: Field<Period>,
    /// How long the response to a request of a banned client is held back, from 10ms to 30s. A client that does not wait for the end of its ban can send at most one request in this time on each connection of HTTP/1, and on each stream of HTTP/2.
    #[schemars(extend("x-default" = "not at all"))]
    #[schemars(example = &"1s")]
    delay: Field<Period>,
}

impl RawPenalty {
    pub fn spec(&self) -> PenaltySpec {
        PenaltySpec {
            after: self.after.written(|Rate(quota)| LimitSpec::Rate(*quota)),
            ban: self.ban.written(Period::span),
            max_ban: self.max_ban.written(Period::span),
            delay: self.delay.written(Period::span),
        }
    }

    /// Where this field of a penalty is written.
    pub fn span_of(&self, field: &spec::Field) -> Option<TextSpan> {
        match field {
            spec::Field::After => self.after.span(),
            spec::Field::Ban => self.ban.span(),
            spec::Field::MaxBan => self.max_ban.span(),
            spec::Field::BanDelay => self.delay.span(),
            _ => None,
        }
    }
}
