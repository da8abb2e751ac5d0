//! The tables of the views, from what gateways have told.

mod asked;
mod by_node;
mod clients;
mod nodes;
mod policies;

use tollgate_limiter::time::Timestamp;

pub(super) use asked::Asked;
pub(super) use nodes::sources;

use super::figures::{Figures, Node, word};
use super::form::seconds;
use super::table::Table;

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

/// The reasons why gateways are not well, one line each.
pub(super) fn reasons(figures: &Figures, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, node) in figures.nodes.iter().enumerate() {
        let label = Node::label(index);
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
            let of = |name: &str| word(&reason[name]);
            lines.push(format!("{label} {} since {}: {}", of("code"), of("since"), of("text")));
        }
        for answer in [&told.policies].into_iter().chain(&told.clients) {
            if answer["source"] == "local" {
                lines
                    .push(format!("{label}: the store does not answer: these are its own figures"));
                break;
            }
        }
        for missing in told.policies["missing"].as_array().into_iter().flatten() {
            let of = |name: &str| word(&missing[name]);
            lines.push(format!("node {} is missing: {}", of("id"), of("because")));
        }
    }
    lines
}
