//! Fields of a policy that contradict each other, or have no effect together.

use super::algorithm::RawAlgorithm;
use super::context::Context;
use crate::config::node::TextSpan;

/// A field by its name in messages, and where it is written. None if it is not, or if its value
/// is harmless in every combination.
pub(super) type Written = (&'static str, Option<TextSpan>);

/// The fields of a policy that do not go with each other.
pub(super) struct Combination {
    pub(super) algorithm: Option<RawAlgorithm>,
    /// A cost that is known only after the response.
    pub(super) settled: Written,
    /// A `count` by status.
    pub(super) count: Written,
    pub(super) soft: Written,
    pub(super) plans: Written,
    pub(super) elastic: Written,
}

impl Combination {
    /// Reports fields that do not go with the algorithm or with each other.
    pub(super) fn check(&self, cx: &Context<'_>) {
        let Self { settled, count, soft, plans, elastic, .. } = *self;
        match self.algorithm {
            Some(RawAlgorithm::Concurrency) => {
                let why = "what is in flight is given back at its end, whatever came of it";
                not_with("concurrency", &[settled, count], why, cx);
                let why = "an upstream bounds what is in flight there by its own \"max_in_flight\"";
                not_with("concurrency", &[elastic], why, cx);
            }
            Some(RawAlgorithm::LeakyBucket) => {
                let why = "the slots that a request took cannot be given back, since later ones are \
                           held behind them";
                not_with("leaky_bucket", &[settled, count], why, cx);
                let why = "what goes beyond it would not go at even distances";
                not_with("leaky_bucket", &[soft, elastic], why, cx);
            }
            _ => {}
        }
        not_both(count, settled, "both would correct afterwards what was counted", cx);
        not_both(elastic, soft, "both admit beyond the limit, and more than either says", cx);
        not_both(elastic, plans, "it is not clear beyond which limit it goes", cx);
    }
}

fn not_with(algorithm: &str, fields: &[Written], why: &str, cx: &Context<'_>) {
    for (field, span) in fields {
        if let Some(span) = span {
            let message = format!("\"{field}\" does not go with the algorithm {algorithm}: {why}");
            cx.error(*span, &message, "leave it out, or choose another algorithm");
        }
    }
}

fn not_both((field, span): Written, (other, there): Written, why: &str, cx: &Context<'_>) {
    if let (Some(span), Some(_)) = (span, there) {
        let message = format!("\"{field}\" does not go with \"{other}\": {why}");
        cx.error(span, &message, "leave one of them out, or write two policies");
    }
}

/// Reports fields that have no effect without a limit.
pub(super) fn without_effect(fields: &[Written], why: &str, cx: &Context<'_>) {
    for (field, span) in fields {
        if let Some(span) = span {
            let message = format!("\"{field}\" has no effect: {why}");
            let advice = "leave it out, or write a limit, like limit: 100/minute";
            cx.error(*span, &message, advice);
        }
    }
}
