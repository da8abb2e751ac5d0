//! Draws a state: a title, the views, what is wrong, a table, and a line about the keys.
//!
//! Colour never says anything alone: a row that needs attention has `!`, the selected one `>`.

mod lines;
mod overview;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, Clear, Widget as _};

use super::model::{Dialog, State};
use super::rows::{VIEWS, View, reasons, sources};
use super::table::{Table, width_of};
use lines::{Lines, Pen, push_table};

/// What the keys do.
pub(super) const HELP: [&str; 13] = [
    "1-6, Tab      another view",
    "up/down, j/k  another row; also PageUp, PageDown, Home, End",
    "s             another order",
    "/             show only rows with a text; Esc ends that",
    "Enter, e      explain the client or the refusal",
    "r             reset the counters of the client, after a question",
    "p             pause: keep what is shown",
    "?             this help",
    "q, Ctrl-C     quit",
    "",
    "Policies: the last minute. Clients: the minute in progress and the",
    "one before it. Counts of clients are never too low, and too high by",
    "ERROR at most.",
];
/// The most lines about what is wrong above a table.
const MAX_REASONS: usize = 3;

/// Draws onto the whole area.
pub(super) fn draw(state: &State, has_colours: bool, area: Rect, buffer: &mut Buffer) {
    let pen = Pen { has_colours };
    let mut lines = Lines { buffer, area, y: area.y };
    let reasons = reasons(&state.figures, state.now);
    let state_style = if reasons.is_empty() { pen.good() } else { pen.bad() };
    let [name, word, figures] = title(state);
    lines.push_all(&[(&name, pen.bold()), (&word, state_style), (&figures, pen.bold())]);
    push_tabs(state.view, pen, &mut lines);
    let table = state.table();
    match state.view {
        View::Overview => overview::draw(state, &reasons, pen, &mut lines),
        view => {
            let first = reasons.iter().take(MAX_REASONS);
            first.for_each(|it| lines.push(&format!("! {}", it.line), pen.bad()));
            // The store has a line below its table, and each view one about the keys.
            let below = usize::from(view == View::Store);
            draw_table(state, &table, pen, below, &mut lines);
        }
    }
    lines.last(&footer(state, &table), pen.bold());
    draw_dialog(state, pen, area, lines.buffer);
}

fn draw_table(state: &State, table: &Table, pen: Pen, below: usize, lines: &mut Lines<'_>) {
    let room = usize::from(lines.room()).saturating_sub(2 + below);
    push_table(table, Some(state.selected(table.rows.len())), pen, room, lines);
    if table.rows.is_empty() {
        let nothing = match (state.figures.told().next(), &*state.filter) {
            (None, _) => "  waiting for the first answer",
            (_, "") => "  nothing yet",
            _ => "  no row has this text",
        };
        lines.push(nothing, pen.plain());
    }
    if below > 0 {
        lines.push(&sources(&state.figures), pen.plain());
    }
}

/// The title in three parts: the name, the state, and the rates.
fn title(state: &State) -> [String; 3] {
    let of = |name: &str| {
        state.figures.rate(name).map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
    };
    let paused = if state.is_paused { "  PAUSED" } else { "" };
    let requests = of("requests");
    let refused = of("refused");
    let rates = format!("{paused}  {requests} req/s, {refused} refused/s");
    ["tollgate top  ".to_owned(), state.figures.state(), rates]
}

fn push_tabs(view: View, pen: Pen, lines: &mut Lines<'_>) {
    let tab = |(number, it): (usize, &View)| match *it == view {
        true => (format!("[{number} {}]", it.name()), pen.head()),
        false => (format!(" {number} {} ", it.name()), pen.plain()),
    };
    let mut tabs: Vec<_> = (1..).zip(&VIEWS).map(tab).collect();
    let width: usize = tabs.iter().map(|(text, _)| width_of(text)).sum();
    if width > usize::from(lines.area.width) {
        let short = format!("[{} {}]  1-6, Tab: others", view.index() + 1, view.name());
        tabs = vec![(short, pen.head())];
    }
    let parts: Vec<_> = tabs.iter().map(|(text, style)| (&**text, *style)).collect();
    lines.push_all(&parts);
}

fn footer(state: &State, table: &Table) -> String {
    if let Dialog::Filter(_) = state.dialog {
        return format!("/{}_  Enter keeps it, Esc ends", state.filter);
    }
    if !state.message.is_empty() {
        return state.message.clone();
    }
    let rows = table.rows.len();
    let row = if rows == 0 { 0 } else { state.selected(rows) + 1 };
    let order = state.order().map(|it| format!("  s by {it}")).unwrap_or_default();
    let filter =
        if state.filter.is_empty() { String::new() } else { format!("  /{}", state.filter) };
    format!("q quit  ? help  {row}/{rows}{order}{filter}  e explain  r reset  p pause")
}

fn draw_dialog(state: &State, pen: Pen, area: Rect, buffer: &mut Buffer) {
    let (title, lines, from) = match &state.dialog {
        Dialog::None | Dialog::Filter(_) => return,
        Dialog::Help => ("Help", HELP.map(str::to_owned).to_vec(), 0),
        Dialog::Explained { client, lines, from } => {
            let about = format!("{} under {}", client.text, client.policy);
            let lines = [about, String::new()].into_iter().chain(lines.iter().cloned());
            ("Explained (Esc closes, r resets)", lines.collect(), *from)
        }
        Dialog::Reset(client) => {
            let lines = vec![
                format!("Reset {} ({})", client.text, client.id),
                format!("under {}?", client.policy),
                String::new(),
                "It forgets the counter of this key, its ban and".to_owned(),
                format!("its refusals, {}.", reach(state)),
                String::new(),
                "y: reset   n: leave it".to_owned(),
            ];
            ("Reset", lines, 0)
        }
    };
    let inner = usize::from(area.width.saturating_sub(4)).clamp(1, 76);
    let lines: Vec<String> = lines.iter().flat_map(|line| wrapped(line, inner)).collect();
    let widest = lines.iter().map(|line| width_of(line)).max().unwrap_or(0).max(width_of(title));
    let size = |inner: usize, most: u16| {
        u16::try_from(inner).unwrap_or(u16::MAX).saturating_add(2).min(most)
    };
    let width = size(widest + 2, area.width);
    let height = size(lines.len(), area.height);
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let place = Rect { x, y, width, height };
    Clear.render(place, buffer);
    let block = Block::bordered().title(title).style(pen.plain());
    let within = block.inner(place);
    block.render(place, buffer);
    let mut shown = Lines { buffer, area: within, y: within.y };
    lines.iter().skip(from).for_each(|line| shown.push(&format!(" {line}"), pen.plain()));
}

/// Where a reset acts.
fn reach(state: &State) -> String {
    let is_shared = |it: &super::figures::Answers| it.nodes["items"][0]["scope"] != "node";
    match (state.figures.told().any(|(_, it)| is_shared(it)), state.figures.nodes.len()) {
        (true, _) => "on all nodes that share the store".to_owned(),
        (false, 1) => "on this node".to_owned(),
        (false, nodes) => format!("on each of these {nodes} nodes"),
    }
}

/// The line in pieces that fit.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = pieces.last().map_or(0, |it| width_of(it));
        if last > 0 && last + width_of(word.trim_end()) > width {
            pieces.push(String::new());
        }
        for c in word.chars() {
            let mut buffer = [0; 4];
            let own = width_of(c.encode_utf8(&mut buffer));
            if pieces.last().is_some_and(|it| width_of(it) + own > width && c != ' ') {
                pieces.push(String::new());
            }
            if let Some(last) = pieces.last_mut() {
                last.push(c);
            }
        }
    }
    pieces.iter_mut().for_each(|piece| piece.truncate(piece.trim_end().len()));
    pieces
}

/// The state as text, for tests.
#[cfg(test)]
pub(super) fn text(state: &State, width: u16, height: u16) -> String {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it has a size");
    let drawn = terminal.draw(|frame| draw(state, true, frame.area(), frame.buffer_mut()));
    let buffer = drawn.expect("nothing can fail").buffer.clone();
    let rows = buffer.content.chunks(usize::from(width));
    let line = |row: &[ratatui::buffer::Cell]| {
        row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
            + "\n"
    };
    rows.map(line).collect()
}

#[cfg(test)]
mod tests;
