//! The report as text for people.

use std::fmt::{self, Write as _};

use super::document::layout;
use super::layout::{Block, Chart, Head, Table, Written};
use super::report::Report;
use super::words::{moment, number};

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The report as text.
pub fn text(report: &Report) -> String {
    let layout = layout(report);
    let mut out = layout.title;
    out.push('\n');
    for section in layout.sections {
        if !section.heading.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "\n{}:", section.heading);
        }
        for (index, block) in section.blocks.iter().enumerate() {
            let _ = write_block(&mut out, block, index == 0);
        }
    }
    out
}

fn write_block(out: &mut String, block: &Block, is_first: bool) -> fmt::Result {
    match block {
        Block::Lines(lines) => lines.iter().try_for_each(|line| writeln!(out, "{line}")),
        Block::Items(items) => items.iter().try_for_each(|item| writeln!(out, "- {item}")),
        Block::Part(heading) => {
            let space = if is_first { "" } else { "\n" };
            writeln!(out, "{space}{heading}:")
        }
        Block::Table(table) => {
            out.push_str(&aligned(table));
            Ok(())
        }
        Block::Write(lines) => write_lines(out, lines),
        Block::Chart(chart) => write_chart(out, chart),
        Block::Meanings(_) => Ok(()),
    }
}

fn write_lines(out: &mut String, lines: &[Written]) -> fmt::Result {
    let width = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
    lines.iter().try_for_each(|line| writeln!(out, "  {:width$}   {}", line.text, line.about))
}

/// A table with columns of equal width.
fn aligned(table: &Table) -> String {
    let heads = table.heads.iter().map(Head::text).map(str::to_uppercase);
    let mut rows = vec![heads.collect::<Vec<_>>()];
    rows.extend(table.rows.iter().cloned());
    let columns = table.heads.len();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn write_chart(out: &mut String, chart: &Chart) -> fmt::Result {
    let widths = chart.policies.iter().map(|(name, _)| name.chars().count());
    let width = widths.max().unwrap_or(0).max("requests".len());
    let start = moment(chart.start_s);
    let step = &chart.step;
    writeln!(out, "From {start} UTC, {step} a bar; the highest bar of each row:")?;
    let highest = |counts: &[u64]| number(counts.iter().copied().max().unwrap_or(0));
    let all = &chart.judged;
    writeln!(out, "{:width$}  {}  {}", "requests", bars(all), highest(all))?;
    for (name, refused) in &chart.policies {
        writeln!(out, "{name:width$}  {}  {} refused", bars(refused), highest(refused))?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_relative_to_the_highest() {
        assert_eq!(bars(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(bars(&[1, 1000]), "▁█");
    }
}
