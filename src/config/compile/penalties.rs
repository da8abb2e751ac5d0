//! `penalty`: what happens to those who are refused too often.

use std::ops::RangeInclusive;

use super::Compiler;
use crate::algorithm::{Algorithm, Ban, MAX_WINDOW, SlidingWindow};
use crate::config::field::{Field, Spanned};
use crate::config::raw::RawPenalty;
use crate::config::scalar::Rate;
use crate::policy::Penalty;
use crate::time::Span;

const BAN: RangeInclusive<Span> = Span::SECOND..=MAX_WINDOW;

impl Compiler<'_> {
    pub(super) fn penalty(&self, raw: &Field<RawPenalty>) -> Option<Penalty> {
        let Spanned { value: RawPenalty { after, ban, max_ban }, span, .. } = raw.given()?;
        let message = "the penalty has no \"after\"";
        let after = self.required(after, *span, message, "like after: 10/minute");
        self.required(ban, *span, "the penalty has no \"ban\"", "like ban: 5m");
        let ban = self.span(ban, "ban", BAN);
        let longest = self.span(max_ban, "max_ban", BAN);
        if let (Some(ban), Some(longest), Some(given)) = (ban, longest, max_ban.given())
            && longest < ban
        {
            let message = "the longest ban is shorter than the first one";
            self.problems.error(given.span, message, "write a longer \"max_ban\"");
        }
        let (Rate(quota), ban) = (*after?, ban?);
        // A longest ban that is too short has been reported.
        let ban = Ban::new(ban, longest.unwrap_or(Span::DAY.max(ban))).ok()?;
        Some(Penalty {
            after: Algorithm::SlidingWindow(SlidingWindow::new(quota)),
            ban: Algorithm::Ban(ban),
        })
    }
}
