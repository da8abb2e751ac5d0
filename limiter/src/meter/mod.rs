//! What a response cost, read from it while it passes through unchanged.
//!
//! A meter looks at the bytes and keeps none of them: its state has one size,
//! whatever an upstream sends, and no bytes make it panic. What it cannot read
//! it does not guess.

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

/// Where the cost of a response stands.
///
/// A cost is a number as JSON writes it, not negative, and rounded up: `12.3` is
/// 13, `1e3` is 1000. What 64 bits do not hold is [`u64::MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeterSpec {
    /// In this field. Several lines of it must all be the same.
    Header(HeaderName),
    /// In the body, which is one JSON document (RFC 8259) of at most 128 levels.
    /// Where a key stands twice, the last one counts.
    Json(Pointer),
    /// In the body, which is a stream of server-sent events (WHATWG HTML
    /// Standard, section 9.2): the last event counts whose data are a JSON
    /// document that has the number. Others, such as `[DONE]`, are passed over.
    SseJson(Pointer),
    /// The length of the body as it is sent: one for each `unit` bytes that have
    /// been started.
    Bytes {
        /// Bytes that cost one.
        unit: NonZeroU64,
    },
}

/// Reads the cost of one response.
///
/// A body in a `Content-Encoding` other than `identity` is never decoded: its
/// length can be metered, what stands in it cannot.
#[derive(Clone, Debug)]
pub struct Meter(Reading);

#[derive(Clone, Debug)]
enum Reading {
    /// The body does not matter.
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

    /// Reads the next bytes of the body, which may be cut anywhere.
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

    /// The cost, when the body has ended or will not go on. None: it is not
    /// there, or cannot be read.
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

/// Whether the body is in another form than it means (RFC 9110, section 8.4).
fn is_encoded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    codings
        .map(<[u8]>::trim_ascii)
        .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests;
