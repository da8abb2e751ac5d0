//! The text of a key or a value that matters only if it is short.

/// The decoded bytes of the current text, if it matters: `MOST` at most, and one more, which shows that
/// the text is too long.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortText<const MOST: usize> {
    bytes: Vec<u8>,
    is_open: bool,
}

impl<const MOST: usize> ShortText<MOST> {
    /// A text begins. Only one that `matters` is kept.
    pub(super) fn begin(&mut self, matters: bool) {
        self.is_open = matters;
        self.bytes.clear();
    }

    /// Whether the current text matters.
    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// The next byte of the current text, if it matters.
    pub(super) fn byte(&mut self, byte: u8) {
        if self.is_open && self.bytes.len() <= MOST {
            self.bytes.push(byte);
        }
    }

    /// The current text has ended. Whether it mattered.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.is_open)
    }

    /// The bytes of the last text that mattered.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes that are reserved for a text.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}
