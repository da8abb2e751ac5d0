//! Lines in an area, in their styles, and tables of them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::super::table::{Row, Table, padded, width_of};

/// The styles. Colour never says anything alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pen {
    pub(super) has_colours: bool,
}

impl Pen {
    pub(super) const fn plain(self) -> Style {
        Style::new()
    }

    pub(super) const fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What needs attention.
    pub(super) const fn bad(self) -> Style {
        self.coloured(self.bold(), Color::Red)
    }

    /// What is as it should be.
    pub(super) const fn good(self) -> Style {
        self.coloured(self.bold(), Color::Green)
    }

    /// The heads of tables, and the view that is shown.
    pub(super) const fn head(self) -> Style {
        self.coloured(self.bold(), Color::Cyan)
    }

    /// A rate over time, and refusals.
    pub(super) const fn figure(self, is_refusing: bool) -> Style {
        self.coloured(self.plain(), if is_refusing { Color::Yellow } else { Color::Green })
    }

    const fn coloured(self, style: Style, colour: Color) -> Style {
        if self.has_colours { style.fg(colour) } else { style }
    }

    const fn row(self, row: &Row, is_selected: bool) -> Style {
        let style = match (row.is_bad, row.is_refusing) {
            (true, _) => self.bad(),
            (false, true) => self.figure(true),
            (false, false) => self.plain(),
        };
        if is_selected { style.add_modifier(Modifier::REVERSED) } else { style }
    }
}

/// The lines of an area, from above.
pub(super) struct Lines<'b> {
    pub(super) buffer: &'b mut Buffer,
    pub(super) area: Rect,
    pub(super) y: u16,
}

impl Lines<'_> {
    /// The lines that are left.
    pub(super) fn room(&self) -> u16 {
        self.area.bottom().saturating_sub(self.y)
    }

    pub(super) fn push(&mut self, text: &str, style: Style) {
        self.push_all(&[(text, style)]);
    }

    /// Writes one line of several parts.
    pub(super) fn push_all(&mut self, parts: &[(&str, Style)]) {
        if self.room() > 0 {
            self.put(self.y, parts);
            self.y += 1;
        }
    }

    /// Writes the last line of the area, over what is there.
    pub(super) fn last(&mut self, text: &str, style: Style) {
        if self.area.height > 1 {
            let blank = " ".repeat(usize::from(self.area.width));
            self.put(self.area.bottom() - 1, &[(&blank, Style::new())]);
            self.put(self.area.bottom() - 1, &[(text, style)]);
        }
    }

    fn put(&mut self, y: u16, parts: &[(&str, Style)]) {
        let mut x = self.area.x;
        let right = self.area.right();
        for (index, (text, style)) in parts.iter().enumerate() {
            let room = usize::from(right.saturating_sub(x));
            let is_last = index + 1 == parts.len();
            // A text that does not fit ends with `…`.
            let cut = padded(text, room, false);
            let text = if width_of(text) > room || is_last { cut.trim_end() } else { text };
            (x, _) = self.buffer.set_stringn(x, y, text, room, *style);
        }
    }
}

/// Writes a table: its heads, and as many rows as `room` has. With a selection, the selected row
/// is among them.
pub(super) fn push_table(
    table: &Table,
    selected: Option<usize>,
    pen: Pen,
    room: usize,
    lines: &mut Lines<'_>,
) {
    let columns = table.fit(usize::from(lines.area.width).saturating_sub(2));
    let line = |mark: &str, cells: &[String]| {
        let cells = columns.iter().map(|&(index, width)| {
            let cell = cells.get(index).map_or("", String::as_str);
            padded(cell, width, table.columns[index].is_number)
        });
        format!("{mark}{}", cells.collect::<Vec<_>>().join("  "))
    };
    let heads: Vec<String> = table.columns.iter().map(|it| it.head.clone()).collect();
    lines.push(&line("  ", &heads), pen.head());
    let first = selected.map_or(0, |selected| (selected + 1).saturating_sub(room.max(1)));
    for (index, row) in table.rows.iter().enumerate().skip(first).take(room) {
        let is_selected = Some(index) == selected;
        lines.push(&line(mark(row, is_selected), &row.cells), pen.row(row, is_selected));
    }
}

const fn mark(row: &Row, is_selected: bool) -> &'static str {
    match (is_selected, row.is_bad) {
        (true, true) => ">!",
        (true, false) => "> ",
        (false, true) => "! ",
        (false, false) => "  ",
    }
}
