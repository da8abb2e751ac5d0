//! The overview: what is wrong, the gateways, their rates over time, and the first policies and
//! clients, in as many lines as there are.

use super::super::model::State;
use super::super::rows::{Rate, Reason, View};
use super::super::table::Table;
use super::lines::{Lines, Pen, push_table};

/// The least lines of a part: its heads and two rows.
const LEAST_PART: usize = 3;

/// Draws it, but for the last line.
pub(super) fn draw(state: &State, reasons: &[Reason], pen: Pen, lines: &mut Lines<'_>) {
    let room = |lines: &Lines<'_>| usize::from(lines.room()).saturating_sub(1);
    push_reasons(reasons, room(lines) / 4, pen, lines);
    let mut asked = state.asked(View::Overview);
    asked.filter = "";
    let gateways = View::Overview.table(&state.figures, &asked);
    push_table(&gateways, None, pen, (room(lines) / 3).max(1), lines);
    if room(lines) >= 2 + 2 * LEAST_PART {
        for rate in Rate::ALL {
            let width = usize::from(lines.area.width).saturating_sub(2);
            if let Some(chart) = rate.chart(&state.figures, width) {
                let style = pen.figure(rate == Rate::Refused);
                lines.push(&format!("  {chart}"), style);
            }
        }
    }
    push_parts(state, room(lines), pen, lines);
}

/// What is wrong, in this many lines.
fn push_reasons(reasons: &[Reason], room: usize, pen: Pen, lines: &mut Lines<'_>) {
    let all: Vec<String> = reasons.iter().flat_map(Reason::lines).collect();
    let room = room.max(1);
    let shown = if all.len() > room { room - 1 } else { all.len() };
    for line in &all[..shown] {
        lines.push(line, if line.starts_with('!') { pen.bad() } else { pen.plain() });
    }
    if all.len() > shown {
        let rest = all.len() - shown;
        lines.push(&format!("! {rest} more lines: tollgate top --once shows them"), pen.bad());
    }
}

/// The policies and the clients. If there is room for one part only, it is the one with the
/// selection.
fn push_parts(state: &State, room: usize, pen: Pen, lines: &mut Lines<'_>) {
    let [policies, clients] = state.parts();
    let above = policies.rows.len();
    let below = clients.rows.len();
    let selected = state.selected(above + below);
    let in_policies = (selected < above).then_some(selected);
    let in_clients = selected.checked_sub(above);
    if room < 2 * LEAST_PART {
        let (part, selected) = match in_policies {
            Some(_) => (policies, in_policies),
            None if below > 0 => (clients, in_clients),
            None => (policies, None),
        };
        push_part(state, &part, selected, pen, room, lines);
        return;
    }
    // What one part does not need is the other's.
    let half = room / 2;
    let first = if below + 1 < room - half { room - (below + 1).max(2) } else { half };
    let first = first.min(above.max(1) + 1);
    push_part(state, &policies, in_policies, pen, first, lines);
    push_part(state, &clients, in_clients, pen, room - first, lines);
}

fn push_part(
    state: &State,
    part: &Table,
    selected: Option<usize>,
    pen: Pen,
    room: usize,
    lines: &mut Lines<'_>,
) {
    if room == 0 {
        return;
    }
    push_table(part, selected, pen, room - 1, lines);
    if part.rows.is_empty() && room > 1 {
        let nothing = if state.filter.is_empty() { "nothing yet" } else { "no row has this text" };
        lines.push(&format!("  {nothing}"), pen.plain());
    }
}
