//! Reads the cost of a response from the response itself, which passes through unchanged.
//!
//! A meter keeps none of the bytes that it reads: its state has a constant size, whatever
//! an upstream sends, and no input makes it panic. It never guesses a cost that it cannot
//! read.

mod events;
mod json;
mod number;
mod pointer;
mod text;
mod trail;

use std::num::NonZeroU64;

use http::header::{CONTENT_ENCODING, HeaderMap, HeaderName};

use events::Events;
use json::Document;
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
    /// The length of the body as it is sent, in units, rounded up.
    Bytes {
        /// Bytes per unit.
        unit: NonZeroU64,
    },
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
    Settled(Option<u64>),
    Json(Document),
    Events(Events),
    Bytes {
        sent: u64,
        unit: NonZeroU64,
    },
}

impl Meter {
    /// A meter for the response with these fields.
    pub fn new(spec: &MeterSpec, headers: &HeaderMap) -> Self {
        Self(match spec {
            MeterSpec::Header(name) => Reading::Settled(in_field(headers, name)),
            MeterSpec::Json(_) | MeterSpec::SseJson(_) if is_encoded(headers) => {
                Reading::Settled(None)
            }
            MeterSpec::Json(pointer) => Reading::Json(Document::new(pointer.clone())),
            MeterSpec::SseJson(pointer) => Reading::Events(Events::new(pointer.clone())),
            MeterSpec::Bytes { unit } => Reading::Bytes { sent: 0, unit: *unit },
        })
    }

    /// Reads the next bytes of the body, which may end anywhere.
    pub fn observe(&mut self, chunk: &[u8]) {
        match &mut self.0 {
            Reading::Settled(_) => {}
            Reading::Json(document) => document.read(chunk),
            Reading::Events(events) => events.read(chunk),
            Reading::Bytes { sent, .. } => {
                *sent = sent.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            }
        }
    }

    /// The cost, after the body has ended or was interrupted. None if the cost is missing
    /// or cannot be read.
    pub fn finish(self) -> Option<u64> {
        match self.0 {
            Reading::Settled(cost) => cost,
            Reading::Json(mut document) => document.end(),
            Reading::Events(events) => events.end(),
            Reading::Bytes { sent, unit } => Some(sent.div_ceil(unit.get())),
        }
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
