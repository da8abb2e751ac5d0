//! What a policy has decided: on one node, or on several.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_core::time::Span;

use super::words::Counted;
use crate::telemetry::{ByOutcome, History};

/// Clients above this share of their limit, in thousandths, are near it.
const NEAR: u64 = 800;

/// The outcomes of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyOutcomes {
    /// Those of the last minute, and how long it was.
    pub minute: (Span, ByOutcome),
    /// The same of five minutes.
    pub five_minutes: (Span, ByOutcome),
    /// All since the process began.
    pub total: ByOutcome,
    /// Of the decisions of five minutes, those after which the use of the limit was measured.
    pub measured: u64,
    /// Of these, those after which a client had used more than 80 %.
    pub near: u64,
}

/// The decisions of a policy by outcome.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outcomes {
    /// Those since the process began.
    total: Counted,
    #[serde(rename = "1m")]
    one_minute: Recent,
    #[serde(rename = "5m")]
    five_minutes: Recent,
}

/// The decisions of the last time by outcome.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Recent {
    /// How long the time was.
    seconds: Option<f64>,
    #[serde(flatten)]
    outcomes: Counted,
}

/// How much of their limits the clients of a policy have used, over five minutes: one decision of
/// 16 is measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Use {
    /// The decisions that were measured.
    measured: u64,
    /// The share of these after which a client had used more than 80 % of its limit.
    near: Option<f64>,
}

impl PolicyOutcomes {
    /// Those of one policy on this node.
    pub fn of(history: &History, name: &str) -> Self {
        let (minute, in_minute) = history.policy(name, Span::from_secs(60));
        let (five_minutes, counts) = history.policy(name, Span::from_secs(300));
        Self {
            minute: (minute, in_minute.by_outcome),
            five_minutes: (five_minutes, counts.by_outcome),
            total: history.policy_total(name).by_outcome,
            measured: counts.used.sum(),
            near: counts.used.above(NEAR),
        }
    }

    /// Adds those of another node.
    pub fn add(&mut self, other: &Self) {
        for (period, more) in
            [(&mut self.minute, &other.minute), (&mut self.five_minutes, &other.five_minutes)]
        {
            period.0 = period.0.max(more.0);
            period.1.add(&more.1);
        }
        self.total.add(&other.total);
        self.measured = self.measured.saturating_add(other.measured);
        self.near = self.near.saturating_add(other.near);
    }

    /// Decisions of the last five minutes.
    pub fn recent(&self) -> u64 {
        self.five_minutes.1.sum()
    }
}

impl Outcomes {
    /// The outcomes as an answer shows them.
    pub fn of(outcomes: &PolicyOutcomes) -> Self {
        let recent = |(span, counts): &(Span, ByOutcome)| {
            let seconds = ratio(span.as_micros(), 1_000_000);
            Recent { seconds, outcomes: named(counts.named()) }
        };
        Self {
            total: named(outcomes.total.named()),
            one_minute: recent(&outcomes.minute),
            five_minutes: recent(&outcomes.five_minutes),
        }
    }
}

impl Use {
    /// The use as an answer shows it.
    pub fn of(outcomes: &PolicyOutcomes) -> Self {
        let PolicyOutcomes { measured, near, .. } = *outcomes;
        Self { measured, near: ratio(near, measured) }
    }
}

/// The numbers with their names; zeros are left out.
pub fn named(numbers: impl Iterator<Item = (&'static str, u64)>) -> Counted {
    let counted = numbers.filter(|(_, number)| *number > 0);
    counted.map(|(name, number)| (name.to_owned(), number)).collect()
}

/// A quotient with three decimals; none if there is none.
#[expect(clippy::cast_precision_loss, reason = "three decimals are shown")]
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 1000.0).round() / 1000.0)
}
