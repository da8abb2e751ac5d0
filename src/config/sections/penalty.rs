//! `penalty` of a policy: bans for clients that are refused too often.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::{Algorithm, Ban, MAX_WINDOW, SlidingWindow};
use tollgate_core::policy::Penalty;
use tollgate_core::time::Span;

use super::context::Context;
use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::scalar::{Period, Rate};

const BAN: RangeInclusive<Span> = Span::SECOND..=MAX_WINDOW;

/// Bans for clients that are refused too often.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "penalty", default)]
#[schemars(deny_unknown_fields, extend("required" = ["after", "ban"]))]
pub(super) struct RawPenalty {
    /// The refusals that lead to a ban: with 3/10s, the third one within ten seconds.
    #[schemars(example = &"10/minute")]
    after: Field<Rate>,
    /// The length of the first ban. Each further ban lasts twice as long.
    #[schemars(example = &"5m")]
    ban: Field<Period>,
    /// The length of the longest ban.
    #[schemars(extend("x-default" = "1d, or the first ban if that is longer"))]
    #[schemars(example = &"2d")]
    max_ban: Field<Period>,
}

impl RawPenalty {
    /// The penalty of the section, which is written at `span`.
    pub(super) fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<Penalty> {
        let Self { after, ban, max_ban } = self;
        let message = "the penalty has no \"after\"";
        let after = cx.required(after, span, message, "like after: 10/minute");
        cx.required(ban, span, "the penalty has no \"ban\"", "like ban: 5m");
        let ban = cx.duration(ban, "ban", BAN);
        let longest = cx.duration(max_ban, "max_ban", BAN);
        if let (Some(ban), Some(longest), Some(span)) = (ban, longest, max_ban.span())
            && longest < ban
        {
            let message = "the longest ban is shorter than the first one";
            cx.error(span, message, "write a longer \"max_ban\"");
        }
        let (Rate(quota), ban) = (*after?, ban?);
        // A longest ban that is too short is reported above.
        let ban = Ban::new(ban, longest.unwrap_or(Span::DAY.max(ban))).ok()?;
        Some(Penalty {
            after: Algorithm::SlidingWindow(SlidingWindow::new(quota)),
            ban: Algorithm::Ban(ban),
        })
    }
}
