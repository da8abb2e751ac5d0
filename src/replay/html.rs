//! The report as one HTML file. It contains its style and its charts (SVG), runs no script
//! and loads nothing.

use std::fmt::{self, Display, Write as _};

use super::report::{PolicyReport, Report};
use super::series::Series;
use super::suggest::Suggestions;
use super::table::{percent, refused_within};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}\
th,td{text-align:left;padding:.25rem .75rem;border-bottom:1px solid #8888}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
svg{width:100%;height:auto}\
.judged{fill:#8aa4c8}.refused{fill:#c0392b}";
const WIDTH: u64 = 960;
const HEIGHT: u64 = 160;
/// The most steps of time in a chart.
const STEPS: usize = 240;

/// The report as a page.
pub(crate) fn page(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, report);
    out
}

/// Text in which no character is markup.
struct Escaped<'t>(&'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

fn write_page(out: &mut String, report: &Report) -> fmt::Result {
    let (log, totals) = (&report.log, &report.totals);
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Replay</title><style>{STYLE}</style></head><body>\n<h1>Replay</h1>"
    )?;
    if !report.notes.is_empty() {
        out.push_str("<h2>What the replay cannot know</h2>\n<ul>\n");
        for note in &report.notes {
            writeln!(out, "<li>{}</li>", Escaped(note))?;
        }
        out.push_str("</ul>\n");
    }
    writeln!(
        out,
        "<p>{} lines of {}, {} to {}. {} requests judged, {} ({} %) refused.</p>",
        log.lines,
        log.form(),
        log.from.as_deref().unwrap_or("-"),
        log.to.as_deref().unwrap_or("-"),
        totals.judged,
        totals.refused,
        percent(totals.refused, totals.judged)
    )?;
    write_policies(out, &report.policies)?;
    let whole = totals.over_time.within(STEPS);
    write_chart(out, "All requests", &whole, &whole.refused)?;
    for policy in report.policies.iter().filter(|policy| policy.refused > 0) {
        let refused = refused_within(&policy.over_time, &whole);
        write_chart(out, &policy.name, &whole, &refused)?;
    }
    if let Some(against) = &report.against {
        writeln!(
            out,
            "<h2>Against the other configuration</h2>\n<p>{} requests of {} clients are newly refused, \
             {} requests of {} clients are newly admitted.</p>",
            against.newly_refused,
            against.clients_newly_refused,
            against.newly_admitted,
            against.clients_newly_admitted
        )?;
    }
    if let Some(suggestions) = &report.suggestions {
        write_suggestions(out, suggestions)?;
    }
    out.push_str("</body></html>\n");
    Ok(())
}

fn write_policies(out: &mut String, policies: &[PolicyReport]) -> fmt::Result {
    write_heads(
        out,
        &["Policy", "Limit", "Judged", "Refused", "Keys hit", "Longest wait", "Worst minute"],
    )?;
    for policy in policies {
        let worst = policy.worst_minute.as_ref();
        let worst = worst.map_or_else(String::new, |it| format!("{} ({})", it.at, it.refused));
        let refused = match policy.refused_range {
            Some([least, most]) if least != most => format!("{least} to {most}"),
            _ => policy.refused.to_string(),
        };
        writeln!(
            out,
            "<tr><td>{}{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{refused} ({} %)</td>\
             <td class=\"n\">{}</td><td class=\"n\">{} ms</td><td>{worst}</td></tr>",
            Escaped(&policy.name),
            if policy.shadow { " (shadow)" } else { "" },
            policy.limit,
            policy.judged,
            percent(policy.refused, policy.judged),
            policy.keys_hit,
            policy.longest_wait_ms,
        )?;
    }
    out.push_str("</table>\n");
    Ok(())
}

fn write_heads(out: &mut String, heads: &[&str]) -> fmt::Result {
    out.push_str("<table><tr>");
    for head in heads {
        write!(out, "<th scope=\"col\">{head}</th>")?;
    }
    out.push_str("</tr>\n");
    Ok(())
}

/// Bars of the judged requests, and in front of them those that were refused.
fn write_chart(out: &mut String, title: &str, whole: &Series, refused: &[u64]) -> fmt::Result {
    let most = whole.judged.iter().copied().max().unwrap_or(0).max(1);
    let most_refused = refused.iter().copied().max().unwrap_or(0);
    let steps = u64::try_from(whole.judged.len()).unwrap_or(1).max(1);
    let title = Escaped(title);
    writeln!(
        out,
        "<h2>{title}</h2>\n<p>Steps of {} s. The most in one step: {most} judged, {most_refused} refused.</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}: judged and refused requests \
         over time\">",
        whole.step_s
    )?;
    let bars = [("judged", whole.judged.as_slice()), ("refused", refused)];
    for (class, counts) in bars {
        for (step, count) in (0_u64..).zip(counts).filter(|(_, count)| **count > 0) {
            let (left, right) = (step * WIDTH / steps, (step + 1) * WIDTH / steps);
            let height = (count * HEIGHT).div_ceil(most).min(HEIGHT);
            writeln!(
                out,
                "<rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{}\" height=\"{height}\"/>",
                HEIGHT - height,
                (right - left).max(1)
            )?;
        }
    }
    out.push_str("</svg>\n");
    Ok(())
}

fn write_suggestions(out: &mut String, suggestions: &Suggestions) -> fmt::Result {
    for policy in &suggestions.policies {
        let name = Escaped(&policy.name);
        writeln!(out, "<h2>Suggested limits for {name}</h2>\n<p>{} keys.</p>", policy.keys)?;
        write_heads(
            out,
            &["In any", "p50", "p90", "p99", "p99.9", "Proposed", "Would refuse", "Left out"],
        )?;
        for window in &policy.windows {
            let refused = window.trial.as_ref().map_or_else(
                || "not tried".to_owned(),
                |trial| format!("{} of {} keys", trial.refused, trial.keys_hit),
            );
            let counts = [window.p50, window.p90, window.p99, window.p999];
            let counts: String =
                counts.iter().map(|count| format!("<td class=\"n\">{count}</td>")).collect();
            writeln!(
                out,
                "<tr><td>{0}</td>{counts}<td class=\"n\">{1}/{0}</td><td class=\"n\">{refused}</td>\
                 <td class=\"n\">{2}</td></tr>",
                window.window, window.proposed, window.left_out
            )?;
        }
        out.push_str("</table>\n");
    }
    Ok(())
}
