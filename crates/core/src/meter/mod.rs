//! Reads the cost of a response from the response itself, which passes through unchanged.
//!
//! A meter keeps none of the bytes that it reads: its state has a constant size, whatever
//! an upstream sends, and no input makes it panic. It never guesses a cost that it cannot
//! read.
//!
//! The same reader of JSON finds [values](ValueScanner) in the bodies of requests.

mod ask;
mod content;
mod event_stream;
mod events;
mod expected;
mod field;
mod files;
mod follow;
mod found;
mod json;
mod lines;
mod messages;
mod model;
mod number;
mod pointer;
mod runs;
mod short_text;
mod sought;
mod tariff;
mod text;
mod texts;
mod trail;
mod usage;
mod values;
mod withheld;

use std::num::NonZeroU64;
use std::sync::Arc;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderMap, HeaderName};

pub use crate::price::Usage;
use crate::price::{PriceEntry, Prices};
pub use ask::{AskScanner, Replacement};
use content::{Content, Form, form};
pub use expected::Expected;
use field::in_field;
pub use files::FileStrings;
use found::Found;
pub use messages::{MessageScanner, Messages, RpcMessage};
pub use pointer::{MAX_POINTER_TOKENS, Pointer, PointerError};
pub use sought::SoughtPointers;
pub use tariff::Tariff;
use usage::Counted;
pub use usage::{UsageApi, Weights};
pub use values::{DocumentFault, DocumentValues, MAX_VALUE_BYTES, ValueScanner};
pub use withheld::WithheldUsage;

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
    /// number counts. So does the last message of `application/vnd.amazon.eventstream`. Any
    /// other body is read as [`Json`](Self::Json).
    Body(Pointer),
    /// The tokens that the answer of a language model states in its body, which is read as by
    /// [`Body`](Self::Body). Each token counts its weight, or costs its price.
    Usage {
        /// The API whose answers are read.
        api: UsageApi,
        /// How much each token counts.
        tariff: Tariff,
    },
    /// The length of the body as it is sent, in units, rounded up.
    Bytes {
        /// Bytes per unit.
        unit: NonZeroU64,
    },
}

impl MeterSpec {
    /// Whether the meter reads what the body says, so that the body must not be encoded.
    pub const fn reads_body(&self) -> bool {
        matches!(self, Self::Json(_) | Self::SseJson(_) | Self::Body(_) | Self::Usage { .. })
    }

    /// The prices, if units are money.
    pub const fn prices(&self) -> Option<&Arc<Prices>> {
        match self {
            Self::Usage { tariff, .. } => tariff.prices(),
            _ => None,
        }
    }
}

/// How far the body of a response has come when it is no longer read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More of it may follow: the client has left.
    Open,
    /// It is complete.
    Ended,
    /// It has broken off.
    Broken,
}

/// Why the cost of a response is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unsettled {
    /// The response does not state it, or states it in a form that is not a cost.
    Absent,
    /// The body is encoded, and a meter does not decode.
    Encoded,
    /// The response broke off before it stated the cost, or no response came.
    Broken,
    /// The client has left before the response stated the cost.
    Left,
}

impl Unsettled {
    /// Its name in metrics and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Encoded => "encoded",
            Self::Broken => "broken",
            Self::Left => "left",
        }
    }

    /// Why a body that has come so far does not state the cost.
    pub const fn of(progress: Progress) -> Self {
        match progress {
            Progress::Open => Self::Left,
            Progress::Ended => Self::Absent,
            Progress::Broken => Self::Broken,
        }
    }
}

/// What a meter has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    /// The request costs these units.
    Cost(u64),
    /// The cost is not known. It is what was reserved, but at least these units.
    AtLeast(u64, Unsettled),
    /// The cost is not known. It is estimated as these units.
    Estimated(u64, Unsettled),
    /// The cost is not known: the request was sent, and no answer has come.
    Unanswered,
}

impl Metered {
    /// The units that a request counts for which `reserved` were charged.
    pub fn units(self, reserved: u64) -> u64 {
        match self {
            Self::Cost(units) | Self::Estimated(units, _) => units,
            Self::AtLeast(units, _) => units.max(reserved),
            Self::Unanswered => reserved,
        }
    }

    /// Why the cost is not known.
    pub const fn unsettled(self) -> Option<Unsettled> {
        match self {
            Self::Cost(_) => None,
            Self::AtLeast(_, cause) | Self::Estimated(_, cause) => Some(cause),
            Self::Unanswered => Some(Unsettled::Broken),
        }
    }
}

/// How far a request came whose response is a failure of the gateway itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// No endpoint has got it.
    Unsent,
    /// It was sent to an endpoint, which may process it.
    Unanswered,
}

/// Reads the cost of one response.
///
/// A body in a `Content-Encoding` other than `identity` is never decoded: only its length
/// can be metered.
#[derive(Clone, Debug)]
pub struct Meter(Reading);

#[derive(Clone, Debug)]
enum Reading {
    /// It does not depend on the body.
    Known(Metered),
    // Boxed: they are larger than the others.
    Number(Box<Content<Found>>),
    Usage(Box<UsageReading>),
    Bytes {
        sent: u64,
        unit: NonZeroU64,
    },
}

/// The reading of tokens, and how they become units.
#[derive(Clone, Debug)]
struct UsageReading {
    content: Content<Counted>,
    tariff: Tariff,
    /// The price of the model that the request names.
    asked: Option<PriceEntry>,
    /// What counts if the response does not state all of its tokens.
    expected: Option<Expected>,
    /// Whether the body is encoded, so that it is not read.
    is_encoded: bool,
}

/// The tokens of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The tokens that it states.
    pub usage: Usage,
    /// The price that they have, if they have one.
    pub entry: Option<PriceEntry>,
}

impl UsageReading {
    fn end(self, status: StatusCode, progress: Progress) -> (Metered, Option<Spent>) {
        let Self { content, tariff, asked, expected, is_encoded } = self;
        let progress = if content.is_broken() { Progress::Broken } else { progress };
        let counted = content.end();
        let prices = tariff.prices();
        let entry = prices.and_then(|prices| prices.of_answer(counted.model(), asked));
        let spent = counted.usage().map(|usage| Spent { usage, entry });
        let units = spent.and_then(|spent| tariff.units(&spent.usage, entry));
        let is_free = |entry: Option<PriceEntry>| {
            prices.zip(entry).is_some_and(|(prices, entry)| prices.is_free(entry))
        };
        let metered = match (units, progress) {
            (Some(units), Progress::Ended) if !is_encoded => Metered::Cost(units),
            // Providers do not bill an error that states no tokens.
            (None, _) if spent.is_none() && status.as_u16() >= 400 => Metered::Cost(0),
            // A free model was asked for, and the answer names no other one.
            (None | Some(0), _) if is_free(asked) && is_free(entry) => Metered::Cost(0),
            // The reservation counts, also with an estimate, which needs the text.
            (units, _) if is_encoded => Metered::AtLeast(units.unwrap_or(0), Unsettled::Encoded),
            // More tokens may have been spent than were stated so far.
            (units, _) => {
                let cause = Unsettled::of(progress);
                let text_bytes = counted.text_bytes();
                let estimated =
                    expected.and_then(|it| it.units(counted.usage(), text_bytes, &tariff, entry));
                match estimated {
                    Some(units) => Metered::Estimated(units, cause),
                    None => Metered::AtLeast(units.unwrap_or(0), cause),
                }
            }
        };
        (metered, spent)
    }
}

impl Meter {
    /// A meter for the response with these fields.
    pub fn new(spec: &MeterSpec, headers: &HeaderMap) -> Self {
        Self::expecting(spec, headers, None)
    }

    /// The same. With `expected`, tokens that the response does not state are estimated.
    pub fn expecting(spec: &MeterSpec, headers: &HeaderMap, expected: Option<Expected>) -> Self {
        let number = |form, pointer: &Pointer| {
            Reading::Number(Box::new(Content::new(form, Found::new(pointer.clone()))))
        };
        Self(match spec {
            MeterSpec::Header(name) => Reading::Known(match in_field(headers, name) {
                Some(cost) => Metered::Cost(cost),
                None => Metered::AtLeast(0, Unsettled::Absent),
            }),
            MeterSpec::Json(_) | MeterSpec::SseJson(_) | MeterSpec::Body(_)
                if is_encoded(headers) =>
            {
                Reading::Known(Metered::AtLeast(0, Unsettled::Encoded))
            }
            MeterSpec::Json(pointer) => number(Form::Document, pointer),
            MeterSpec::SseJson(pointer) => number(Form::Events, pointer),
            MeterSpec::Body(pointer) => number(form(headers), pointer),
            MeterSpec::Usage { api, tariff } => {
                let reads_model = tariff.prices().is_some();
                let counted = Counted::new(*api, headers, expected.is_some(), reads_model);
                let content = Content::new(form(headers), counted);
                let tariff = tariff.clone();
                let is_encoded = is_encoded(headers);
                let asked = None;
                let usage = UsageReading { content, tariff, asked, expected, is_encoded };
                Reading::Usage(Box::new(usage))
            }
            MeterSpec::Bytes { unit } => Reading::Bytes { sent: 0, unit: *unit },
        })
    }

    /// The same meter for the response to a request that names a model with this price.
    #[must_use]
    pub fn asked(mut self, entry: Option<PriceEntry>) -> Self {
        if let Reading::Usage(usage) = &mut self.0 {
            usage.asked = entry;
        }
        self
    }

    /// The same meter for a request to which the gateway itself answers, because it has failed. That
    /// answer states no cost, and has a length only.
    #[must_use]
    pub fn failed(self, failed: Failed) -> Self {
        Self(match self.0 {
            bytes @ Reading::Bytes { .. } => bytes,
            Reading::Known(_) | Reading::Number(_) | Reading::Usage(_) => {
                Reading::Known(match failed {
                    Failed::Unsent => Metered::Cost(0),
                    Failed::Unanswered => Metered::Unanswered,
                })
            }
        })
    }

    /// Reads the next bytes of the body, which may end anywhere.
    pub fn observe(&mut self, chunk: &[u8]) {
        match &mut self.0 {
            Reading::Known(_) => {}
            Reading::Number(content) => content.read(chunk),
            Reading::Usage(usage) if usage.is_encoded => {}
            Reading::Usage(usage) => usage.content.read(chunk),
            Reading::Bytes { sent, .. } => {
                *sent = sent.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            }
        }
    }

    /// The cost of a response with this status, and the tokens that it states, after its body
    /// has come so far.
    pub fn finish(self, status: StatusCode, progress: Progress) -> (Metered, Option<Spent>) {
        let metered = match self.0 {
            Reading::Known(metered) => metered,
            Reading::Number(content) => match content.end().of_all() {
                Some(cost) => Metered::Cost(cost),
                None => Metered::AtLeast(0, Unsettled::of(progress)),
            },
            Reading::Usage(usage) => return usage.end(status, progress),
            Reading::Bytes { sent, unit } => Metered::Cost(sent.div_ceil(unit.get())),
        };
        (metered, None)
    }
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
