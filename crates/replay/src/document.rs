//! The layout of a report.

use std::path::Path;

use tollgate_core::time::Span;

use super::conclude::{comparison, conclusion};
use super::layout::{Block, Chart, Head, Layout, Section, Table};
use super::report::{AgainstReport, ClientReport, Difference, PolicyReport, Report};
use super::suggested;
use super::words::{
    change, count, length, listed, moment, moment_with_seconds, number, percent, period, share,
    written,
};

/// The most steps of time in a chart.
const STEPS: usize = 60;
/// The most names of logs in the title.
const MAX_NAMES: usize = 3;
/// The most policies with a chart and a list of clients.
const MAX_POLICIES: usize = 12;
const MEANINGS: [(&str, &str); 5] = [
    ("Judged", "requests that the policy has judged."),
    ("Refused", "requests that it refuses, or would refuse if it were not in shadow mode."),
    (
        "Keys hit",
        "keys with at least one refusal. A key is what a policy counts by, such as an address.",
    ),
    ("Longest wait", "the longest Retry-After of a refused request."),
    ("Worst minute", "the minute with the most refusals, and their number."),
];

/// What a report says.
pub(super) fn layout(report: &Report) -> Layout {
    let mut conclusions: Vec<String> = report.policies.iter().map(conclusion).collect();
    conclusions.extend(report.against.as_ref().map(comparison));
    let mut sections = vec![
        section("", vec![Block::Lines(counts(report))]),
        section("Conclusion", vec![Block::Items(conclusions)]),
    ];
    if !report.notes.is_empty() {
        let notes = Block::Items(report.notes.clone());
        sections.push(section("What the replay cannot know", vec![notes]));
    }
    let table = Block::Table(policies(&report.policies));
    sections.push(section("Policies", vec![table, Block::Meanings(MEANINGS.to_vec())]));
    sections.extend(over_time(report));
    sections.extend(refused_clients(report));
    if let Some(against) = &report.against {
        sections.push(difference(against, &report.config));
    }
    sections.extend(report.suggestions.as_ref().map(suggested::section));
    Layout { title: title(report), sections }
}

fn section(heading: &str, blocks: Vec<Block>) -> Section {
    Section { heading: heading.to_owned(), blocks }
}

fn title(report: &Report) -> String {
    let log = &report.log;
    let names: Vec<String> = log.files.iter().map(|path| base_name(path)).collect();
    let times = log.from.as_deref().zip(log.to.as_deref());
    let times = times.map_or_else(String::new, |(from, to)| format!(": {}", period(from, to)));
    format!("Replay of {}{times}", listed(&names, MAX_NAMES))
}

/// The last part of a path. A page that is sent tells nothing of directories.
fn base_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn counts(report: &Report) -> Vec<String> {
    let log = &report.log;
    let totals = &report.totals;
    let refused = share(totals.refused, totals.refused_range, totals.judged);
    let mut lines = vec![
        format!("{} of {}, limits of {}", count(log.lines, "line"), log.form(), report.config),
        format!("{} judged, {refused} refused", count(totals.judged, "request")),
    ];
    if let (Some(repeated), Some(different)) = (totals.repeated, totals.different) {
        let repeated = number(repeated);
        let different = number(different);
        lines.push(format!("{repeated} decisions are those of the log, {different} are not"));
    }
    let others = [
        (log.no_request, "lines without a request"),
        (log.unread, "lines not read"),
        (totals.no_route, "requests that no route matches"),
        (totals.denied, "requests that an access list denies"),
        (totals.malformed, "requests that the gateway refuses as malformed"),
        (totals.held, "requests held"),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    lines.extend(others.map(|(count, what)| format!("{} {what}", number(count))));
    lines
}

fn policies(policies: &[PolicyReport]) -> Table {
    let heads = vec![
        Head::Text("Policy"),
        Head::Text("Limit"),
        Head::Number("Judged"),
        Head::Number("Refused"),
        Head::Number("Keys hit"),
        Head::Number("Longest wait"),
        Head::Text("Worst minute"),
    ];
    let rows = policies.iter().map(|policy| {
        let shadow = if policy.shadow { " (shadow)" } else { "" };
        let about = if policy.keys_hit_is_estimate { "about " } else { "" };
        let wait = match (policy.longest_wait_ms, policy.never_fits) {
            (0, 0) => "-".to_owned(),
            (0, _) => "never fits".to_owned(),
            (ms, _) => length(Span::from_millis(ms)),
        };
        let worst = policy.worst_minute.as_ref();
        let worst = worst.map(|it| format!("{} ({})", moment(it.at_s), number(it.refused)));
        vec![
            policy.name.clone(),
            format!("{}{shadow}", written(&policy.limit)),
            number(policy.judged),
            share(policy.refused, policy.refused_range, policy.judged),
            format!("{about}{}", number(policy.keys_hit)),
            wait,
            worst.unwrap_or_else(|| "-".to_owned()),
        ]
    });
    Table { heads, rows: rows.collect() }
}

/// The policies with the most refusals, in the order of the configuration.
fn refusing(report: &Report) -> Vec<&PolicyReport> {
    let mut all: Vec<_> =
        report.policies.iter().enumerate().filter(|(_, it)| it.refused > 0).collect();
    all.sort_by_key(|(_, policy)| std::cmp::Reverse(policy.refused));
    all.truncate(MAX_POLICIES);
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, policy)| policy).collect()
}

fn over_time(report: &Report) -> Option<Section> {
    let whole = report.totals.over_time.within(STEPS);
    let refusing = refusing(report);
    if refusing.is_empty() || whole.judged.len() < 2 {
        return None;
    }
    let policies = refusing.iter().map(|policy| {
        let refused = policy.over_time.refused_within(&whole);
        (policy.name.clone(), refused)
    });
    let chart = Chart {
        start_s: whole.start_s,
        step_s: whole.step_s,
        step: length(Span::from_secs(whole.step_s)),
        policies: policies.collect(),
        judged: whole.judged,
        refused: whole.refused,
    };
    Some(section("Over time", vec![Block::Chart(chart)]))
}

fn refused_clients(report: &Report) -> Option<Section> {
    let mut blocks = Vec::new();
    for policy in refusing(report) {
        if policy.refused_clients.is_empty() {
            continue;
        }
        let least = if policy.refused_clients_are_least { ", at least" } else { "" };
        blocks.push(Block::Part(format!("{}{least}", policy.name)));
        let table = clients(&policy.refused_clients);
        let listed: u64 = policy.refused_clients.iter().map(|client| client.refused).sum();
        blocks.push(Block::Table(table));
        let rest = policy.refused.saturating_sub(listed);
        if rest > 0 && !policy.refused_clients_are_least {
            let share = percent(rest, policy.refused);
            blocks.push(Block::Lines(vec![format!(
                "All other clients: {} refused ({share} % of the refusals)",
                number(rest)
            )]));
        }
    }
    (!blocks.is_empty()).then(|| section("Clients that would be refused", blocks))
}

fn clients(clients: &[ClientReport]) -> Table {
    let heads = vec![
        Head::Text("Client"),
        Head::Number("Refused"),
        Head::Number("Of its requests"),
        Head::Number("Longest wait"),
        Head::Text("From"),
        Head::Text("To"),
    ];
    let rows = clients.iter().map(|client| {
        let of = client
            .judged
            .map(|judged| format!("{} ({} %)", number(judged), percent(client.refused, judged)));
        let wait = match client.longest_wait_ms {
            0 => "-".to_owned(),
            ms => length(Span::from_millis(ms)),
        };
        vec![
            client.client.clone(),
            number(client.refused),
            of.unwrap_or_else(|| "-".to_owned()),
            wait,
            moment_with_seconds(client.first_s),
            moment_with_seconds(client.last_s),
        ]
    });
    Table { heads, rows: rows.collect() }
}

fn difference(against: &AgainstReport, config: &str) -> Section {
    let heads = vec![
        Head::Text("Policy"),
        Head::Text("Limit before"),
        Head::Text("Limit now"),
        Head::Number("Refused before"),
        Head::Number("Refused now"),
        Head::Number("Change"),
        Head::Number("Keys hit before"),
        Head::Number("Keys hit now"),
    ];
    let text = |limit: &Option<String>| limit.as_deref().map_or_else(|| "-".to_owned(), written);
    let shown = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), number);
    let row = |it: &Difference| {
        vec![
            it.name.clone(),
            text(&it.limit_before),
            text(&it.limit_after),
            shown(it.before),
            shown(it.after),
            change(it.before.unwrap_or(0), it.after.unwrap_or(0)),
            shown(it.keys_hit_before),
            shown(it.keys_hit_after),
        ]
    };
    let mut rows: Vec<_> = against.policies.iter().map(row).collect();
    let before = against.refused_before;
    let after = against.refused_after;
    let [none, all] = ["", "all together"].map(str::to_owned);
    rows.push(vec![
        all,
        none.clone(),
        none.clone(),
        number(before),
        number(after),
        change(before, after),
        none.clone(),
        none,
    ]);
    let mut blocks = vec![Block::Table(Table { heads, rows })];
    if !against.newly_refused_clients.is_empty() {
        let least = if against.clients_are_least { ", at least" } else { "" };
        blocks.push(Block::Part(format!("Clients with requests that are newly refused{least}")));
        blocks.push(Block::Table(newly_refused(&against.newly_refused_clients)));
    }
    section(&format!("From {} to {config}", against.config), blocks)
}

fn newly_refused(clients: &[ClientReport]) -> Table {
    let heads = vec![
        Head::Text("Client"),
        Head::Number("Newly refused"),
        Head::Text("From"),
        Head::Text("To"),
    ];
    let rows = clients.iter().map(|client| {
        vec![
            client.client.clone(),
            number(client.refused),
            moment_with_seconds(client.first_s),
            moment_with_seconds(client.last_s),
        ]
    });
    Table { heads, rows: rows.collect() }
}
