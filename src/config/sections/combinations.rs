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
                let why = "a request gives its units back when it ends, whatever its outcome";
                not_with("concurrency", &[settled, count], why, cx);
                let why = "an upstream limits its requests in progress with \"max_in_flight\"";
                not_with("concurrency", &[elastic], why, cx);
            }
            Some(RawAlgorithm::LeakyBucket) => {
                let why = "the slots of a request cannot be given back, because later requests \
                           wait behind them";
                not_with("leaky_bucket", &[settled, count], why, cx);
                let why = "requests beyond the limit would not be forwarded at even intervals";
                not_with("leaky_bucket", &[soft, elastic], why, cx);
            }
            _ => {}
        }
        not_both(count, settled, "both would correct the count after the response", cx);
        not_both(elastic, soft, "together they would admit more than either of them allows", cx);
        not_both(elastic, plans, "it is not clear which limit it raises", cx);
    }
}

fn not_with(algorithm: &str, fields: &[Written], why: &str, cx: &Context<'_>) {
    for (field, span) in fields {
        if let Some(span) = span {
            let message =
                format!("\"{field}\" cannot be combined with the algorithm {algorithm}: {why}");
            cx.error(*span, &message, "leave it out, or choose another algorithm");
        }
    }
}

fn not_both((field, span): Written, (other, there): Written, why: &str, cx: &Context<'_>) {
    if let (Some(span), Some(_)) = (span, there) {
        let message = format!("\"{field}\" cannot be combined with \"{other}\": {why}");
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
