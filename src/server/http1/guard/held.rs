//! Bytes that were read and not yet passed on.

use std::io;
use std::mem::MaybeUninit;
use std::task::{Poll, ready};

use tokio::io::ReadBuf;

/// How many bytes are read at once.
const PIECE: usize = 4 * 1024;

/// Bytes that were read and not passed on: first those that may pass, then the unchecked
/// rest.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Vec<u8>,
    passed: usize,
    cleared: usize,
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The memory that it takes, in bytes.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.bytes.capacity()
    }

    /// The unchecked bytes.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.cleared..]
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next `count` bytes of the rest may pass.
    pub fn clear(&mut self, count: usize) {
        self.cleared += count;
    }

    /// Forgets the first `count` bytes of the rest.
    pub fn skip(&mut self, count: usize) {
        self.bytes.drain(self.cleared..self.cleared + count);
    }

    /// Replaces the rest with `bytes`, which may pass.
    pub fn replace_rest(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.cleared);
        self.bytes.extend_from_slice(bytes);
        self.cleared = self.bytes.len();
    }

    /// Passes on the bytes that may pass, as far as there is room.
    pub fn pass(&mut self, buf: &mut ReadBuf<'_>) {
        let count = buf.remaining().min(self.cleared - self.passed);
        if count > 0 {
            buf.put_slice(&self.bytes[self.passed..self.passed + count]);
            self.passed += count;
        }
        if self.passed == self.bytes.len() {
            // An idle connection keeps no buffer.
            *self = Self::default();
        }
    }

    /// Reads more bytes with `read`, and returns their number; 0 at the end of the stream. Bytes
    /// that have passed are removed. Otherwise they would accumulate for a client whose pieces
    /// never end with a complete request.
    pub fn poll_fill(
        &mut self,
        read: impl FnOnce(&mut ReadBuf<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.bytes.drain(..self.passed);
        self.cleared -= self.passed;
        self.passed = 0;
        // Mostly nothing has come: then no memory is needed.
        let mut room = [MaybeUninit::uninit(); PIECE];
        let mut piece = ReadBuf::uninit(&mut room);
        let count = ready!(read(&mut piece))?;
        self.bytes.extend_from_slice(piece.filled());
        Poll::Ready(Ok(count))
    }
}
