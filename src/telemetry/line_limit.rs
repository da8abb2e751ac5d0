//! Limits how many lines one call site in the code may log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;

/// The most lines of one call site within [`WINDOW`].
const MAX_LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is written.
    Write {
        /// Lines of the same call site that were dropped since the last one.
        dropped: u64,
    },
    /// It exceeds the limit.
    Drop,
}

/// The recent lines of each call site. The program has a fixed number of call sites, so
/// the map is bounded.
#[derive(Debug, Default)]
pub struct LineLimit(Mutex<HashMap<Identifier, Lines>>);

/// The recent lines of one call site.
#[derive(Clone, Copy, Debug)]
struct Lines {
    since: Instant,
    written: u32,
    dropped: u64,
}

impl LineLimit {
    /// Whether `call_site` may write a line now.
    pub fn admit(&self, call_site: Identifier, now: Instant) -> Verdict {
        let mut sites = self.0.lock();
        let lines = sites.entry(call_site).or_insert(Lines { since: now, written: 0, dropped: 0 });
        if now.saturating_duration_since(lines.since) >= WINDOW {
            (lines.since, lines.written) = (now, 0);
        }
        if lines.written == MAX_LINES {
            lines.dropped += 1;
            return Verdict::Drop;
        }
        lines.written += 1;
        Verdict::Write { dropped: std::mem::take(&mut lines.dropped) }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;
    use tracing::callsite::{Callsite, DefaultCallsite};
    use tracing::metadata::Kind;
    use tracing::{Level, Metadata};

    use super::*;

    static FIRST: DefaultCallsite = DefaultCallsite::new(&FIRST_METADATA);
    static FIRST_METADATA: Metadata<'static> = metadata(&FIRST);
    static SECOND: DefaultCallsite = DefaultCallsite::new(&SECOND_METADATA);
    static SECOND_METADATA: Metadata<'static> = metadata(&SECOND);

    const fn metadata(call_site: &'static dyn Callsite) -> Metadata<'static> {
        let fields = tracing::field::FieldSet::new(&[], Identifier(call_site));
        Metadata::new("line", "test", Level::WARN, None, None, None, fields, Kind::EVENT)
    }

    #[test]
    fn each_call_site_has_a_limit_and_reports_how_many_lines_it_dropped() {
        let limit = LineLimit::default();
        let start = monotonic();
        // The hash of an identifier contains the address of a virtual table, of which the
        // compiler may make several. Like the program, the test uses the one in the metadata.
        let admit = |metadata: &Metadata<'_>, now| limit.admit(metadata.callsite(), now);
        let lines = [(); 900].map(|()| admit(&FIRST_METADATA, start));
        let written = lines.iter().filter(|line| **line == Verdict::Write { dropped: 0 }).count();
        assert_eq!(written, 10);
        assert_eq!(admit(&SECOND_METADATA, start), Verdict::Write { dropped: 0 });
        assert_eq!(admit(&FIRST_METADATA, start + WINDOW), Verdict::Write { dropped: 890 });
        assert_eq!(admit(&FIRST_METADATA, start + WINDOW), Verdict::Write { dropped: 0 });
    }
}
