//! The position in a document, relative to the value that a pointer identifies: on the
//! path to it, or elsewhere.
//!
//! Only the innermost container on the path needs an index or a key: the outer ones are
//! known from the pointer, and the others do not matter.

use super::pointer::{Pointer, Token};

/// How far the open containers match a pointer.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    pointer: Pointer,
    /// The number of open containers on the path.
    matched: usize,
    /// The number of open containers inside of those that are not on the path.
    unmatched: usize,
    /// Whether the current member of the innermost container on the path is on the path
    /// too. Outside of all containers this is true.
    is_next: bool,
    /// The current index in that container, if it is an array.
    index: u64,
    /// While one of its keys is read: how many bytes of the key have matched the token.
    /// None if the key differs or no such key is being read.
    matched_bytes: Option<usize>,
}

impl Trail {
    /// The position before the document.
    pub(super) fn new(pointer: Pointer) -> Self {
        Self { pointer, matched: 0, unmatched: 0, is_next: true, index: 0, matched_bytes: None }
    }

    /// Returns to the position before the document.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.pointer.clone());
    }

    /// Whether the current value is the identified value or contains it.
    pub(super) fn is_on_path(&self) -> bool {
        self.unmatched == 0 && self.is_next
    }

    /// Whether the current value is the identified value.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_on_path() && self.matched == self.pointer.tokens().len()
    }

    /// Whether the bytes of the current string matter.
    pub(super) fn reads_key(&self) -> bool {
        self.matched_bytes.is_some()
    }

    /// Enters an object.
    pub(super) fn open_object(&mut self) {
        if self.is_on_path() {
            self.matched += 1;
            self.is_next = false;
        } else {
            self.unmatched += 1;
        }
    }

    /// Enters an array and its first element.
    pub(super) fn open_array(&mut self) {
        self.open_object();
        if self.unmatched == 0 {
            self.set_index(0);
        }
    }

    /// Leaves the innermost container.
    pub(super) fn close(&mut self) {
        if self.unmatched > 0 {
            self.unmatched -= 1;
        } else {
            // The member was the one that the token of its outer container identifies.
            self.matched -= 1;
            self.index = self.token().and_then(|token| token.index).unwrap_or_default();
        }
    }

    /// Enters the next element of an array.
    pub(super) fn next_element(&mut self) {
        if self.unmatched == 0 {
            self.set_index(self.index + 1);
        }
    }

    /// Begins a key of an object.
    pub(super) fn begin_key(&mut self) {
        self.matched_bytes = (self.unmatched == 0).then_some(0);
    }

    /// Compares one decoded byte of a string, if it is part of a key that may be on the
    /// path.
    pub(super) fn key_byte(&mut self, byte: u8) {
        if let Some(at) = self.matched_bytes {
            let expected = self.token().and_then(|token| token.key.as_bytes().get(at));
            self.matched_bytes = (expected == Some(&byte)).then_some(at + 1);
        }
    }

    /// The key has half of a surrogate pair. It is not equal to any token.
    pub(super) fn lone_half(&mut self) {
        self.matched_bytes = None;
    }

    /// Ends the key. Its value comes next.
    pub(super) fn end_key(&mut self) {
        let compared = self.matched_bytes.take().zip(self.token());
        self.is_next = compared.is_some_and(|(matched, token)| matched == token.key.len());
    }

    fn set_index(&mut self, index: u64) {
        self.index = index;
        self.is_next = self.token().is_some_and(|token| token.is_at(index));
    }

    /// The token for the innermost container on the path; none inside of the identified
    /// value.
    fn token(&self) -> Option<&Token> {
        self.pointer.tokens().get(self.matched.checked_sub(1)?)
    }
}
