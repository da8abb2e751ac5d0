//! The bytes of text in the answer of a language model.
//!
//! These are the bytes of the strings that are members with a known name, at any depth. All bytes of
//! a stream would be ten times as many, because each token has an envelope.

/// The names of such members in all APIs.
const NAMES: [&[u8]; 8] = [
    b"content",
    b"text",
    b"delta",
    b"arguments",
    b"partial_json",
    b"thinking",
    b"reasoning_content",
    b"response",
];
/// The bytes of the longest name.
const MAX_NAME_BYTES: usize = 17;

/// The text of an answer, as far as it has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    bytes: u64,
    current: Current,
    /// The beginning of the current name.
    name: [u8; MAX_NAME_BYTES + 1],
    /// The kept bytes of the name. A name that fills the space is too long.
    name_bytes: usize,
}

/// What is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Current {
    #[default]
    Other,
    Name,
    /// The value of a member with a known name comes next.
    Member,
    /// Such a value has begun.
    Value,
    Text,
}

impl Texts {
    /// The bytes so far, without escapes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the bytes of the current string matter.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.current, Current::Name | Current::Text)
    }

    /// The next bytes of the current string.
    pub(super) fn read(&mut self, run: &[u8]) {
        match self.current {
            Current::Name => {
                let room = &mut self.name[self.name_bytes..];
                let kept = room.len().min(run.len());
                room[..kept].copy_from_slice(&run[..kept]);
                self.name_bytes += kept;
            }
            Current::Text => {
                let more = u64::try_from(run.len()).unwrap_or(u64::MAX);
                self.bytes = self.bytes.saturating_add(more);
            }
            Current::Other | Current::Member | Current::Value => {}
        }
    }

    pub(super) fn begin_key(&mut self) {
        self.current = Current::Name;
        self.name_bytes = 0;
    }

    pub(super) fn end_key(&mut self) {
        let is_known = NAMES.contains(&&self.name[..self.name_bytes]);
        self.current = if is_known { Current::Member } else { Current::Other };
    }

    pub(super) fn begin_value(&mut self) {
        self.current = match self.current {
            Current::Member => Current::Value,
            // The elements of an array, which is the value of the member, are no text.
            _ => Current::Other,
        };
    }

    pub(super) fn begin_text(&mut self) {
        if self.current == Current::Value {
            self.current = Current::Text;
        }
    }

    pub(super) fn end_text(&mut self) {
        self.current = Current::Other;
    }
}
