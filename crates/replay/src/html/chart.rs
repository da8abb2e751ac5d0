//! Charts of counts over time, as SVG. Axes are text of the page, which stays legible where the
//! chart is narrow.

use std::fmt::{self, Write as _};

use super::escaped::Escaped;
use crate::layout::Chart;
use crate::words::{moment, moment_with_seconds, number};

/// The height of a chart, and the width of a step in it.
const HEIGHT: u64 = 160;
const STEP: u64 = 10;
/// The most times at the axis.
const MAX_TIMES: u64 = 7;
/// Distances of times at the axis, in seconds.
const DISTANCES: [u64; 16] =
    [1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800];
const DAY_S: u64 = 86_400;

/// A chart of all requests, and one of the refusals of each policy.
pub(super) fn write_charts(out: &mut String, chart: &Chart) -> fmt::Result {
    let legend = "<p class=\"legend\"><span class=\"mark all\"></span>admitted \
                  <span class=\"mark no\"></span>refused</p>";
    let caption = format!("All requests in each {}", each(&chart.step));
    let bars = [("all", &*chart.judged), ("no", &*chart.refused)];
    write_chart(out, chart, &caption, legend, &bars)?;
    for (name, refused) in &chart.policies {
        let caption = format!("Refused by {name} in each {}", each(&chart.step));
        let legend = "<p class=\"legend\"><span class=\"mark no\"></span>refused</p>";
        write_chart(out, chart, &caption, legend, &[("no", refused)])?;
    }
    Ok(())
}

/// `minute` for `1 minute`.
fn each(step: &str) -> &str {
    step.strip_prefix("1 ").unwrap_or(step)
}

fn write_chart(
    out: &mut String,
    chart: &Chart,
    caption: &str,
    legend: &str,
    bars: &[(&str, &[u64])],
) -> fmt::Result {
    let steps = u64::try_from(chart.judged.len()).unwrap_or(1).max(1);
    let highest = bars.iter().flat_map(|(_, counts)| counts.iter()).copied().max().unwrap_or(0);
    let top = round_above(highest);
    let width = steps * STEP;
    let caption = Escaped(caption);
    write!(
        out,
        "<figure><figcaption>{caption}. The highest: {}.</figcaption>{legend}\n<div class=\"plot\">\
         <div class=\"y\"><span>{}</span><span>{}</span><span>0</span></div>\
         <svg viewBox=\"0 0 {width} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{caption}\"><path class=\"grid\" d=\"M0 0H{width}M0 {}H{width}M0 {HEIGHT}H{width}\"/>",
        number(highest),
        number(top),
        if top.is_multiple_of(2) { number(top / 2) } else { String::new() },
        HEIGHT / 2,
    )?;
    for (class, counts) in bars {
        write!(out, "<path class=\"{class}\" d=\"")?;
        for (step, count) in (0_u64..).zip(*counts).filter(|(_, count)| **count > 0) {
            let height = (count * HEIGHT).div_ceil(top);
            let left = step * STEP;
            write!(out, "M{left} {HEIGHT}v-{height}h{}v{height}z", STEP - 1)?;
        }
        out.push_str("\"/>");
    }
    write_values(out, chart, bars)?;
    out.push_str("</svg><div class=\"x\">");
    write_times(out, chart, steps)?;
    out.push_str("</div></div></figure>\n");
    Ok(())
}

/// What is shown while the pointer is on a bar.
fn write_values(out: &mut String, chart: &Chart, bars: &[(&str, &[u64])]) -> fmt::Result {
    for (step, judged) in (0_u64..).zip(&chart.judged).filter(|(_, judged)| **judged > 0) {
        let index = usize::try_from(step).unwrap_or(usize::MAX);
        let refused = bars.last().and_then(|(_, counts)| counts.get(index)).unwrap_or(&0);
        write!(
            out,
            "<rect x=\"{}\" width=\"{STEP}\" height=\"{HEIGHT}\"><title>{}: {} of {} refused</title></rect>",
            step * STEP,
            moment_with_seconds(chart.start_s + step * chart.step_s),
            number(*refused),
            number(*judged)
        )?;
    }
    Ok(())
}

/// Round times at the axis, with their places.
fn write_times(out: &mut String, chart: &Chart, steps: u64) -> fmt::Result {
    let length = steps * chart.step_s;
    let distance = distance(length);
    let first = chart.start_s.div_ceil(distance) * distance;
    let mut at_s = first;
    while at_s < chart.start_s + length {
        let per_mille = (at_s - chart.start_s) * 1000 / length;
        let class = if (at_s - first) / distance % 2 == 1 { " class=\"second\"" } else { "" };
        let label = label(at_s, distance, length);
        write!(
            out,
            "<span{class} style=\"left:{}.{}%\">{label}</span>",
            per_mille / 10,
            per_mille % 10
        )?;
        at_s += distance;
    }
    Ok(())
}

fn distance(length: u64) -> u64 {
    let days = std::iter::successors(Some(4 * DAY_S), |days| days.checked_mul(2));
    let mut distances = DISTANCES.into_iter().chain(days);
    distances.find(|distance| length / distance < MAX_TIMES).unwrap_or(length.max(1))
}

/// The time, the day, or both: what tells the times at the axis apart.
fn label(at_s: u64, distance: u64, length: u64) -> String {
    let text = if distance < 60 { moment_with_seconds(at_s) } else { moment(at_s) };
    let (day, time) = text.rsplit_once(' ').unwrap_or(("", &text));
    match () {
        () if distance >= DAY_S => day.to_owned(),
        () if length > DAY_S => format!("{day} {time}"),
        () => time.to_owned(),
    }
}

/// A round number that is not below this one.
fn round_above(number: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for step in [1, 2, 4, 5, 6, 8] {
            let round = power.saturating_mul(step);
            if round >= number {
                return round;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_round() {
        let cases = [(0, 1), (1, 1), (3, 4), (9, 10), (681, 800), (5555, 6000)];
        for (number, round) in cases {
            assert_eq!(round_above(number), round, "{number}");
        }
        let cases = [(10, 5), (60, 10), (3600, 600), (21_600, 3600), (DAY_S, 21_600)];
        for (length, between) in cases {
            assert_eq!(distance(length), between, "{length}");
        }
        assert_eq!(label(1_795_246_126, 60, 3600), "07:28");
        assert_eq!(label(1_795_246_126, 10, 60), "07:28:46");
        assert_eq!(label(1_795_246_126, 43_200, 3 * DAY_S), "21 Nov 07:28");
        assert_eq!(label(1_795_246_126, DAY_S, 7 * DAY_S), "21 Nov");
    }
}
