//! The report as text for people.

use std::fmt::Write as _;

use super::report::{AgainstReport, PolicyReport, Report};
use super::series::Series;
use super::suggest::Suggestions;
use tollgate_limiter::time::Span;

/// The most steps of time in a row of bars.
const BARS: usize = 60;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The report as text.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_head(&mut out, report);
    out.push('\n');
    out.push_str(&policies(&report.policies));
    let _ = write_bars(&mut out, report);
    if let Some(against) = &report.against {
        let _ = write_against(&mut out, against);
    }
    if let Some(suggestions) = &report.suggestions {
        let _ = write_suggestions(&mut out, suggestions);
    }
    out
}

fn write_head(out: &mut String, report: &Report) -> std::fmt::Result {
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let (log, totals) = (&report.log, &report.totals);
    if !report.notes.is_empty() {
        out.push('\n');
    }
    let times = log.from.as_deref().zip(log.to.as_deref());
    let times = times.map_or_else(String::new, |(from, to)| format!(", {from} to {to}"));
    writeln!(out, "{} lines of {}{times}", log.lines, log.form())?;
    let refused = share(totals.refused, totals.refused_range, totals.judged);
    writeln!(out, "{} requests judged, {refused} refused", totals.judged)?;
    if let (Some(repeated), Some(different)) = (totals.repeated, totals.different) {
        writeln!(out, "{repeated} decisions are those of the log, {different} are not")?;
    }
    let others = [
        (log.no_request, "lines without a request"),
        (log.unread, "lines not read"),
        (totals.no_route, "requests that no route matches"),
        (totals.malformed, "requests that the gateway refuses as malformed"),
        (totals.held, "requests held"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "{count} {what}")?;
    }
    Ok(())
}

/// `12 (1.2 %)`, or a range.
fn share(count: u64, range: Option<[u64; 2]>, of: u64) -> String {
    match range {
        Some([least, most]) if least != most => {
            let (low, high) = (percent(least, of), percent(most, of));
            let percents = if low == high { low } else { format!("{low} to {high}") };
            format!("{least} to {most} ({percents} %)")
        }
        _ => format!("{count} ({} %)", percent(count, of)),
    }
}

/// A share in percent with one decimal; a share that is not zero is not shown as zero.
pub(super) fn percent(count: u64, of: u64) -> String {
    let tenths = (count.saturating_mul(1000) + of / 2) / of.max(1);
    if tenths == 0 && count > 0 {
        return "<0.1".to_owned();
    }
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn policies(policies: &[PolicyReport]) -> String {
    let heads =
        ["POLICY", "LIMIT", "JUDGED", "REFUSED", "KEYS HIT", "LONGEST WAIT", "WORST MINUTE"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(policies.iter().map(|policy| {
        let shadow = if policy.shadow { " (shadow)" } else { "" };
        let about = if policy.keys_hit_is_estimate { "about " } else { "" };
        let wait = match (policy.longest_wait_ms, policy.never_fits) {
            (0, 0) => "-".to_owned(),
            (0, _) => "never fits".to_owned(),
            (ms, _) => wait(ms),
        };
        let worst = policy.worst_minute.as_ref();
        vec![
            policy.name.clone(),
            format!("{}{shadow}", policy.limit),
            policy.judged.to_string(),
            share(policy.refused, policy.refused_range, policy.judged),
            format!("{about}{}", policy.keys_hit),
            wait,
            worst.map_or_else(
                || "-".to_owned(),
                |minute| {
                    format!("{} ({})", minute.at.get(..16).unwrap_or_default(), minute.refused)
                },
            ),
        ]
    }));
    aligned(&rows)
}

/// A wait, in whole seconds from ten seconds on.
fn wait(ms: u64) -> String {
    let ms = if ms < 10_000 { ms } else { ms.div_ceil(1000) * 1000 };
    Span::from_millis(ms).to_string()
}

/// A table with columns of equal width.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut table = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        table.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        table.push('\n');
    }
    table
}

fn write_bars(out: &mut String, report: &Report) -> std::fmt::Result {
    let refusing: Vec<_> = report.policies.iter().filter(|it| it.refused > 0).collect();
    let whole = report.totals.over_time.within(BARS);
    if refusing.is_empty() || whole.judged.len() < 2 {
        return Ok(());
    }
    let width = refusing.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    let width = width.max("requests".len());
    let step = Span::from_secs(whole.step_s);
    writeln!(out, "\nOver time, {step} a bar; the highest bar of each row:")?;
    let highest = |counts: &[u64]| counts.iter().copied().max().unwrap_or(0);
    writeln!(out, "{:width$}  {}  {}", "requests", bars(&whole.judged), highest(&whole.judged))?;
    for policy in refusing {
        let refused = refused_within(&policy.over_time, &whole);
        writeln!(out, "{:width$}  {}  {} refused", policy.name, bars(&refused), highest(&refused))?;
    }
    Ok(())
}

/// The refusals of a policy in the steps of another series.
pub(super) fn refused_within(series: &Series, whole: &Series) -> Vec<u64> {
    let mut refused = vec![0; whole.judged.len()];
    for (step, count) in (0_u64..).zip(&series.refused) {
        let at_s = (series.start_s + step * series.step_s).saturating_sub(whole.start_s);
        let index = usize::try_from(at_s / whole.step_s.max(1)).unwrap_or(usize::MAX);
        if let Some(sum) = refused.get_mut(index) {
            *sum += count;
        }
    }
    refused
}

/// One character for each count; a blank for none.
fn bars(counts: &[u64]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: &u64| match count {
        0 => ' ',
        count => {
            let level = (count * 8).div_ceil(most).clamp(1, 8) - 1;
            usize::try_from(level).map_or(' ', |level| LEVELS[level])
        }
    };
    counts.iter().map(bar).collect()
}

fn write_against(out: &mut String, against: &AgainstReport) -> std::fmt::Result {
    let AgainstReport { newly_refused, newly_admitted, .. } = against;
    writeln!(
        out,
        "\nAgainst the other configuration, which refuses {}:\n\
         {newly_refused} requests of {} clients are newly refused\n\
         {newly_admitted} requests of {} clients are newly admitted\n",
        against.refused_before, against.clients_newly_refused, against.clients_newly_admitted
    )?;
    let heads = ["POLICY", "REFUSED BEFORE", "REFUSED NOW"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let shown = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |it| it.to_string());
    rows.extend(
        against.policies.iter().map(|it| vec![it.name.clone(), shown(it.before), shown(it.after)]),
    );
    out.push_str(&aligned(&rows));
    Ok(())
}

fn write_suggestions(out: &mut String, suggestions: &Suggestions) -> std::fmt::Result {
    for policy in &suggestions.policies {
        writeln!(out, "\nThe most that each of {} keys of {} has used:", policy.keys, policy.name)?;
        let heads =
            ["IN ANY", "P50", "P90", "P99", "P99.9", "PROPOSED", "WOULD REFUSE", "LEFT OUT"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for window in &policy.windows {
            let trial = window.trial.as_ref().map_or_else(
                || "-".to_owned(),
                |trial| {
                    let keys = trial.keys_hit;
                    format!("{} of {keys} keys", share(trial.refused, None, trial.judged))
                },
            );
            rows.push(vec![
                window.window.clone(),
                window.p50.to_string(),
                window.p90.to_string(),
                window.p99.to_string(),
                window.p999.to_string(),
                format!("{}/{}", window.proposed, window.window),
                trial,
                window.left_out.to_string(),
            ]);
        }
        out.push_str(&aligned(&rows));
        for window in policy.windows.iter().filter(|window| !window.listed.is_empty()) {
            let listed = window.listed.iter().map(|key| format!("{} ({})", key.client, key.peak));
            let listed = listed.collect::<Vec<_>>().join(", ");
            writeln!(out, "left out in {}: {listed}", window.window)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_bars_are_short() {
        assert_eq!(percent(0, 100), "0.0");
        assert_eq!(percent(1, 3000), "<0.1");
        assert_eq!(percent(125, 1000), "12.5");
        assert_eq!(share(5, Some([5, 9]), 100), "5 to 9 (5.0 to 9.0 %)");
        assert_eq!(share(500, Some([500, 501]), 10_000), "500 to 501 (5.0 %)");
        assert_eq!(share(5, Some([5, 5]), 100), "5 (5.0 %)");
        assert_eq!(bars(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(bars(&[1, 1000]), "▁█");
        assert_eq!((wait(1500), wait(10_001)), ("1s500ms".to_owned(), "11s".to_owned()));
    }
}
