//! Bans for clients that are refused too often.

use std::ops::RangeInclusive;

use super::fault::Faults;
use super::{Field, LimitSpec, PenaltySpec};
use crate::algorithm::{Algorithm, Ban, MAX_WINDOW, SlidingWindow};
use crate::policy::Penalty;
use crate::time::Span;

const BAN: RangeInclusive<Span> = Span::SECOND..=MAX_WINDOW;
/// A longer delay would make the end of the process wait for banned clients.
const DELAY: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(30);

impl PenaltySpec {
    pub(super) fn compile(&self, faults: &Faults) -> Option<Penalty> {
        let message = "the penalty has no \"after\"";
        let after =
            faults.required(&self.after, Field::Penalty, message, "like after: 10/minute").copied();
        if let Some(LimitSpec::Count(_) | LimitSpec::Money(_)) = after {
            let advice = "write a count per time, like 10/minute";
            faults.error(Field::After, "the limit has no time", advice);
        }
        if matches!(after, Some(LimitSpec::Rate(quota)) if quota.is_monthly()) {
            let advice = "write a time of a fixed length, like 10/minute or 100/30d";
            faults.error(Field::After, "refusals are not counted by the month", advice);
        }
        let message = "the penalty has no \"ban\"";
        faults.required(&self.ban, Field::Penalty, message, "like ban: 5m");
        let ban = faults.duration(&self.ban, Field::Ban, BAN);
        let longest = faults.duration(&self.max_ban, Field::MaxBan, BAN);
        let delay = faults.duration(&self.delay, Field::BanDelay, DELAY);
        if let (Some(ban), Some(longest)) = (ban, longest) {
            if longest < ban {
                let message = "the longest ban is shorter than the first one";
                faults.error(Field::MaxBan, message, "write a longer \"max_ban\"");
            }
        }
        let (Some(LimitSpec::Rate(quota)), Some(ban)) = (after, ban) else { return None };
        // A longest ban that is too short is reported above.
        let ban = Ban::new(ban, longest.unwrap_or(Span::DAY.max(ban))).ok()?;
        Some(Penalty {
            after: Algorithm::SlidingWindow(SlidingWindow::new(quota)),
            ban: Algorithm::Ban(ban),
            delay: delay.unwrap_or_default(),
        })
    }
}
