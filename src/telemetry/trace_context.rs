//! The context of a trace, which a request brings along and takes on to its upstream: the
//! field `traceparent` of W3C Trace Context.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

use http::{HeaderMap, HeaderName, HeaderValue};

/// Names the trace, the span that sends the request, and whether the trace is recorded
/// (W3C Trace Context, section 3.2).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What tracing systems add to it (W3C Trace Context, section 3.3).
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The length of version 00.
const LEN: usize = 55;
/// The digits of the id of a trace.
pub const TRACE_DIGITS: usize = 32;
const SAMPLED: u8 = 1;

/// Identifies a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId(NonZeroU128);

/// Identifies a span within its trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpanId(NonZeroU64);

/// The trace of one request.
#[derive(Clone, Copy, Debug)]
pub struct RequestTrace {
    /// The trace.
    pub id: TraceId,
    /// Whether its spans are exported.
    pub is_sampled: bool,
    /// The span of the sender, if it has sent one.
    pub parent: Option<SpanId>,
    /// The span of the request itself.
    pub server: SpanId,
    /// The span of the request to the upstream.
    pub client: SpanId,
    /// When the limiter had decided, in microseconds since the head of the request.
    pub decided_us: Option<u64>,
    /// When the request was forwarded, in the same unit.
    pub forwarded_us: Option<u64>,
}

impl RequestTrace {
    /// Begins a trace for a request with these fields, or continues the trace in which the
    /// client has sent it. The fields then say what the upstream is told. `is_sampled` gets
    /// the flag of the client, if it has sent one.
    pub fn begin(headers: &mut HeaderMap, is_sampled: impl FnOnce(Option<bool>) -> bool) -> Self {
        let received = TraceParent::of(headers);
        if received.is_none() {
            // It belongs to a trace that cannot be read (section 3.3.1.1).
            headers.remove(TRACESTATE);
        }
        let trace = Self {
            id: received.map_or_else(TraceId::random, |received| received.trace),
            is_sampled: is_sampled(received.map(|received| received.is_sampled)),
            parent: received.map(|received| received.parent),
            server: SpanId::random(),
            client: SpanId::random(),
            decided_us: None,
            forwarded_us: None,
        };
        let Self { id, client, is_sampled, .. } = trace;
        let sent = TraceParent { trace: id, parent: client, is_sampled };
        headers.insert(TRACEPARENT, sent.value());
        trace
    }

    /// How many spans there are.
    pub fn spans(&self, has_asked_a_server: bool) -> u64 {
        let is_decided = self.decided_us.is_some();
        let others = [is_decided, is_decided && has_asked_a_server, self.forwarded_us.is_some()];
        1 + others.into_iter().map(u64::from).sum::<u64>()
    }
}

impl TraceId {
    /// The trace that these fields name, if they name one.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        TraceParent::of(headers).map(|received| received.trace)
    }

    /// The digits of its text.
    pub fn digits(self) -> [u8; TRACE_DIGITS] {
        let mut digits = [b'0'; TRACE_DIGITS];
        let text = format!("{self:?}");
        digits.copy_from_slice(text.as_bytes());
        digits
    }

    fn random() -> Self {
        Self(NonZeroU128::new(fastrand::u128(1..)).unwrap_or(NonZeroU128::MIN))
    }

    /// The number of which this is the text.
    #[cfg(feature = "otlp")]
    pub const fn number(self) -> u128 {
        self.0.get()
    }
}

impl SpanId {
    pub fn random() -> Self {
        Self(NonZeroU64::new(fastrand::u64(1..)).unwrap_or(NonZeroU64::MIN))
    }

    /// The number of which this is the text.
    #[cfg(feature = "otlp")]
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TraceParent {
    trace: TraceId,
    /// The span that sends the request.
    parent: SpanId,
    /// Whether the sender records the trace.
    is_sampled: bool,
}

impl TraceParent {
    /// What these fields say. None if there is no such field, or several, or one that
    /// cannot be read: then a new trace begins.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        values.next().is_none().then(|| Self::parse(value.as_bytes()))?
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (known, rest) = text.split_at_checked(LEN)?;
        let mut parts = known.split(|byte| *byte == b'-');
        let version: u8 = hex(parts.next()?, 2)?.try_into().ok()?;
        let trace = NonZeroU128::new(hex(parts.next()?, 32)?)?;
        let parent = NonZeroU64::new(hex(parts.next()?, 16)?.try_into().ok()?)?;
        let flags: u8 = hex(parts.next()?, 2)?.try_into().ok()?;
        // A later version may add more parts.
        let is_readable = match version {
            0 => rest.is_empty(),
            u8::MAX => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        is_readable.then_some(Self {
            trace: TraceId(trace),
            parent: SpanId(parent),
            is_sampled: flags & SAMPLED != 0,
        })
    }

    /// The value of the field.
    fn value(&self) -> HeaderValue {
        let Self { trace: TraceId(trace), parent: SpanId(parent), is_sampled } = self;
        let text = format!("00-{trace:032x}-{parent:016x}-{:02x}", u8::from(*is_sampled));
        HeaderValue::try_from(text).expect("it consists of digits and hyphens")
    }
}

/// A number of exactly this many lower-case hexadecimal digits.
fn hex(text: &[u8], digits: usize) -> Option<u128> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let text = (text.len() == digits && text.iter().all(is_hex)).then_some(text)?;
    u128::from_str_radix(str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).expect("a field's value"));
        }
        headers
    }

    fn read(value: &str) -> Option<TraceParent> {
        TraceParent::of(&headers(&[value]))
    }

    #[test]
    fn valid_fields_are_read() {
        let version_1 = format!("cc-{TRACE}-{SPAN}-01-what-may-come");
        for (text, is_sampled) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-00"), false),
            (format!("00-{TRACE}-{SPAN}-03"), true),
            (format!("00-{TRACE}-{SPAN}-fe"), false),
            (format!("01-{TRACE}-{SPAN}-01"), true),
            (version_1, true),
        ] {
            let parent = read(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(parent.trace.digits(), TRACE.as_bytes());
            assert_eq!(format!("{:?}", parent.parent), SPAN);
            assert_eq!(parent.is_sampled, is_sampled, "{text}");
        }
    }

    #[test]
    fn all_other_fields_begin_a_new_trace() {
        let zero_trace = "0".repeat(32);
        let zero_span = "0".repeat(16);
        for text in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-001"),
            format!("00-{zero_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{zero_span}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!(" 00-{TRACE}-{SPAN}-01"),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
        let one = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(TraceParent::of(&headers(&[&one, &one])), None, "two fields");
        assert_eq!(TraceParent::of(&HeaderMap::new()), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(trace in 1u128.., parent in 1u64.., is_sampled: bool) {
            let trace = TraceId(NonZeroU128::new(trace).expect("not zero"));
            let parent = SpanId(NonZeroU64::new(parent).expect("not zero"));
            let parent = TraceParent { trace, parent, is_sampled };
            let value = parent.value();
            prop_assert_eq!(TraceParent::parse(value.as_bytes()), Some(parent));
        }

        #[test]
        fn no_field_makes_it_panic(text in "[0-9a-f-]{50,60}|.{0,60}") {
            let parent = TraceParent::parse(text.as_bytes());
            if let (Some(parent), true) = (parent, text.starts_with("00")) {
                let value = parent.value();
                prop_assert_eq!(&value.as_bytes()[..52], &text.as_bytes()[..52]);
            }
        }
    }
}
