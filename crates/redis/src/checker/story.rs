//! What happened in a run, for its reader. Only told when a run has failed: then
//! the same seed is run once more, and listened to.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// More lines than this are not kept: the latest are.
const MAX_LINES: usize = 20_000;

/// A bounded list of what happened when.
pub(super) struct Story {
    lines: Option<RefCell<Lines>>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<(u64, String)>,
    dropped: usize,
}

impl Story {
    /// One that is told, or one that costs nothing.
    pub(super) fn new(is_told: bool) -> Self {
        Self { lines: is_told.then(RefCell::default) }
    }

    pub(super) fn tell(&self, at_us: impl FnOnce() -> u64, line: impl FnOnce() -> String) {
        let Some(lines) = &self.lines else { return };
        let at_us = at_us();
        let line = line();
        let mut lines = lines.borrow_mut();
        lines.kept.push_back((at_us, line));
        if lines.kept.len() > MAX_LINES {
            lines.kept.pop_front();
            lines.dropped += 1;
        }
    }

    /// All of it, one line for each event.
    pub(super) fn text(&self) -> String {
        let Some(lines) = &self.lines else { return String::new() };
        let lines = lines.borrow();
        let mut text = String::new();
        if lines.dropped > 0 {
            let _ = writeln!(text, "  ({} earlier lines are left out)", lines.dropped);
        }
        for (at_us, line) in &lines.kept {
            let _ = writeln!(text, "  {:>7}.{:03} ms  {line}", at_us / 1000, at_us % 1000);
        }
        text
    }
}
