//! The tables of the views, from what gateways have told.

mod clients;
mod nodes;
mod policies;

use serde_json::Value;
use tollgate_limiter::time::Timestamp;

pub(super) use nodes::sources;

use super::figures::Figures;
use super::table::{About, Row, Table};

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Overview,
    Policies,
    Keys,
    Refusals,
    Upstreams,
    Store,
}

/// All views, in the order of their numbers.
pub(super) const VIEWS: [View; 6] =
    [View::Overview, View::Policies, View::Keys, View::Refusals, View::Upstreams, View::Store];

impl View {
    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Policies => "Policies",
            Self::Keys => "Keys",
            Self::Refusals => "Refusals",
            Self::Upstreams => "Upstreams",
            Self::Store => "Store",
        }
    }

    /// By what its rows can be sorted. The first is used at the start.
    pub(super) const fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Policies => &["refused share", "refusals", "use", "name"],
            Self::Keys => &["refused", "admitted", "requests"],
            _ => &[],
        }
    }

    /// Its index in [`VIEWS`].
    pub(super) fn index(self) -> usize {
        VIEWS.iter().position(|it| *it == self).unwrap_or(0)
    }

    /// Its table. `order` is an index in its orders, `filter` a text that rows must contain,
    /// and `policy` the only one that is shown.
    pub(super) fn table(self, figures: &Figures, asked: &Asked<'_>) -> Table {
        let mut table = match self {
            Self::Overview => nodes::overview(figures, asked.now),
            Self::Policies => policies::table(figures, asked),
            Self::Keys => clients::table(figures, asked),
            Self::Refusals => clients::refusals(figures, asked),
            Self::Upstreams => nodes::upstreams(figures),
            Self::Store => nodes::store(figures),
        };
        let wanted = asked.filter.to_lowercase();
        table.rows.retain(|row| row.contains(&wanted));
        table
    }
}

/// How a table is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) order: usize,
    pub(super) filter: &'a str,
    pub(super) policy: Option<&'a str>,
    pub(super) now: Timestamp,
}

impl Asked<'_> {
    /// Whether this policy is shown.
    fn shows(&self, policy: &str) -> bool {
        self.policy.is_none_or(|only| only == policy)
    }
}

impl Row {
    fn of(cells: Vec<String>) -> Self {
        Self { cells, ..Self::default() }
    }

    fn about(cells: Vec<String>, about: About) -> Self {
        Self { cells, about, is_bad: false }
    }

    fn contains(&self, wanted: &str) -> bool {
        wanted.is_empty() || self.cells.iter().any(|cell| cell.to_lowercase().contains(wanted))
    }
}

/// The reasons why gateways are not well, one line each.
pub(super) fn reasons(figures: &Figures, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, node) in figures.nodes.iter().enumerate() {
        let label = super::figures::Node::label(index);
        if let Some((since, why)) = &node.lost {
            let age = node.told.as_ref().map(|(at, _)| {
                format!("; these figures are {} old", seconds(now.since(*at).as_micros()))
            });
            let away = seconds(now.since(*since).as_micros());
            let age = age.unwrap_or_default();
            lines.push(format!("{label} {}: lost for {away}{age}: {why}", node.url));
        }
        let Some((_, told)) = &node.told else { continue };
        for reason in told.status["reasons"].as_array().into_iter().flatten() {
            let word = |name: &str| super::figures::word(&reason[name]);
            lines.push(format!(
                "{label} {} since {}: {}",
                word("code"),
                word("since"),
                word("text")
            ));
        }
        for answer in [&told.policies].into_iter().chain(&told.clients) {
            if answer["source"] == "local" {
                lines
                    .push(format!("{label}: the store does not answer: these are its own figures"));
                break;
            }
        }
        for missing in told.policies["missing"].as_array().into_iter().flatten() {
            let word = |name: &str| super::figures::word(&missing[name]);
            lines.push(format!("node {} is missing: {}", word("id"), word("because")));
        }
    }
    lines
}

/// A rate with as many digits as matter.
fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 99.95 => format!("{rate:.1}"),
        Some(rate) if rate < 9_999.5 => format!("{rate:.0}"),
        Some(rate) if rate < 9_999_500.0 => format!("{:.0}k", rate / 1e3),
        Some(rate) => format!("{:.0}M", rate / 1e6),
    }
}

/// A share as a percentage.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[expect(clippy::cast_precision_loss, reason = "a share is shown with one decimal")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A time in whole seconds, minutes or hours.
fn seconds(us: u64) -> String {
    match us / 1_000_000 {
        secs @ 0..120 => format!("{secs} s"),
        secs @ 120..7200 => format!("{} min", secs / 60),
        secs => format!("{} h", secs / 3600),
    }
}

/// A bucket of durations in microseconds: its upper bound.
fn bucket(value: &Value) -> String {
    let us = |us: u64| match us {
        0..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{} s", us / 1_000_000),
    };
    match (value["over"].as_u64(), value["to"].as_u64()) {
        (_, Some(to)) => format!("≤ {}", us(to)),
        (Some(over), None) => format!("> {}", us(over)),
        (None, None) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let rates = [0.0, 1.25, 99.94, 99.96, 1234.4, 45_678.0, 12_345_678.0].map(Some).map(rate);
        assert_eq!(rates, ["0.0", "1.2", "99.9", "100", "1234", "46k", "12M"]);
        assert_eq!(
            (rate(None), percent(None), percent(share(1, 8))),
            ("-".into(), "-".into(), "12.5 %".into())
        );
        let shown = [0, 119_999_999, 120_000_000, 7_200_000_000].map(seconds);
        assert_eq!(shown, ["0 s", "119 s", "2 min", "2 h"]);
        let buckets = [
            json!({"over": 0, "to": 250}),
            json!({"over": 5000, "to": 10_000}),
            json!({"over": 10_000_000, "to": null}),
            json!(null),
        ];
        assert_eq!(buckets.map(|it| bucket(&it)), ["≤ 250 µs", "≤ 10 ms", "> 10 s", "-"]);
    }
}
