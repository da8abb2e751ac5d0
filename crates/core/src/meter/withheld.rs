//! Takes the event out of an answer that only states tokens, because its client has not asked for it.
//!
//! With `stream_options.include_usage`, a chat completion of OpenAI has one more event before its
//! end: `choices` is an empty array, and `usage` has the tokens. All other bytes pass unchanged.

use bytes::Bytes;

use super::events::Events;
use super::follow::{Collect, Follow};
use super::number::Number;
use super::short_text::ShortText;

/// The most bytes of an event that is withheld. A larger one passes.
const MAX_EVENT_BYTES: usize = 16 * 1024;
/// The most bytes of a key that matters.
const MAX_KEY_BYTES: usize = "choices".len();

/// A stream of server-sent events, of which some bytes were read.
///
/// An event is held until it is known whether it passes: until the blank line that ends it. A
/// client does not read an event before that. Comments are not held.
#[derive(Clone, Debug)]
pub struct WithheldUsage {
    events: Events<Stated>,
    /// The bytes of the current event.
    held: Vec<u8>,
    /// Whether the current event passes in any case, because it is large.
    is_passing: bool,
    /// What has become of the lines that the last byte has ended, if it was a CR. A LF that follows
    /// belongs to them.
    before_lf: Option<Ended>,
}

/// What has become of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Withheld,
}

impl Default for WithheldUsage {
    fn default() -> Self {
        Self {
            events: Events::new(Stated::default()),
            held: Vec::new(),
            is_passing: false,
            before_lf: None,
        }
    }
}

impl WithheldUsage {
    /// Reads the next bytes of the stream, and returns those that pass now.
    pub fn pass(&mut self, chunk: &Bytes) -> Bytes {
        let mut passing = Vec::new();
        let mut is_whole = self.held.is_empty();
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let (read, ends) = self.events.read_event(rest);
            let (mut piece, behind) = rest.split_at(read);
            rest = behind;
            if let (Some(before), [b'\n', others @ ..]) = (self.before_lf.take(), piece) {
                match before {
                    Ended::Passed => passing.push(b'\n'),
                    Ended::Withheld => is_whole = false,
                }
                piece = others;
            }
            if !ends {
                self.hold(piece, &mut passing);
                continue;
            }
            let ended = self.end_event(piece, &mut passing);
            is_whole &= ended == Ended::Passed;
            self.before_lf = piece.ends_with(b"\r").then_some(ended);
        }
        if is_comment(&self.held) {
            self.before_lf = self.held.ends_with(b"\r").then_some(Ended::Passed);
            passing.append(&mut self.held);
        }
        match is_whole && self.held.is_empty() {
            true => chunk.clone(),
            false => passing.into(),
        }
    }

    /// The stream has ended. Returns the rest, which is a part of an event.
    pub fn end(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }

    /// The current event ends with this piece.
    fn end_event(&mut self, piece: &[u8], passing: &mut Vec<u8>) -> Ended {
        let is_large = self.held.len() + piece.len() > MAX_EVENT_BYTES;
        let is_passing = std::mem::take(&mut self.is_passing) || is_large;
        if std::mem::take(&mut self.events.follower().only_states_tokens) && !is_passing {
            self.held.clear();
            return Ended::Withheld;
        }
        passing.append(&mut self.held);
        passing.extend_from_slice(piece);
        Ended::Passed
    }

    /// Holds a piece of the current event, or passes the event on if it is large.
    fn hold(&mut self, piece: &[u8], passing: &mut Vec<u8>) {
        self.is_passing |= self.held.len() + piece.len() > MAX_EVENT_BYTES;
        self.held.extend_from_slice(piece);
        if self.is_passing {
            passing.append(&mut self.held);
        }
    }
}

/// Whether these bytes are whole lines that are comments, with which servers keep connections open.
fn is_comment(bytes: &[u8]) -> bool {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut lines = bytes.split(is_end);
    bytes.last().is_some_and(is_end)
        && bytes.first() == Some(&b':')
        && lines.all(|line| line.is_empty() || line.starts_with(b":"))
}

/// What the data of an event state.
#[derive(Clone, Debug, Default)]
struct Stated {
    /// The number of open containers.
    depth: usize,
    /// The current key of the document.
    key: ShortText<MAX_KEY_BYTES>,
    member: Member,
    /// Whether `choices` is an array without elements.
    has_no_choice: bool,
    /// Whether `usage` is an object.
    has_usage: bool,
    /// Whether the last event states tokens and nothing else.
    only_states_tokens: bool,
}

/// A member of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    Choices,
    Usage,
    #[default]
    Other,
}

impl Follow for Stated {
    fn wants_text(&self) -> bool {
        self.key.is_open()
    }

    fn byte(&mut self, byte: u8) {
        self.key.byte(byte);
    }

    fn lone_half(&mut self) {
        // No UTF-8 has it, so the key is none of those that matter.
        self.key.byte(0xFF);
    }

    fn open_object(&mut self) {
        self.has_usage |= self.depth == 1 && self.member == Member::Usage;
        self.depth += 1;
    }

    fn open_array(&mut self) {
        self.has_no_choice |= self.depth == 1 && self.member == Member::Choices;
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
    }

    fn next_element(&mut self) {}

    fn begin_key(&mut self) {
        self.key.begin(self.depth == 1);
    }

    fn end_key(&mut self) {
        if self.key.end() {
            self.member = match self.key.bytes() {
                b"choices" => Member::Choices,
                b"usage" => Member::Usage,
                _ => Member::Other,
            };
        }
    }

    fn begin_value(&mut self) {
        // An element of the array.
        if self.depth == 2 && self.member == Member::Choices {
            self.has_no_choice = false;
        }
    }

    fn begin_text(&mut self) {}

    fn end_text(&mut self) {}

    fn number(&mut self, _: &Number) {}

    fn truth(&mut self, _: bool) {}
}

impl Collect for Stated {
    fn complete(&mut self, is_valid: bool) {
        let only_states_tokens = is_valid && self.has_no_choice && self.has_usage;
        let key = std::mem::take(&mut self.key);
        *self = Self { only_states_tokens, key, ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
