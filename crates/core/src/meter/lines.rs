//! Finds one number in lines that are JSON documents each.
//!
//! Such a body is called NDJSON or JSON Lines. No line is kept. Blank lines and lines that are not
//! JSON have no number.

use super::json::Document;
use super::pointer::Pointer;

/// Lines of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    document: Document,
    /// The number of the last line that had one.
    number: Option<u64>,
}

impl Lines {
    /// Lines of which no bytes have been read. Each is searched for `pointer`.
    pub(super) fn new(pointer: Pointer) -> Self {
        Self { document: Document::new(pointer), number: None }
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        // A CR before the LF is white space of the document.
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.document.read(piece);
            if piece.ends_with(b"\n") {
                self.number = self.document.end().or(self.number);
            }
        }
    }

    /// The body has ended: the number of the last line that had one. The last line may lack
    /// its line end.
    pub(super) fn end(mut self) -> Option<u64> {
        self.document.end().or(self.number)
    }
}
