//! Where in a document the reader is, as seen from the value that a pointer
//! means: on the way to it, or elsewhere.
//!
//! Only the innermost container on the way needs an index or a key: what is
//! outside of it is known from the pointer, what is elsewhere does not matter.

use super::pointer::{Pointer, Token};

/// How far the open containers agree with a pointer.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    pointer: Pointer,
    /// How many open containers are on the way.
    reached: usize,
    /// How many open containers, inside of those, are not.
    astray: usize,
    /// Whether the current member of the innermost container on the way is the
    /// next step. Outside of all containers it is.
    is_next: bool,
    /// The current index in that container, if it is an array.
    index: u64,
    /// While one of its keys is read: how many bytes of the token it has
    /// repeated. None: it differs, or no such key is being read.
    repeated: Option<usize>,
}

impl Trail {
    /// Before the document.
    pub(super) fn new(pointer: Pointer) -> Self {
        Self { pointer, reached: 0, astray: 0, is_next: true, index: 0, repeated: None }
    }

    /// Back before the document.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.pointer.clone());
    }

    /// Whether the current value is meant, or holds what is meant.
    pub(super) fn is_on_way(&self) -> bool {
        self.astray == 0 && self.is_next
    }

    /// Whether the current value is what the pointer means.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_on_way() && self.reached == self.pointer.tokens().len()
    }

    /// Whether the bytes of the current string matter.
    pub(super) fn reads_key(&self) -> bool {
        self.repeated.is_some()
    }

    /// An object has begun.
    pub(super) fn open_object(&mut self) {
        if self.is_on_way() {
            self.reached += 1;
            self.is_next = false;
        } else {
            self.astray += 1;
        }
    }

    /// An array has begun, and with it its first element, if it has one.
    pub(super) fn open_array(&mut self) {
        self.open_object();
        if self.astray == 0 {
            self.set_index(0);
        }
    }

    /// The innermost container has ended.
    pub(super) fn close(&mut self) {
        if self.astray > 0 {
            self.astray -= 1;
        } else {
            // It was the member that its own container's token names.
            self.reached -= 1;
            self.index = self.token().and_then(|token| token.index).unwrap_or_default();
        }
    }

    /// The next element of an array begins.
    pub(super) fn next_element(&mut self) {
        if self.astray == 0 {
            self.set_index(self.index + 1);
        }
    }

    /// A key of an object begins.
    pub(super) fn begin_key(&mut self) {
        self.repeated = (self.astray == 0).then_some(0);
    }

    /// One byte of a string, decoded; it is looked at if it is part of a key
    /// that may be the next step.
    pub(super) fn key_byte(&mut self, byte: u8) {
        if let Some(at) = self.repeated {
            let expected = self.token().and_then(|token| token.key.as_bytes().get(at));
            self.repeated = (expected == Some(&byte)).then_some(at + 1);
        }
    }

    /// The key has ended; its value comes next.
    pub(super) fn end_key(&mut self) {
        let compared = self.repeated.take().zip(self.token());
        self.is_next = compared.is_some_and(|(repeated, token)| repeated == token.key.len());
    }

    fn set_index(&mut self, index: u64) {
        self.index = index;
        self.is_next = self.token().is_some_and(|token| token.index == Some(index));
    }

    /// The step from the innermost container on the way; none from what the
    /// pointer means.
    fn token(&self) -> Option<&Token> {
        self.pointer.tokens().get(self.reached.checked_sub(1)?)
    }
}
