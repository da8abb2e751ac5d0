//! Reads a stream of server-sent events (WHATWG HTML Standard,
//! section 9.2) whose data are JSON documents.
//!
//! Lines are passed to the [`Document`] as they arrive: no line and no event is kept. As
//! the standard demands, an event counts only after the blank line that ends it. An event
//! that breaks off does not count.

use super::follow::Collect;
use super::json::Document;

/// The only field of an event that is read.
const DATA: &[u8] = b"data";

/// A stream may begin with it. It has no meaning.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A stream of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) struct Events<F> {
    line: Line,
    /// Whether the last byte was a CR. A LF that follows is part of the same line end.
    after_cr: bool,
    /// The event's data.
    document: Document<F>,
}

/// How much of the current line has been read.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// This many bytes of the [`BYTE_ORDER_MARK`].
    Mark(usize),
    /// This many bytes of the name [`DATA`].
    Name(usize),
    /// `data:`
    Colon,
    /// A part of the data, or the blank before it.
    Data,
    /// The line is not a line of data.
    Other,
}

impl<F: Collect> Events<F> {
    /// A stream of which no bytes have been read. `follower` follows the data of each event.
    pub(super) fn new(follower: F) -> Self {
        Self { line: Line::Mark(0), after_cr: false, document: Document::new(follower) }
    }

    /// What follows the data of each event.
    pub(super) const fn follower(&mut self) -> &mut F {
        self.document.follower()
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (read, _) = self.read_event(bytes);
            bytes = &bytes[read..];
        }
    }

    /// Reads bytes until an event ends. Returns how many were read, and whether one has ended.
    pub(super) fn read_event(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut read = 0;
        while read < bytes.len() {
            let rest = &bytes[read..];
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let inside = &rest[..end.unwrap_or(rest.len())];
            if !inside.is_empty() {
                self.after_cr = false;
                self.read_line(inside);
            }
            read += inside.len();
            if let Some(ending) = bytes.get(read) {
                read += 1;
                let after_cr = std::mem::replace(&mut self.after_cr, *ending == b'\r');
                if !(after_cr && *ending == b'\n') && self.end_line() {
                    return (read, true);
                }
            }
        }
        (read, false)
    }

    /// The stream has ended. Returns what follows it.
    pub(super) fn end(self) -> F {
        self.document.into_follower()
    }

    /// Reads bytes of one line.
    fn read_line(&mut self, mut bytes: &[u8]) {
        while let [byte, rest @ ..] = bytes {
            (self.line, bytes) = match self.line {
                Line::Other => return,
                Line::Data => return self.document.read(bytes),
                // The first blank after the colon is not part of the data.
                Line::Colon => (Line::Data, if *byte == b' ' { rest } else { bytes }),
                Line::Name(length) if length == DATA.len() && *byte == b':' => {
                    // Lines of data are joined with LF. A LF before the first line has no
                    // meaning in JSON.
                    self.document.read(b"\n");
                    (Line::Colon, rest)
                }
                Line::Name(length) if DATA.get(length) == Some(byte) => {
                    (Line::Name(length + 1), rest)
                }
                Line::Name(_) => (Line::Other, rest),
                Line::Mark(length) if BYTE_ORDER_MARK.get(length) == Some(byte) => {
                    (Line::Mark(length + 1), rest)
                }
                Line::Mark(length) if length == 0 || length == BYTE_ORDER_MARK.len() => {
                    (Line::Name(0), bytes)
                }
                Line::Mark(_) => (Line::Other, rest),
            };
        }
    }

    /// Returns whether the line ends an event. A blank line does, but for the first line of the
    /// stream. A line that consists of `data` has no effect: it would be one more empty line
    /// in a JSON document.
    fn end_line(&mut self) -> bool {
        let line = std::mem::replace(&mut self.line, Line::Name(0));
        let is_blank = matches!(line, Line::Name(0));
        if is_blank {
            self.document.complete();
        }
        is_blank
    }
}
