//! Reads an event stream of AWS (`application/vnd.amazon.eventstream`) whose messages have JSON
//! documents as payloads.
//!
//! A message is a prelude, headers, a payload and a checksum. All numbers are big-endian:
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | the length of the whole message |
//! | 4 | the length of the headers |
//! | 4 | CRC-32 of the 8 bytes before it |
//! | the length of the headers | the headers, which say what the payload is; they are skipped |
//! | the rest | the payload |
//! | 4 | CRC-32 of all bytes before it |
//!
//! Source: "Event stream encoding" in the documentation of Amazon Transcribe and Amazon Lex. The
//! bounds are those of `botocore/eventstream.py`.
//!
//! Payloads are passed to the [`Document`] as they arrive: no message is kept. After a message with
//! a wrong length or checksum nothing more is read, because it is not known where the next begins.

use super::follow::Collect;
use super::json::Document;
use crate::crc::{Crc32, crc32};

/// The length of the prelude with its checksum.
const PRELUDE: usize = 12;
/// The length of a checksum.
const CHECKSUM: u32 = 4;
/// The most bytes of the headers of a message.
const MAX_HEADERS: u32 = 128 * 1024;
/// The most bytes of the payload of a message.
const MAX_PAYLOAD: u32 = 24 * 1024 * 1024;

/// A stream of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) struct EventStream<F> {
    part: Part,
    /// The bytes of the prelude, or of the checksum of the message.
    number: [u8; PRELUDE],
    /// The checksum of the current message so far.
    crc: Crc32,
    /// The payload of the current message.
    document: Document<F>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The prelude, of which this many bytes were read.
    Prelude(usize),
    /// This many bytes of headers, and then of the payload.
    Headers {
        left: u32,
        payload: u32,
    },
    Payload {
        left: u32,
    },
    /// The checksum of the message, of which this many bytes were read.
    Checksum(usize),
    /// Nothing, because the stream is invalid.
    Broken,
}

impl<F: Collect> EventStream<F> {
    /// A stream of which no bytes have been read. `follower` follows the payload of each message.
    pub(super) fn new(follower: F) -> Self {
        Self {
            part: Part::Prelude(0),
            number: [0; PRELUDE],
            crc: Crc32::default(),
            document: Document::new(follower),
        }
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let read = match self.part {
                Part::Prelude(read) => self.read_prelude(read, bytes),
                Part::Headers { left, payload } => {
                    let (inside, left) = taken(bytes, left);
                    self.crc.add(inside);
                    self.part = Part::Headers { left, payload };
                    inside.len()
                }
                Part::Payload { left } => {
                    let (inside, left) = taken(bytes, left);
                    self.crc.add(inside);
                    self.document.read(inside);
                    self.part = Part::Payload { left };
                    inside.len()
                }
                Part::Checksum(read) => self.read_checksum(read, bytes),
                Part::Broken => return,
            };
            bytes = &bytes[read..];
            self.skip_empty();
        }
    }

    /// Whether the stream, which has ended, breaks off in a message or is invalid.
    pub(super) fn is_broken(&self) -> bool {
        self.part != Part::Prelude(0)
    }

    /// The stream has ended. Returns what follows it.
    pub(super) fn end(self) -> F {
        self.document.into_follower()
    }

    /// Goes on to the next part that has bytes.
    fn skip_empty(&mut self) {
        if let Part::Headers { left: 0, payload } = self.part {
            self.part = Part::Payload { left: payload };
        }
        if self.part == (Part::Payload { left: 0 }) {
            self.part = Part::Checksum(0);
        }
    }

    /// Fills `number` up to `end`. Returns the bytes that it has then, and those that were read.
    fn fill(&mut self, has: usize, end: usize, bytes: &[u8]) -> (usize, usize) {
        let read = bytes.len().min(end - has);
        self.number[has..has + read].copy_from_slice(&bytes[..read]);
        (has + read, read)
    }

    fn number_at(&self, at: usize) -> u32 {
        let bytes = &self.number[at..at + 4];
        bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    fn read_prelude(&mut self, has: usize, bytes: &[u8]) -> usize {
        let (has, read) = self.fill(has, PRELUDE, bytes);
        self.part = Part::Prelude(has);
        if has == PRELUDE {
            self.part = self.after_prelude().unwrap_or(Part::Broken);
            self.crc = Crc32::default();
            self.crc.add(&self.number);
        }
        read
    }

    /// The part after a valid prelude.
    fn after_prelude(&self) -> Option<Part> {
        let total = self.number_at(0);
        let headers = self.number_at(4);
        let around = u32::try_from(PRELUDE).ok()? + CHECKSUM;
        let payload = total.checked_sub(around)?.checked_sub(headers)?;
        let is_valid = headers <= MAX_HEADERS
            && payload <= MAX_PAYLOAD
            && crc32(&self.number[..8]) == self.number_at(8);
        is_valid.then_some(Part::Headers { left: headers, payload })
    }

    fn read_checksum(&mut self, has: usize, bytes: &[u8]) -> usize {
        let (has, read) = self.fill(has, 4, bytes);
        self.part = Part::Checksum(has);
        if has == 4 {
            self.part = Part::Broken;
            if self.number_at(0) == self.crc.value() {
                self.document.complete();
                self.part = Part::Prelude(0);
            }
        }
        read
    }
}

/// The bytes that belong to a part with so many bytes left, and what is left of it then.
fn taken(bytes: &[u8], left: u32) -> (&[u8], u32) {
    let most = usize::try_from(left).unwrap_or(usize::MAX);
    let inside = &bytes[..bytes.len().min(most)];
    (inside, left.saturating_sub(u32::try_from(inside.len()).unwrap_or(u32::MAX)))
}
