//! The figures of the last minutes, as answers show them.
//!
//! A quantile of a duration is shown as the bucket in which it lies, because nothing more is
//! known of it: `over` and `to`, which is null if there is no upper bound.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::outcomes::{named, ratio};
use super::problem::Problem;
use crate::telemetry::{
    BY_CLASS, BY_SOURCE, Bucket, CLASSES, Counts, Distribution, HISTORY_SECONDS, History, Period,
    REFUSED, SOURCES,
};

/// The steps of the history if the caller does not say how long, in seconds.
const STEP: usize = 10;
/// The longest step.
const MAX_STEP: usize = 60;
/// The place of the requests with a status of the class 5xx.
const ERRORS: usize = 4;

/// The last minutes in steps.
///
/// # Errors
/// 400, if a number is out of range.
pub(super) fn history(history: &History, call: &Call) -> Result<Answer, Problem> {
    let seconds = call.number("seconds", HISTORY_SECONDS, (1, HISTORY_SECONDS))?;
    let step = call.number("step", STEP, (1, MAX_STEP))?;
    let steps = history.steps(seconds, u64::try_from(step).unwrap_or(u64::MAX));
    let items: Vec<Value> = steps.iter().map(period).collect();
    Ok(Answer::json(&json!({ "scope": "node", "step": step, "items": items })))
}

/// The rates of the last minute; null in the first second of a process.
pub(super) fn rates(history: &History) -> Value {
    history.last(60).as_ref().map_or(Value::Null, period)
}

/// The figures of some time.
pub(super) fn period(period: &Period) -> Value {
    let Period { ended, took, counts, active, workers, busy_us } = period;
    let classes = counts.range(BY_CLASS);
    let requests: u64 = classes.iter().sum();
    let refused = counts.get(REFUSED);
    let rate = |count: u64| ratio(count.saturating_mul(1_000_000), took.as_micros());
    let all_workers_us = took.as_micros().saturating_mul(*workers);
    json!({
        "time": ended.to_string(),
        "seconds": ratio(took.as_micros(), 1_000_000),
        "requests": requests,
        "by_class": named(&CLASSES, classes),
        "refused": refused,
        "per_second": {
            "requests": rate(requests),
            "refused": rate(refused),
            "errors": rate(classes[ERRORS]),
        },
        "active": active,
        "duration_us": quantiles(counts, Distribution::Whole),
        "own_us": quantiles(counts, Distribution::Own),
        "decision_ns": quantiles(counts, Distribution::Decision),
        "sources": named(&SOURCES, counts.range(BY_SOURCE)),
        "busy": {
            "workers": workers,
            "mean": ratio(busy_us.0, all_workers_us),
            "busiest": ratio(busy_us.1, took.as_micros()),
        },
    })
}

fn quantiles<const N: usize>(counts: &Counts<N>, of: Distribution) -> Value {
    let shown = |Bucket { over, to }: Bucket| json!({ "over": over, "to": to });
    let quantile = |(name, thousandths): (&str, u64)| {
        let value = counts.quantile(of, thousandths).map_or(Value::Null, shown);
        (name.to_owned(), value)
    };
    let all = [("p50", 500), ("p99", 990)].map(quantile);
    Value::Object(Map::from_iter(all))
}

#[cfg(test)]
mod tests {
    use tollgate_limiter::time::Timestamp;

    use super::super::outcomes::PolicyOutcomes;
    use super::*;
    use crate::telemetry::{Metrics, families};

    #[test]
    fn figures_are_rates_of_the_time_that_was_measured() {
        let metrics = Metrics::new(100);
        let worker = metrics.worker();
        let at = |s: u64| Timestamp::from_micros(1_000_000 * s);
        let history = History::new(at(100), metrics.totals());
        assert_eq!(rates(&history), Value::Null);
        for status in ["200", "200", "503"] {
            let labels = ["GET", status, "/*", "r", ""];
            worker.histogram(&families::REQUEST_DURATION, &labels).observe(6_000);
        }
        worker.counter(&families::REFUSED_REQUESTS, &[]).add(1);
        worker.counter(&families::DECISIONS, &["p", "", "refused"]).add(3);
        worker.histogram(&families::UTILISATION, &["p"]).observe(850);
        worker.histogram(&families::UTILISATION, &["p"]).observe(100);
        history.add(metrics.totals(), at(102), at(102));
        let shown = rates(&history);
        assert_eq!((&shown["requests"], &shown["seconds"]), (&json!(3), &json!(2.0)));
        let rates = json!({ "requests": 1.5, "refused": 0.5, "errors": 0.5 });
        assert_eq!(shown["per_second"], rates);
        assert_eq!(shown["by_class"], json!({ "2xx": 2, "5xx": 1 }));
        let bucket = json!({ "over": 5_000, "to": 10_000 });
        assert_eq!(shown["duration_us"], json!({ "p50": bucket, "p99": bucket }));
        assert_eq!(shown["own_us"]["p50"], Value::Null);
        assert_eq!(shown["busy"]["mean"], Value::Null);
        let shown = |name| {
            let mut policy = json!({});
            PolicyOutcomes::of(&history, name).show_in(&mut policy);
            policy
        };
        let policy = shown("p");
        let of_5m = json!({ "refused": 3, "seconds": 2.0 });
        assert_eq!(
            policy["outcomes"],
            json!({ "total": { "refused": 3 }, "1m": of_5m, "5m": of_5m })
        );
        assert_eq!(policy["use"], json!({ "measured": 2, "near": 0.5 }));
        let other = shown("q");
        assert_eq!(other["use"], json!({ "measured": 0, "near": null }));
    }
}
