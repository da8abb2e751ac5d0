//! How many lines of a log were lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the lines of a log that were lost. Clones count together. Losing lines is rare,
/// and so all threads share the number.
#[derive(Clone, Debug, Default)]
pub struct LostLines(Arc<AtomicU64>);

impl LostLines {
    /// Counts lines.
    pub fn add(&self, lines: u64) {
        self.0.fetch_add(lines, Ordering::Relaxed);
    }

    /// All lines until now.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
