//! Fields of a policy that make no sense together.

use super::Compiler;
use crate::config::field::{Either, Field};
use crate::config::node::Span;
use crate::config::raw::{RawAlgorithm, RawPolicy};
use crate::config::scalar::Percent;

/// A field by its name in messages, and where it stands, if it does.
type Written = (&'static str, Option<Span>);

impl Compiler<'_> {
    pub(super) fn check_combinations(&self, raw: &RawPolicy) {
        let (settled, status) = (settled(raw), status(raw));
        let soft = raw.soft.given().filter(|soft| soft.value != Percent(0));
        let soft = ("soft", soft.map(|soft| soft.span));
        let plans = ("plans", raw.plans.given().map(|plans| plans.span));
        let elastic = ("elastic", raw.elastic.given().map(|elastic| elastic.span));
        match raw.algorithm_kind() {
            Some(RawAlgorithm::Concurrency) => {
                let why = "what is in flight is given back at its end, whatever came of it";
                self.not_with("concurrency", &[settled, status], why);
                let why = "an upstream bounds what is in flight there by its own \"max_in_flight\"";
                self.not_with("concurrency", &[elastic], why);
            }
            Some(RawAlgorithm::LeakyBucket) => {
                let why = "the slots that a request took cannot be given back, since later ones are \
                           held behind them";
                self.not_with("leaky_bucket", &[settled, status], why);
                let why = "what goes beyond it would not go at even distances";
                self.not_with("leaky_bucket", &[soft, elastic], why);
            }
            _ => {}
        }
        self.not_both(status, settled, "both would correct afterwards what was counted");
        self.not_both(elastic, soft, "both admit beyond the limit, and more than either says");
        self.not_both(elastic, plans, "it is not clear beyond which limit it goes");
    }

    fn not_with(&self, algorithm: &str, fields: &[Written], why: &str) {
        for (field, place) in fields {
            if let Some(place) = place {
                let message =
                    format!("\"{field}\" does not go with the algorithm {algorithm}: {why}");
                let advice = "leave it out, or choose another algorithm";
                self.problems.error(*place, &message, advice);
            }
        }
    }

    fn not_both(&self, (field, place): Written, (other, there): Written, why: &str) {
        if let (Some(place), Some(_)) = (place, there) {
            let message = format!("\"{field}\" does not go with \"{other}\": {why}");
            self.problems.error(place, &message, "leave one of them out, or write two policies");
        }
    }
}

/// A cost that is known only afterwards.
fn settled(raw: &RawPolicy) -> Written {
    let Some(Either::Long(cost)) = raw.cost.value() else { return ("cost", None) };
    let body = cost.body_bytes.given().map(|size| ("body_bytes", size.span));
    let settle = cost.settle.given().map(|settle| ("settle", settle.span));
    settle.or(body).map_or(("cost", None), |(field, place)| (field, Some(place)))
}

/// Outcomes that are counted only afterwards.
fn status(raw: &RawPolicy) -> Written {
    let by_status = |count: &&Field<_>| matches!(count.value(), Some(Either::Long(_)));
    let given = Some(&raw.count).filter(by_status).and_then(Field::given);
    ("count", given.map(|count| count.span))
}
