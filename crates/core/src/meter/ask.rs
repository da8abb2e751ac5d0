//! Finds what must be written into the body of a chat completion of OpenAI so that its answer states
//! its tokens: `stream_options.include_usage`.
//!
//! Only a document with `"stream": true` and an array `messages` is such a request. Other APIs
//! refuse the option, and an answer that is no stream states its tokens in any case.
//!
//! The members must have one reading, as the values of [`ValueScanner`](super::ValueScanner) must.
//! No part of the document is kept.

use std::ops::Range;

use super::follow::Follow;
use super::json::Document;
use super::number::Number;
use super::short_text::ShortText;
use super::sought::is_alike;
use super::values::DocumentFault;

/// The member that holds the option.
const OPTIONS: &str = "stream_options";
/// The option.
const INCLUDE: &str = "include_usage";
/// The most bytes of a key that differs only in case from one that is searched for.
const MAX_KEY_BYTES: usize = 4 * OPTIONS.len();

/// A part of a document, and the text that takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The bytes of the document that are replaced. It may be empty.
    pub range: Range<u64>,
    /// What is written there.
    pub text: &'static str,
}

/// Searches one document, which arrives in chunks.
#[derive(Clone, Debug)]
pub struct AskScanner {
    document: Document<Members>,
    /// The bytes that were read.
    read: u64,
    /// Where the members of the document begin.
    members: u64,
    /// Where the value of the member begins.
    options: u64,
    /// Where the value of the option begins, and where it ends unless it is `null`.
    include: Range<u64>,
}

impl Default for AskScanner {
    fn default() -> Self {
        let document = Document::new(Members::default());
        Self { document, read: 0, members: 0, options: 0, include: 0..0 }
    }
}

impl AskScanner {
    /// Reads the next bytes of the document, which may end anywhere.
    pub fn read(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let read = self.document.read_until(chunk, |found| found.place.is_some());
            self.read = self.read.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            if let Some(place) = self.document.follower().place.take() {
                // The last byte that was read shows the place.
                let last = self.read.saturating_sub(1);
                match place {
                    Place::Members => self.members = self.read,
                    Place::Options => self.options = last,
                    Place::Include => self.include = last..last,
                    Place::IncludeEnd => self.include.end = self.read,
                    Place::BehindInclude => self.include.end = last,
                }
            }
            chunk = &chunk[read..];
        }
    }

    /// What must be written into the document, after it has ended. None: it is no such request, or
    /// asks for the tokens already.
    ///
    /// # Errors
    /// If the document is not valid, or some backends read other members.
    pub fn end(mut self) -> Result<Option<Replacement>, DocumentFault> {
        if !self.document.end() {
            return Err(DocumentFault::Invalid);
        }
        let found = self.document.follower();
        if let Some(fault) = found.fault {
            return Err(fault);
        }
        if !(found.streams && found.has_messages) {
            return Ok(None);
        }
        let at = |place: u64, bytes: u64, text| Replacement { range: place..place + bytes, text };
        // Behind the brace that opens an object.
        let inside = self.options + 1;
        Ok(match (found.options, found.include) {
            (Value::Absent, _) => {
                Some(at(self.members, 0, "\"stream_options\":{\"include_usage\":true},"))
            }
            (Value::Null, _) => Some(at(self.options, 4, "{\"include_usage\":true}")),
            (Value::Object, Value::Absent) if found.has_other_options => {
                Some(at(inside, 0, "\"include_usage\":true,"))
            }
            (Value::Object, Value::Absent) => Some(at(inside, 0, "\"include_usage\":true")),
            (Value::Object, Value::Null) => Some(at(self.include.start, 4, "true")),
            (Value::Object, Value::True) => None,
            (Value::Object, Value::Object | Value::Other) => {
                Some(Replacement { range: self.include, text: "true" })
            }
            // The backend refuses it.
            (Value::True | Value::Other, _) => None,
        })
    }
}

/// What a value is, as far as it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Value {
    #[default]
    Absent,
    /// Nothing has said yet that it is something else.
    Null,
    True,
    Object,
    Other,
}

/// A place in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind the brace that opens the document.
    Members,
    /// The first byte of the value of the member.
    Options,
    /// The first byte of the value of the option.
    Include,
    /// The last byte of the value of the option.
    IncludeEnd,
    /// The byte behind the value of the option.
    BehindInclude,
}

/// A member of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    Stream,
    Messages,
    Options,
    #[default]
    Other,
}

/// The members, as far as the document has been read.
#[derive(Clone, Debug, Default)]
struct Members {
    /// The number of open containers.
    depth: usize,
    /// The current key, if it matters.
    key: ShortText<MAX_KEY_BYTES>,
    /// The current member of the document.
    member: Member,
    /// Whether the innermost container is the object with the options, or is inside of it.
    is_in_options: bool,
    /// Whether the current member of that object is the option.
    is_include: bool,
    /// Which of `stream`, `messages` and `stream_options` it has had.
    seen: [bool; 3],
    streams: bool,
    has_messages: bool,
    options: Value,
    include: Value,
    has_other_options: bool,
    fault: Option<DocumentFault>,
    /// The place that the last byte has shown.
    place: Option<Place>,
}

impl Members {
    /// Whether the current value is a member of the document.
    const fn is_member(&self) -> bool {
        self.depth == 1
    }

    /// Whether the current value is that of the option.
    const fn is_in_include(&self) -> bool {
        self.depth == 2 && self.is_in_options && self.is_include
    }

    /// The current value is of this kind.
    fn value(&mut self, value: Value) {
        if self.is_member() && self.member == Member::Options {
            self.options = value;
        } else if self.is_in_include() {
            self.include = value;
        }
    }

    /// The name of the current key, if it is one of `names`. A name that was seen before, or that
    /// differs only in case, is a fault.
    fn name(&mut self, names: &[&str], seen: &mut [bool]) -> Option<usize> {
        let key = std::str::from_utf8(self.key.bytes()).ok()?;
        let found = names.iter().position(|name| *name == key);
        let fault = match found {
            Some(index) => {
                std::mem::replace(&mut seen[index], true).then_some(DocumentFault::Twice)
            }
            None => names.iter().any(|name| is_alike(key, name)).then_some(DocumentFault::Case),
        };
        self.fault = self.fault.or(fault);
        found
    }
}

impl Follow for Members {
    fn wants_text(&self) -> bool {
        self.key.is_open()
    }

    fn byte(&mut self, byte: u8) {
        self.key.byte(byte);
    }

    fn lone_half(&mut self) {
        // No UTF-8 has it, so the key is none of those that are searched for.
        self.key.byte(0xFF);
    }

    fn open_object(&mut self) {
        self.value(Value::Object);
        if self.depth == 0 {
            self.place = Some(Place::Members);
        }
        self.is_in_options |= self.is_member() && self.member == Member::Options;
        self.depth += 1;
    }

    fn open_array(&mut self) {
        self.value(Value::Other);
        self.has_messages |= self.is_member() && self.member == Member::Messages;
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        if self.is_in_include() {
            self.place = Some(Place::IncludeEnd);
        }
        self.is_in_options &= self.depth > 1;
    }

    fn next_element(&mut self) {}

    fn begin_key(&mut self) {
        self.key.begin(self.depth == 1 || self.depth == 2 && self.is_in_options);
    }

    fn end_key(&mut self) {
        if !self.key.end() {
            return;
        }
        if self.is_in_options {
            let mut seen = [self.include != Value::Absent];
            self.is_include = self.name(&[INCLUDE], &mut seen).is_some();
            self.has_other_options |= !self.is_include;
        } else {
            let mut seen = self.seen;
            let name = self.name(&["stream", "messages", OPTIONS], &mut seen);
            self.seen = seen;
            self.member = match name {
                Some(0) => Member::Stream,
                Some(1) => Member::Messages,
                Some(_) => Member::Options,
                None => Member::Other,
            };
        }
    }

    fn begin_value(&mut self) {
        self.value(Value::Null);
        if self.is_member() && self.member == Member::Options {
            self.place = Some(Place::Options);
        } else if self.is_in_include() {
            self.place = Some(Place::Include);
        }
    }

    fn begin_text(&mut self) {
        self.value(Value::Other);
    }

    fn end_text(&mut self) {
        if self.is_in_include() {
            self.place = Some(Place::IncludeEnd);
        }
    }

    fn number(&mut self, _: &Number) {
        self.value(Value::Other);
        if self.is_in_include() {
            self.place = Some(Place::BehindInclude);
        }
    }

    fn truth(&mut self, value: bool) {
        self.value(if value { Value::True } else { Value::Other });
        if self.is_in_include() {
            self.place = Some(Place::IncludeEnd);
        }
        if self.is_member() && self.member == Member::Stream {
            self.streams = value;
        }
    }
}

#[cfg(test)]
mod tests;
