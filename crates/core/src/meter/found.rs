//! The number at one place of a document.

use super::follow::{Collect, Follow};
use super::number::Number;
use super::pointer::Pointer;
use super::trail::Trail;

/// The number that a pointer identifies. If a key occurs twice, the last one counts. Of several
/// documents, the last one counts that has the number.
#[derive(Clone, Debug)]
pub(super) struct Found {
    trail: Trail,
    /// The number of the current document, as far as it has been read.
    number: Option<u64>,
    /// The number of the documents before.
    last: Option<u64>,
}

impl Found {
    /// Before the document.
    pub(super) fn new(pointer: Pointer) -> Self {
        Self { trail: Trail::new(pointer), number: None, last: None }
    }

    /// The number of the documents that are complete.
    pub(super) const fn of_all(&self) -> Option<u64> {
        self.last
    }
}

impl Collect for Found {
    fn complete(&mut self, is_valid: bool) {
        self.trail.restart();
        let number = self.number.take().filter(|_| is_valid);
        self.last = number.or(self.last);
    }
}

impl Follow for Found {
    fn wants_text(&self) -> bool {
        self.trail.reads_key()
    }

    fn byte(&mut self, byte: u8) {
        self.trail.key_byte(byte);
    }

    fn lone_half(&mut self) {
        self.trail.lone_half();
    }

    fn open_object(&mut self) {
        self.trail.open_object();
    }

    fn open_array(&mut self) {
        self.trail.open_array();
    }

    fn close(&mut self) {
        self.trail.close();
    }

    fn next_element(&mut self) {
        self.trail.next_element();
    }

    fn begin_key(&mut self) {
        self.trail.begin_key();
    }

    fn end_key(&mut self) {
        self.trail.end_key();
    }

    fn begin_value(&mut self) {
        if self.trail.is_on_path() {
            self.number = None;
        }
    }

    fn begin_text(&mut self) {}

    fn end_text(&mut self) {}

    fn number(&mut self, number: &Number) {
        if self.trail.is_at_end() {
            self.number = number.rounded_up();
        }
    }

    fn truth(&mut self, _: bool) {}
}
