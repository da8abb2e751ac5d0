//! Reads the cost of a response from the response itself, which passes through unchanged.
//!
//! A meter keeps none of the bytes that it reads: its state has a constant size, whatever
//! an upstream sends, and no input makes it panic. It never guesses a cost that it cannot
//! read.

mod events;
mod json;
mod lines;
mod media;
mod number;
mod pointer;
mod text;
mod trail;

use std::num::NonZeroU64;

use http::header::{CONTENT_ENCODING, HeaderMap, HeaderName};

use events::Events;
use json::Document;
use lines::Lines;
use media::{Form, form};
use number::Number;
pub use pointer::{MAX_POINTER_TOKENS, Pointer, PointerError};

/// Where the cost of a response is found.
///
/// A cost is a JSON number that is not negative, rounded up: `12.3` is 13, `1e3` is 1000.
/// A number that exceeds 64 bits is [`u64::MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeterSpec {
    /// In this field. If it has several lines, all must be equal.
    Header(HeaderName),
    /// In the body, which is one JSON document (RFC 8259) of at most 128 levels. If a key
    /// occurs twice, the last one counts.
    Json(Pointer),
    /// In the body, which is a stream of server-sent events (WHATWG HTML Standard, section
    /// 9.2). The last event that contains the number as JSON counts. Other events, such as
    /// `[DONE]`, are skipped.
    SseJson(Pointer),
    /// In the body, whose `Content-Type` says what it is. `text/event-stream` is read as
    /// [`SseJson`](Self::SseJson). `application/x-ndjson`, `application/jsonl` and their
    /// like are lines with one JSON document each, and the last line that contains the
    /// number counts. Any other body is read as [`Json`](Self::Json).
    Body(Pointer),
    /// The length of the body as it is sent, in units, rounded up.
    Bytes {
        /// Bytes per unit.
        unit: NonZeroU64,
    },
}

impl MeterSpec {
    /// Whether the meter reads what the body says, so that the body must not be encoded.
    pub const fn reads_body(&self) -> bool {
        matches!(self, Self::Json(_) | Self::SseJson(_) | Self::Body(_))
    }
}

/// Why the cost of a response is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unread {
    /// The response does not state it, or states it in a form that is not a cost.
    Missing,
    /// The body is encoded, and a meter does not decode.
    Encoded,
}

/// Reads the cost of one response.
///
/// A body in a `Content-Encoding` other than `identity` is never decoded: only its length
/// can be metered.
#[derive(Clone, Debug)]
pub struct Meter(Reading);

#[derive(Clone, Debug)]
enum Reading {
    /// The cost is known without the body, or cannot be read.
    Settled(Result<u64, Unread>),
    Json(Document),
    Events(Events),
    Lines(Lines),
    Bytes {
        sent: u64,
        unit: NonZeroU64,
    },
}

impl Meter {
    /// A meter for the response with these fields.
    pub fn new(spec: &MeterSpec, headers: &HeaderMap) -> Self {
        Self(match spec {
            MeterSpec::Header(name) => {
                Reading::Settled(in_field(headers, name).ok_or(Unread::Missing))
            }
            _ if spec.reads_body() && is_encoded(headers) => Reading::Settled(Err(Unread::Encoded)),
            MeterSpec::Json(pointer) => Reading::Json(Document::new(pointer.clone())),
            MeterSpec::SseJson(pointer) => Reading::Events(Events::new(pointer.clone())),
            MeterSpec::Body(pointer) => match form(headers) {
                Form::Document => Reading::Json(Document::new(pointer.clone())),
                Form::Events => Reading::Events(Events::new(pointer.clone())),
                Form::Lines => Reading::Lines(Lines::new(pointer.clone())),
            },
            MeterSpec::Bytes { unit } => Reading::Bytes { sent: 0, unit: *unit },
        })
    }

    /// Reads the next bytes of the body, which may end anywhere.
    pub fn observe(&mut self, chunk: &[u8]) {
        match &mut self.0 {
            Reading::Settled(_) => {}
            Reading::Json(document) => document.read(chunk),
            Reading::Events(events) => events.read(chunk),
            Reading::Lines(lines) => lines.read(chunk),
            Reading::Bytes { sent, .. } => {
                *sent = sent.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            }
        }
    }

    /// The cost, after the body has ended or was interrupted.
    ///
    /// # Errors
    /// If the cost is missing or cannot be read.
    pub fn finish(self) -> Result<u64, Unread> {
        let cost = match self.0 {
            Reading::Settled(cost) => return cost,
            Reading::Json(mut document) => document.end(),
            Reading::Events(events) => events.end(),
            Reading::Lines(lines) => lines.end(),
            Reading::Bytes { sent, unit } => Some(sent.div_ceil(unit.get())),
        };
        cost.ok_or(Unread::Missing)
    }
}

fn in_field(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut lines = headers.get_all(name).iter();
    let value = lines.next()?;
    let is_clear = lines.all(|line| line == value);
    is_clear.then(|| Number::parse(value.as_bytes().trim_ascii())).flatten()
}

/// Whether the body is encoded (RFC 9110, section 8.4).
fn is_encoded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    codings
        .map(<[u8]>::trim_ascii)
        .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests;
