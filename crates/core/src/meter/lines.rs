//! Reads lines that are JSON documents each.
//!
//! Such a body is called NDJSON or JSON Lines. No line is kept.

use super::follow::Collect;
use super::json::Document;

/// Lines of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) struct Lines<F>(Document<F>);

impl<F: Collect> Lines<F> {
    /// Lines of which no bytes have been read. `follower` follows each of them.
    pub(super) fn new(follower: F) -> Self {
        Self(Document::new(follower))
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        // A CR before the LF is white space of the document.
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.0.read(piece);
            if piece.ends_with(b"\n") {
                self.0.complete();
            }
        }
    }

    /// The body has ended. Returns what follows it. The last line may lack its line end.
    pub(super) fn end(mut self) -> F {
        self.0.complete();
        self.0.into_follower()
    }
}
