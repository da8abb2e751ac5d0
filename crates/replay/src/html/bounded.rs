//! What of a report a page shows, so that the page stays small however many policies there are.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::report::Report;
use crate::words::count;

/// The most policies of a page.
const MAX_POLICIES: usize = 25;
/// The most notes of a page.
const MAX_NOTES: usize = 25;

/// The report with the policies that have the most refusals, in the order of the configuration, and
/// a sentence on the others.
pub(super) fn bounded(report: &Report) -> (Report, Option<String>) {
    let mut shown = report.clone();
    let policies = refusals(report);
    let kept: HashSet<&str> = most_refusing(&policies).collect();
    let is_cut = kept.len() < policies.len();
    if is_cut {
        shown.policies.retain(|policy| kept.contains(&*policy.name));
        if let Some(against) = &mut shown.against {
            against.policies.retain(|policy| kept.contains(&*policy.name));
        }
        if let Some(suggestions) = &mut shown.suggestions {
            suggestions.policies.retain(|policy| kept.contains(&*policy.name));
        }
    }
    let more_notes = report.notes.len().saturating_sub(MAX_NOTES);
    if more_notes > 0 {
        shown.notes.truncate(MAX_NOTES);
        let more = count(u64::try_from(more_notes).unwrap_or(u64::MAX), "more note");
        shown.notes.push(format!("{more}: the text and the JSON of tollgate replay have them"));
    }
    let sentence = format!(
        "This page shows the {MAX_POLICIES} policies with the most refusals, of {} policies. The text \
         and the JSON of tollgate replay have all of them.",
        policies.len()
    );
    (shown, is_cut.then_some(sentence))
}

/// All policies of a report with their refusals, those of the other configuration, too.
fn refusals(report: &Report) -> Vec<(&str, u64)> {
    match &report.against {
        Some(against) => against
            .policies
            .iter()
            .map(|it| (&*it.name, it.before.max(it.after).unwrap_or(0)))
            .collect(),
        None => report.policies.iter().map(|it| (&*it.name, it.refused)).collect(),
    }
}

fn most_refusing<'r>(policies: &[(&'r str, u64)]) -> impl Iterator<Item = &'r str> {
    let mut policies = policies.to_vec();
    policies.sort_by_key(|(_, refused)| Reverse(*refused));
    policies.into_iter().take(MAX_POLICIES).map(|(name, _)| name)
}
