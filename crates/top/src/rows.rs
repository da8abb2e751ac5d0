//! The tables of the views, from what gateways have told.

mod asked;
mod by_node;
mod clients;
mod history;
mod nodes;
mod policies;

use tollgate_core::time::Timestamp;

pub(super) use asked::Asked;
pub(super) use history::Rate;
pub(super) use nodes::sources;

use super::figures::{self, Figures, Node, word};
use super::form::seconds;
use super::table::Table;

/// The most clients or refusals that are shown.
const MOST_CLIENTS: usize = 200;

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
        if matches!(self, Self::Keys | Self::Refusals) {
            table.rows.truncate(MOST_CLIENTS);
        }
        table
    }
}

/// Why a gateway is not well.
#[derive(Debug)]
pub(super) struct Reason {
    /// The reason in one line.
    pub(super) line: String,
    /// Further lines, such as those of a report on the configuration.
    pub(super) more: Vec<String>,
}

impl Reason {
    fn of(line: String) -> Self {
        Self { line, more: Vec::new() }
    }

    /// All lines, as a list of reasons shows them.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let more = self.more.iter().map(|line| format!("    {line}"));
        std::iter::once(format!("! {}", self.line)).chain(more)
    }
}

/// The reasons why gateways are not well.
pub(super) fn reasons(figures: &Figures, now: Timestamp) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let today = now.to_string();
    for (index, node) in figures.nodes.iter().enumerate() {
        let label = Node::label(index);
        if let Some((since, why)) = &node.lost {
            let age = node.told.as_ref().map(|(at, _)| {
                format!("; these figures are {} old", seconds(now.since(*at).as_micros()))
            });
            let away = seconds(now.since(*since).as_micros());
            let age = age.unwrap_or_default();
            reasons.push(Reason::of(format!("{label} {}: lost for {away}{age}: {why}", node.url)));
        }
        let Some((_, told)) = &node.told else { continue };
        for reason in told.status["reasons"].as_array().into_iter().flatten() {
            let of = |name: &str| word(&reason[name]);
            let mut text = figures::lines(&reason["text"]);
            let first = text.next().unwrap_or_default();
            // One gateway needs no name, and the lines are short.
            let name = if figures.nodes.len() > 1 { format!("{label} ") } else { String::new() };
            let since = of("since");
            let since = clock_of(&since, &today);
            let line = format!("{name}{} since {since}: {first}", of("code"));
            reasons.push(Reason { line, more: text.map(str::to_owned).collect() });
        }
        for (part, why) in &told.failures {
            reasons.push(Reason::of(format!("{label}: {} not refreshed: {why}", part.name())));
        }
        for answer in [&told.policies].into_iter().chain(&told.clients) {
            if answer["source"] == "local" {
                let text = "the store does not answer: these are its own figures";
                reasons.push(Reason::of(format!("{label}: {text}")));
                break;
            }
        }
        for missing in told.policies["missing"].as_array().into_iter().flatten() {
            let of = |name: &str| word(&missing[name]);
            let line = format!("node {} is missing: {}", of("id"), of("because"));
            reasons.push(Reason::of(line));
        }
    }
    reasons
}

/// The time of day of a time of today (RFC 3339), or the whole time.
fn clock_of<'t>(time: &'t str, today: &str) -> &'t str {
    let is_today = time.get(..11).is_some_and(|day| today.get(..11) == Some(day));
    if is_today { time.get(11..19).unwrap_or(time) } else { time }
}
