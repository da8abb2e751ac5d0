//! Finds the identifier and the method of a message of JSON-RPC 2.0, or counts the calls of a
//! batch.
//!
//! The members `id` and `method` of a message must have one reading, as the values of
//! [`ValueScanner`](super::ValueScanner) must. No part of the document is kept but the identifier,
//! which has a bound.

use super::follow::Follow;
use super::json::Document;
use super::number::Number;
use super::short_text::ShortText;
use super::sought::is_alike;
use super::values::DocumentFault;

/// The most bytes of an identifier that a response repeats.
const MAX_ID_BYTES: usize = 256;
/// The method that calls a tool (Model Context Protocol, "Tools").
const CALL: &[u8] = b"tools/call";
/// The most bytes of a key that differs only in case from `method`.
const MAX_KEY_BYTES: usize = 4 * "method".len();

/// What the response to a message depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcMessage {
    /// A call, which gets a response.
    Call {
        /// Its identifier as it is written: a string or a number of at most 256 bytes.
        id: Box<str>,
        /// Whether it calls a tool (Model Context Protocol, "Tools").
        calls_tool: bool,
    },
    /// A notification, or a response of the client: there is no response to it.
    Unanswered,
}

/// What was found in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// The messages with a method and an identifier.
    pub calls: u64,
    /// The message, if the document is one. None: it is a batch, or no message, or the response
    /// to it cannot repeat its identifier.
    pub message: Option<RpcMessage>,
}

/// Searches one document, which arrives in chunks.
#[derive(Clone, Debug)]
pub struct MessageScanner {
    document: Document<Members>,
    /// The identifier of the message as it is written, and one byte of what follows a number.
    id: Vec<u8>,
}

impl Default for MessageScanner {
    fn default() -> Self {
        Self { document: Document::new(Members::default()), id: Vec::new() }
    }
}

impl MessageScanner {
    /// Reads the next bytes of the document, which may end anywhere.
    pub fn read(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let was_id = self.document.follower().is_in_id;
            let read = self.document.read_until(chunk, |found| found.is_in_id != was_id);
            // The first byte of a value is read when the value is known to begin.
            let kept = if was_id { &chunk[..read] } else { &chunk[read - 1..read] };
            if was_id || self.document.follower().is_in_id {
                let room = (MAX_ID_BYTES + 2).saturating_sub(self.id.len());
                self.id.extend_from_slice(&kept[..kept.len().min(room)]);
            }
            chunk = &chunk[read..];
        }
    }

    /// What the document has, after it has ended.
    ///
    /// # Errors
    /// If the document is not valid, or some backends read other messages.
    pub fn end(mut self) -> Result<Messages, DocumentFault> {
        if !self.document.end() {
            return Err(DocumentFault::Invalid);
        }
        let Members { fault, calls, is_batch, has_id, has_method, id, method, .. } =
            self.document.follower();
        if let Some(fault) = fault {
            return Err(*fault);
        }
        let message = match (*has_method, *has_id) {
            _ if *is_batch => None,
            (true, true) => written(std::mem::take(&mut self.id), *id)
                .map(|id| RpcMessage::Call { id, calls_tool: method == CALL }),
            (true, false) | (false, true) => Some(RpcMessage::Unanswered),
            (false, false) => None,
        };
        Ok(Messages { calls: *calls, message })
    }
}

/// The identifier, if a response can repeat it.
fn written(mut id: Vec<u8>, kind: Id) -> Option<Box<str>> {
    match kind {
        Id::Text => {}
        Id::Number => _ = id.pop(),
        Id::Other => return None,
    }
    let is_short = id.len() <= MAX_ID_BYTES;
    String::from_utf8(id).ok().filter(|_| is_short).map(String::into_boxed_str)
}

/// The kind of an identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Id {
    Text,
    Number,
    /// It cannot be repeated.
    #[default]
    Other,
}

/// A member of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    Id,
    Method,
    #[default]
    Other,
}

/// The members of the current message, as far as the document has been read.
#[derive(Clone, Debug, Default)]
struct Members {
    /// The number of open containers.
    depth: usize,
    is_batch: bool,
    /// The current key of a message, or its method.
    text: ShortText<MAX_KEY_BYTES>,
    /// Whether the identifier of the only message is being read.
    is_in_id: bool,
    member: Member,
    has_id: bool,
    has_method: bool,
    id: Id,
    method: Vec<u8>,
    calls: u64,
    fault: Option<DocumentFault>,
}

impl Members {
    /// Whether the innermost container is a message.
    fn is_in_message(&self) -> bool {
        self.depth == if self.is_batch { 2 } else { 1 }
    }

    /// The current value has ended, which was of this kind if it is an identifier.
    fn end_id(&mut self, kind: Id) {
        if std::mem::take(&mut self.is_in_id) {
            self.id = kind;
        }
    }

    fn read_key(&mut self) -> Member {
        let Ok(key) = std::str::from_utf8(self.text.bytes()) else { return Member::Other };
        for (name, member, has) in
            [("id", Member::Id, &mut self.has_id), ("method", Member::Method, &mut self.has_method)]
        {
            if key == name {
                if std::mem::replace(has, true) {
                    self.fault = self.fault.or(Some(DocumentFault::Twice));
                }
                return member;
            }
            if is_alike(key, name) {
                self.fault = self.fault.or(Some(DocumentFault::Case));
            }
        }
        Member::Other
    }
}

impl Follow for Members {
    fn wants_text(&self) -> bool {
        self.text.is_open()
    }

    fn byte(&mut self, byte: u8) {
        self.text.byte(byte);
    }

    fn lone_half(&mut self) {
        // No UTF-8 has it, so the text is none of those that are searched for.
        self.text.byte(0xFF);
    }

    fn open_object(&mut self) {
        self.end_id(Id::Other);
        self.depth += 1;
        if self.is_in_message() {
            self.has_id = false;
            self.has_method = false;
            self.member = Member::Other;
        }
    }

    fn open_array(&mut self) {
        self.end_id(Id::Other);
        self.is_batch |= self.depth == 0;
        self.depth += 1;
    }

    fn close(&mut self) {
        if self.is_in_message() {
            if self.has_id && self.has_method {
                self.calls = self.calls.saturating_add(1);
            }
            if self.is_batch {
                // An array as the next element is no message.
                self.has_id = false;
                self.has_method = false;
            }
        }
        self.depth -= 1;
    }

    fn next_element(&mut self) {}

    fn begin_key(&mut self) {
        self.text.begin(self.is_in_message());
    }

    fn end_key(&mut self) {
        if self.text.end() {
            self.member = self.read_key();
        }
    }

    fn begin_value(&mut self) {
        self.is_in_id = self.is_in_message() && !self.is_batch && self.member == Member::Id;
    }

    fn begin_text(&mut self) {
        self.text.begin(self.is_in_message() && self.member == Member::Method);
    }

    fn end_text(&mut self) {
        self.end_id(Id::Text);
        if self.text.end() {
            self.text.bytes().clone_into(&mut self.method);
        }
    }

    fn number(&mut self, _: &Number) {
        self.end_id(Id::Number);
    }

    fn truth(&mut self, _: bool) {
        self.end_id(Id::Other);
    }
}

#[cfg(test)]
mod tests;
