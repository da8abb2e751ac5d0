//! The figures of the last minutes, as answers show them.
//!
//! A quantile of a duration is shown as the bucket in which it lies, because nothing more is
//! known of it: `over` and `to`, which is null if there is no upper bound.

use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::call::Call;
use super::outcomes::{named, ratio};
use super::words::{Counted, Scope};
use crate::telemetry::{Bucket, Buckets, History, Period, PolicySteps};

/// The last minutes in steps, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub struct HistoryAnswer {
    scope: Scope,
    /// The length of a step in seconds.
    step: usize,
    items: Vec<Figures>,
    /// With `policies`, the policies that have decided in this time: those with the most refusals
    /// first.
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<Vec<PolicyHistory>>,
}

/// What a policy has decided. Each list has a number for each of the items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct PolicyHistory {
    policy: String,
    /// All decisions.
    decisions: Vec<u64>,
    /// Of these, the refusals, whatever the reason.
    refused: Vec<u64>,
    /// Of these, those that a policy in shadow would have refused.
    shadow_refused: Vec<u64>,
}

/// The figures of some time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// When it ended (RFC 3339).
    time: String,
    /// How long it was.
    seconds: Option<f64>,
    requests: u64,
    /// The requests by the class of their status, such as `2xx`.
    by_class: Counted,
    /// The requests that a limit has refused.
    refused: u64,
    per_second: PerSecond,
    /// The requests in progress at the end.
    active: u64,
    /// The whole duration of requests in microseconds.
    duration_us: Quantiles,
    /// The part of the gateway itself in microseconds.
    own_us: Quantiles,
    /// The duration of decisions in nanoseconds.
    decision_ns: Quantiles,
    /// The decisions by what has made them.
    sources: Counted,
    busy: Busy,
}

/// Requests in a second.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct PerSecond {
    requests: Option<f64>,
    refused: Option<f64>,
    /// Answers with a status of the class 5xx.
    errors: Option<f64>,
}

/// How busy the workers are: the share of the time in which they used a processor.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Busy {
    workers: u64,
    mean: Option<f64>,
    busiest: Option<f64>,
}

/// Quantiles, each as the bucket in which it lies. Null: nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Quantiles {
    p50: Option<Between>,
    p99: Option<Between>,
}

/// The bounds of a bucket.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Between {
    over: u64,
    /// Null: there is no upper bound.
    to: Option<u64>,
}

/// The last minutes in steps.
pub fn history(history: &History, call: &Call) -> Answer {
    let seconds = call.number("seconds");
    let step = call.number("step");
    let step_s = u64::try_from(step).unwrap_or(u64::MAX);
    let most = call.number("policies");
    let steps = history.steps(seconds, step_s, most);
    let items = steps.node.iter().map(Figures::of).collect();
    let policies = (most > 0).then(|| steps.policies.iter().map(PolicyHistory::of).collect());
    Answer::json(&HistoryAnswer { scope: Scope::Node, step, items, policies })
}

/// The rates of the last minute; none in the first second of a process.
pub fn rates(history: &History) -> Option<Figures> {
    history.last(60).as_ref().map(Figures::of)
}

impl PolicyHistory {
    fn of(policy: &PolicySteps) -> Self {
        let steps = policy.steps.iter();
        Self {
            policy: policy.policy.to_string(),
            decisions: steps.clone().map(|it| it.decisions).collect(),
            refused: steps.clone().map(|it| it.refused).collect(),
            shadow_refused: steps.map(|it| it.shadow_refused).collect(),
        }
    }
}

impl Figures {
    /// The figures of some time.
    pub fn of(period: &Period) -> Self {
        let Period { ended, took, counts, active, workers, busy_us } = period;
        let requests = counts.by_class.sum();
        let refused = counts.refused;
        let rate = |count: u64| ratio(count.saturating_mul(1_000_000), took.as_micros());
        let all_workers_us = took.as_micros().saturating_mul(*workers);
        Self {
            time: ended.to_string(),
            seconds: ratio(took.as_micros(), 1_000_000),
            requests,
            by_class: named(counts.by_class.named()),
            refused,
            per_second: PerSecond {
                requests: rate(requests),
                refused: rate(refused),
                errors: rate(counts.by_class.server_error),
            },
            active: *active,
            duration_us: Quantiles::of(&counts.whole_us),
            own_us: Quantiles::of(&counts.own_us),
            decision_ns: Quantiles::of(&counts.decision_ns),
            sources: named(counts.by_source.named()),
            busy: Busy {
                workers: *workers,
                mean: ratio(busy_us.0, all_workers_us),
                busiest: ratio(busy_us.1, took.as_micros()),
            },
        }
    }
}

impl Quantiles {
    fn of<const N: usize>(buckets: &Buckets<N>) -> Self {
        let between = |Bucket { over, to }: Bucket| Between { over, to };
        let quantile = |thousandths: u64| buckets.quantile(thousandths).map(between);
        Self { p50: quantile(500), p99: quantile(990) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollgate_core::time::Timestamp;

    use super::super::outcomes::{Outcomes, PolicyOutcomes, Use};
    use super::*;
    use crate::telemetry::{Metrics, families};

    #[test]
    fn figures_are_rates_of_the_time_that_was_measured() {
        let metrics = Metrics::new(100);
        let worker = metrics.worker();
        let at = |s: u64| Timestamp::from_micros(1_000_000 * s);
        let history = History::new(at(100), metrics.totals());
        assert_eq!(rates(&history), None);
        for status in ["200", "200", "503"] {
            let labels = ["GET", status, "/*", "r", ""];
            worker.histogram(&families::REQUEST_DURATION, &labels).observe(6_000);
        }
        worker.counter(&families::REFUSED_REQUESTS, &[]).add(1);
        worker.counter(&families::DECISIONS, &["p", "", "refused"]).add(3);
        worker.histogram(&families::UTILISATION, &["p"]).observe(850);
        worker.histogram(&families::UTILISATION, &["p"]).observe(100);
        history.add(metrics.totals(), at(102), at(102));
        let shown = json!(rates(&history));
        assert_eq!((&shown["requests"], &shown["seconds"]), (&json!(3), &json!(2.0)));
        let rates = json!({ "requests": 1.5, "refused": 0.5, "errors": 0.5 });
        assert_eq!(shown["per_second"], rates);
        assert_eq!(shown["by_class"], json!({ "2xx": 2, "5xx": 1 }));
        let bucket = json!({ "over": 5_000, "to": 10_000 });
        assert_eq!(shown["duration_us"], json!({ "p50": bucket, "p99": bucket }));
        assert_eq!(shown["own_us"]["p50"], Value::Null);
        assert_eq!(shown["busy"]["mean"], Value::Null);
        let policy = |name| PolicyOutcomes::of(&history, name);
        let outcomes = json!(Outcomes::of(&policy("p")));
        let of_5m = json!({ "refused": 3, "seconds": 2.0 });
        assert_eq!(outcomes, json!({ "total": { "refused": 3 }, "1m": of_5m, "5m": of_5m }));
        assert_eq!(json!(Use::of(&policy("p"))), json!({ "measured": 2, "near": 0.5 }));
        assert_eq!(json!(Use::of(&policy("q"))), json!({ "measured": 0, "near": null }));
    }
}
