//! How many lines one place in the code may log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;

/// Lines of one place within [`WINDOW`].
const MAX_LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is written; so many of its kind were not since the last one.
    Write {
        /// Lines that were dropped.
        dropped: u64,
    },
    /// It is one too many.
    Drop,
}

/// What each place in the code has logged lately. There are as many places as
/// the program has, so that the map has a bound.
#[derive(Debug, Default)]
pub(super) struct LineLimit(Mutex<HashMap<Identifier, Lines>>);

/// The lines of one place.
#[derive(Clone, Copy, Debug)]
struct Lines {
    since: Instant,
    written: u32,
    dropped: u64,
}

impl LineLimit {
    /// Whether `place` may write a line now.
    pub(super) fn admit(&self, place: Identifier, now: Instant) -> Verdict {
        let mut places = self.0.lock();
        let lines = places.entry(place).or_insert(Lines { since: now, written: 0, dropped: 0 });
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
    use tracing::callsite::{Callsite, DefaultCallsite};
    use tracing::metadata::Kind;
    use tracing::{Level, Metadata};

    use super::*;
    use crate::time::monotonic;

    static FIRST: DefaultCallsite = DefaultCallsite::new(&FIRST_METADATA);
    static FIRST_METADATA: Metadata<'static> = metadata(&FIRST);
    static SECOND: DefaultCallsite = DefaultCallsite::new(&SECOND_METADATA);
    static SECOND_METADATA: Metadata<'static> = metadata(&SECOND);

    const fn metadata(place: &'static dyn Callsite) -> Metadata<'static> {
        let fields = tracing::field::FieldSet::new(&[], Identifier(place));
        Metadata::new("line", "test", Level::WARN, None, None, None, fields, Kind::EVENT)
    }

    #[test]
    fn each_place_writes_so_many_lines_in_a_while_and_tells_how_many_it_dropped() {
        let (limit, start) = (LineLimit::default(), monotonic());
        // An identifier is hashed with the table of its type, of which the compiler may
        // make several: as in the program, each place has the one that it was made with.
        let admit = |place: &Metadata<'_>, now| limit.admit(place.callsite(), now);
        let lines = [(); 900].map(|()| admit(&FIRST_METADATA, start));
        let written = lines.iter().filter(|line| **line == Verdict::Write { dropped: 0 }).count();
        assert_eq!(written, 10);
        assert_eq!(admit(&SECOND_METADATA, start), Verdict::Write { dropped: 0 });
        assert_eq!(admit(&FIRST_METADATA, start + WINDOW), Verdict::Write { dropped: 890 });
        assert_eq!(admit(&FIRST_METADATA, start + WINDOW), Verdict::Write { dropped: 0 });
    }
}
