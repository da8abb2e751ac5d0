//! Tables of text, which fit into any width.

use ratatui::text::Line;
use serde_json::Value;

/// The most columns of the terminal that a cell takes.
const MAX_CELL: usize = 44;
/// Between two columns.
pub(super) const GAP: usize = 2;

/// A table. Each row has a cell for each column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) head: String,
    /// Whether its cells are at the right.
    pub(super) is_number: bool,
    /// Columns with a small number are left out first if there is no room.
    pub(super) keep: u8,
}

/// A row, and what it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) about: About,
    /// Whether it needs attention.
    pub(super) is_bad: bool,
    /// Whether it has refusals. Its numbers say so; the colour is only faster to find.
    pub(super) is_refusing: bool,
}

/// What a row is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum About {
    /// Nothing that could be explained.
    #[default]
    Nothing,
    /// A policy.
    Policy(String),
    /// A client of a policy.
    Key(Client),
    /// A refusal, as the gateway tells it.
    Refusal(Client, Box<Value>),
}

/// A client of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) policy: String,
    pub(super) id: String,
    pub(super) text: String,
    /// The plan whose limit holds for it.
    pub(super) plan: Option<String>,
}

/// A column of texts.
pub(super) fn text(head: &str, keep: u8) -> Column {
    Column { head: head.to_owned(), is_number: false, keep }
}

/// A column of numbers.
pub(super) fn number(head: &str, keep: u8) -> Column {
    Column { head: head.to_owned(), is_number: true, keep }
}

impl Row {
    /// A row about nothing.
    pub(super) fn of(cells: Vec<String>) -> Self {
        Self { cells, ..Self::default() }
    }

    /// A row about something.
    pub(super) fn about(cells: Vec<String>, about: About) -> Self {
        Self { cells, about, ..Self::default() }
    }

    /// Whether a cell has this text, which is in small letters.
    pub(super) fn contains(&self, wanted: &str) -> bool {
        wanted.is_empty() || self.cells.iter().any(|cell| cell.to_lowercase().contains(wanted))
    }
}

impl Table {
    /// The columns that fit into `width`, each with its index and its own width. The last
    /// column of texts gets what is left.
    pub(super) fn fit(&self, width: usize) -> Vec<(usize, usize)> {
        let widest = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(index));
            let widest = cells.map(|cell| width_of(cell)).max().unwrap_or(0);
            widest.min(MAX_CELL).max(width_of(&self.columns[index].head))
        };
        let mut fitting: Vec<(usize, usize)> =
            (0..self.columns.len()).map(|index| (index, widest(index))).collect();
        let total = |fitting: &[(usize, usize)]| {
            let gaps = GAP * fitting.len().saturating_sub(1);
            fitting.iter().map(|(_, width)| width).sum::<usize>() + gaps
        };
        while fitting.len() > 1 && total(&fitting) > width {
            // A long column of texts is shortened before an important one is left out.
            let over = total(&fitting) - width;
            let longest = fitting.iter_mut().filter(|(it, _)| !self.columns[*it].is_number);
            if let Some(longest) = longest.max_by_key(|(_, width)| *width)
                && longest.1 >= over + 14
            {
                longest.1 -= over;
                break;
            }
            let least =
                fitting.iter().enumerate().rev().min_by_key(|(_, it)| self.columns[it.0].keep);
            let Some((place, _)) = least else { break };
            fitting.remove(place);
        }
        if let [only] = &mut fitting[..] {
            only.1 = only.1.min(width);
        }
        fitting
    }

    /// The table as lines of plain text.
    pub(super) fn plain(&self, width: usize) -> String {
        let columns = self.fit(width);
        let line = |cells: &[String]| {
            let cells = columns.iter().map(|&(index, width)| {
                let cell = cells.get(index).map_or("", String::as_str);
                padded(cell, width, self.columns[index].is_number)
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let heads: Vec<String> = self.columns.iter().map(|it| it.head.clone()).collect();
        let rows = self.rows.iter().map(|row| line(&row.cells));
        std::iter::once(line(&heads)).chain(rows).collect()
    }
}

/// The columns of a terminal that a text takes.
pub(super) fn width_of(text: &str) -> usize {
    Line::from(text).width()
}

/// The text in exactly `width` columns. One that is too long ends with `…`.
pub(super) fn padded(text: &str, width: usize, is_number: bool) -> String {
    let mut fitting = text.to_owned();
    if width_of(&fitting) > width {
        while !fitting.is_empty() && width_of(&fitting) + 1 > width {
            fitting.pop();
        }
        if width > 0 {
            fitting.push('…');
        }
    }
    let blank = " ".repeat(width.saturating_sub(width_of(&fitting)));
    if is_number { blank + &fitting } else { fitting + &blank }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(cells: &[[&str; 3]]) -> Table {
        let rows = cells.iter().map(|cells| Row {
            cells: cells.iter().map(|it| (*it).to_owned()).collect(),
            ..Row::default()
        });
        let columns = vec![text("POLICY", 9), number("REFUSED", 5), text("LIMIT", 1)];
        Table { columns, rows: rows.collect() }
    }

    #[test]
    fn columns_that_matter_less_are_left_out_first() {
        let table = table(&[["per-client", "12", "100/1m"], ["a", "7", "5/1s"]]);
        let wide =
            "POLICY      REFUSED  LIMIT\nper-client       12  100/1m\na                 7  5/1s\n";
        assert_eq!(table.plain(80), wide);
        assert_eq!(
            table.plain(20),
            "POLICY      REFUSED\nper-client       12\na                 7\n"
        );
        assert_eq!(table.plain(8), "POLICY\nper-cli…\na\n");
    }

    #[test]
    fn wide_characters_take_their_room() {
        assert_eq!(padded("東京", 5, false), "東京 ");
        assert_eq!(padded("東京都", 5, false), "東京…");
        assert_eq!(padded("7", 3, true), "  7");
        assert_eq!(padded("abc", 0, false), "");
    }

    proptest! {
        #[test]
        fn lines_never_exceed_the_width(
            cells in prop::collection::vec(["\\PC{0,30}", "[0-9]{0,9}", "\\PC{0,60}"], 0..6),
            width in 1..200_usize,
        ) {
            let cells: Vec<[&str; 3]> = cells.iter().map(|it| [&*it[0], &*it[1], &*it[2]]).collect();
            for line in table(&cells).plain(width).lines() {
                prop_assert!(width_of(line) <= width.max(1), "{line:?} in {width}");
            }
        }
    }
}
