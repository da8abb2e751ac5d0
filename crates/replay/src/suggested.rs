//! The suggested limits of a report: what to write, and what keys have used. Policies that judge
//! the same keys by the same requests are described once.

use super::conclude::noun;
use super::layout::{Block, Head, Section, Table, Written};
use super::suggest::{PolicySuggestion, Suggestions, WindowSuggestion};
use super::words::{count, listed, number, share, written};

/// The most names of policies in a sentence.
const MAX_NAMES: usize = 8;

/// The section.
pub(super) fn section(suggestions: &Suggestions) -> Section {
    let mut blocks =
        vec![Block::Lines(vec!["Write this:".to_owned()]), Block::Write(lines(suggestions))];
    for group in groups(&suggestions.policies) {
        let names: Vec<String> = group.iter().map(|policy| policy.name.clone()).collect();
        let keys = count(group[0].keys, noun(group[0].tells_clients_apart));
        blocks.push(Block::Part(format!(
            "The most that each of {keys} of {} has used",
            listed(&names, MAX_NAMES)
        )));
        blocks.push(Block::Table(table(&group)));
        blocks.extend(left_out(group[0]).map(|lines| Block::Lines(vec![lines])));
    }
    Section { heading: "Suggested limits".to_owned(), blocks }
}

/// What to write, once for all policies for which it is the same.
fn lines(suggestions: &Suggestions) -> Vec<Written> {
    let mut lines: Vec<(Vec<String>, String, String)> = Vec::new();
    for policy in &suggestions.policies {
        let window = &policy.windows[policy.nearest];
        let now = written(&policy.now);
        let about = match (&window.trial, policy.write == format!("limit: {now}")) {
            (_, true) => "it is the present limit".to_owned(),
            (Some(_), false) => {
                format!("now {now}; would refuse {}", refused(&[policy], policy.nearest))
            }
            (None, false) => format!("now {now}; not tried"),
        };
        match lines.iter_mut().find(|(_, text, it)| (text, it) == (&policy.write, &about)) {
            Some((names, ..)) => names.push(policy.name.clone()),
            None => lines.push((vec![policy.name.clone()], policy.write.clone(), about)),
        }
    }
    let line = |(names, text, about): (Vec<String>, String, String)| Written {
        text,
        about: format!("for {}: {about}", listed(&names, MAX_NAMES)),
    };
    lines.into_iter().map(line).collect()
}

/// The policies whose keys have used the same, together.
fn groups(policies: &[PolicySuggestion]) -> Vec<Vec<&PolicySuggestion>> {
    let mut groups: Vec<Vec<&PolicySuggestion>> = Vec::new();
    for policy in policies {
        match groups.iter_mut().find(|group| have_used_the_same(group[0], policy)) {
            Some(group) => group.push(policy),
            None => groups.push(vec![policy]),
        }
    }
    groups
}

fn have_used_the_same(one: &PolicySuggestion, other: &PolicySuggestion) -> bool {
    let used = |window: &WindowSuggestion| {
        let WindowSuggestion { p50, p90, p99, p999, most, left_out, .. } = *window;
        [p50, p90, p99, p999, most, left_out]
    };
    one.keys == other.keys && one.windows.iter().map(used).eq(other.windows.iter().map(used))
}

fn table(group: &[&PolicySuggestion]) -> Table {
    let heads = ["P50", "P90", "P99", "P99.9", "Proposed", "Would refuse", "Left out"];
    let heads = std::iter::once(Head::Text("In any")).chain(heads.map(Head::Number));
    let row = |(index, window): (usize, &WindowSuggestion)| {
        vec![
            window.window.clone(),
            number(window.p50),
            number(window.p90),
            number(window.p99),
            number(window.p999),
            written(&format!("{}/{}", window.proposed, window.window)),
            refused(group, index),
            number(window.left_out),
        ]
    };
    let rows = group[0].windows.iter().enumerate().map(row);
    Table { heads: heads.collect(), rows: rows.collect() }
}

/// What the proposed limit refuses: a range if it is not the same for all policies.
fn refused(group: &[&PolicySuggestion], window: usize) -> String {
    let trials: Vec<_> =
        group.iter().filter_map(|policy| policy.windows[window].trial.as_ref()).collect();
    let Some(first) = trials.first() else { return "-".to_owned() };
    let range = |count: &dyn Fn(usize) -> u64| {
        let counts = || (0..trials.len()).map(count);
        [counts().min().unwrap_or(0), counts().max().unwrap_or(0)]
    };
    let refused = range(&|at| trials[at].refused);
    if refused[1] == 0 {
        return "none".to_owned();
    }
    let [least, most] = range(&|at| trials[at].keys_hit);
    let keys = count(most, noun(group[0].tells_clients_apart));
    let keys = if least == most { keys } else { format!("{} to {keys}", number(least)) };
    format!("{} of {keys}", share(refused[0], Some(refused), first.judged))
}

/// The keys that say nothing about the others.
fn left_out(policy: &PolicySuggestion) -> impl Iterator<Item = String> {
    policy.windows.iter().filter(|window| !window.listed.is_empty()).map(|window| {
        let listed = window.listed.iter();
        let listed = listed.map(|key| format!("{} ({})", key.client, number(key.peak)));
        format!("Left out in {}: {}", window.window, listed.collect::<Vec<_>>().join(", "))
    })
}
