//! The calls of JSON-RPC in a body of another content type than JSON. Some backends accept them under
//! any type.

use crate::meter::{DocumentFault, MessageScanner, Messages};

/// The most zeros before a character in an encoding that programs detect by them (UTF-32).
const MAX_ZEROS: u8 = 3;

/// Searches one body, which arrives in chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherCalls {
    scanner: MessageScanner,
    start: Start,
}

/// How a body begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With blanks, a byte order mark, or so many zeros.
    Unknown {
        zeros: u8,
    },
    /// As an array or an object of JSON does.
    Json,
    Other,
}

impl Default for Start {
    fn default() -> Self {
        Self::Unknown { zeros: 0 }
    }
}

impl Start {
    fn read(self, chunk: &[u8]) -> Self {
        let mut start = self;
        for byte in chunk {
            let Self::Unknown { zeros } = start else { break };
            start = match byte {
                b'[' | b'{' => Self::Json,
                0 if zeros < MAX_ZEROS => Self::Unknown { zeros: zeros + 1 },
                // The bytes of the byte order marks of UTF-8, UTF-16 and UTF-32.
                0xEF | 0xBB | 0xBF | 0xFE | 0xFF => Self::Unknown { zeros: 0 },
                byte if byte.is_ascii_whitespace() => Self::Unknown { zeros: 0 },
                _ => Self::Other,
            };
        }
        start
    }
}

impl OtherCalls {
    /// Reads the next bytes of the body, which may end anywhere.
    pub(super) fn read(&mut self, chunk: &[u8]) {
        self.start = self.start.read(chunk);
        self.scanner.read(chunk);
    }

    /// What the body has, after it has ended. None: it is no JSON.
    ///
    /// A body that begins as JSON does and is not valid is a fault, as it is with a content type of
    /// JSON: backends that allow more levels, a byte order mark or another encoding find calls in it.
    pub(super) fn end(self) -> Option<Result<Messages, DocumentFault>> {
        match self.scanner.end() {
            // It costs at least one unit, as a body does that is no JSON.
            Ok(found) => Some(Ok(Messages { calls: found.calls.max(1), ..found })),
            Err(DocumentFault::Invalid) if self.start != Start::Json => None,
            Err(fault) => Some(Err(fault)),
        }
    }
}
