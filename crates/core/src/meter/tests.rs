//! The costs that meters read from whole responses. The chunks of a body make no
//! difference.

mod documents;
mod event_streams;
mod files;
mod money;
mod readings;
mod streams;
mod values;

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use proptest::prelude::*;

use super::*;

fn json(pointer: &str) -> MeterSpec {
    MeterSpec::Json(pointer.parse().expect("a pointer"))
}

fn sse(pointer: &str) -> MeterSpec {
    MeterSpec::SseJson(pointer.parse().expect("a pointer"))
}

fn body(pointer: &str) -> MeterSpec {
    MeterSpec::Body(pointer.parse().expect("a pointer"))
}

fn usage() -> MeterSpec {
    MeterSpec::Usage { api: UsageApi::OpenAi, tariff: Tariff::default() }
}

fn bytes(unit: u64) -> MeterSpec {
    MeterSpec::Bytes { unit: unit.try_into().expect("not zero") }
}

fn fields(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
    let pairs = pairs.iter().cloned();
    let mut headers = HeaderMap::new();
    pairs.for_each(|(name, value)| _ = headers.append(name, HeaderValue::from_static(value)));
    headers
}

/// The cost that the meter has read of a complete response.
fn stated(meter: Meter) -> Option<u64> {
    match meter.finish(StatusCode::OK, Progress::Ended).0 {
        Metered::Cost(units) => Some(units),
        Metered::AtLeast(..) | Metered::Estimated(..) | Metered::Unanswered => None,
    }
}

/// The cost of a response with these fields and this body, in one chunk.
fn cost_with(spec: &MeterSpec, headers: &HeaderMap, body: &[u8]) -> Option<u64> {
    let mut meter = Meter::new(spec, headers);
    meter.observe(body);
    stated(meter)
}

fn cost(spec: &MeterSpec, body: &[u8]) -> Option<u64> {
    cost_with(spec, &HeaderMap::new(), body)
}

/// The cost of the same response, in chunks of these sizes. The sizes repeat.
fn cost_in_chunks(spec: &MeterSpec, body: &[u8], sizes: &[usize]) -> Option<u64> {
    cost_in_chunks_with(spec, &HeaderMap::new(), body, sizes)
}

fn cost_in_chunks_with(
    spec: &MeterSpec,
    headers: &HeaderMap,
    mut body: &[u8],
    sizes: &[usize],
) -> Option<u64> {
    let mut meter = Meter::new(spec, headers);
    for size in sizes.iter().cycle() {
        if body.is_empty() {
            break;
        }
        let (chunk, rest) = body.split_at(body.len().min(*size));
        meter.observe(chunk);
        meter.observe(b"");
        body = rest;
    }
    stated(meter)
}

fn chunk_sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1..9_usize, 1..6)
}

#[test]
fn a_field_is_read_as_a_number() {
    let name = HeaderName::from_static("x-tokens-used");
    let spec = MeterSpec::Header(name.clone());
    let cases: [(&[&'static str], _); 8] = [
        (&["17"], Some(17)),
        (&["12.3"], Some(13)),
        (&["5", "5"], Some(5)),
        (&["5", "6"], None),
        (&["5, 5"], None),
        (&["-5"], None),
        (&["many"], None),
        (&[], None),
    ];
    for (lines, expected) in cases {
        let lines: Vec<_> = lines.iter().map(|line| (name.clone(), *line)).collect();
        assert_eq!(cost_with(&spec, &fields(&lines), b"99"), expected, "{lines:?}");
    }
}

#[test]
fn bytes_are_rounded_up_to_units() {
    for (length, units) in [(0, 0), (1, 1), (1023, 1), (1024, 1), (1025, 2), (4096, 4)] {
        let body = vec![b'x'; length];
        assert_eq!(cost(&bytes(1024), &body), Some(units), "{length}");
        assert_eq!(cost_in_chunks(&bytes(1024), &body, &[7, 1, 300]), Some(units), "{length}");
    }
}

#[test]
fn in_an_encoded_body_only_bytes_are_counted() {
    let body = br#"{"n":3}"#;
    let cases: [(&[&'static str], _); 6] = [
        (&[], Some(3)),
        (&["identity"], Some(3)),
        (&["Identity", " identity ,"], Some(3)),
        (&["gzip"], None),
        (&["identity, br"], None),
        (&["identity", "zstd"], None),
    ];
    for (lines, expected) in cases {
        let lines: Vec<_> = lines.iter().map(|line| (CONTENT_ENCODING, *line)).collect();
        let headers = fields(&lines);
        let event = [b"data:", &body[..], b"\n\n"].concat();
        assert_eq!(cost_with(&json("/n"), &headers, body), expected, "{lines:?}");
        assert_eq!(cost_with(&sse("/n"), &headers, &event), expected, "{lines:?}");
        assert_eq!(cost_with(&bytes(1), &headers, body), Some(7), "{lines:?}");
    }
}

#[test]
fn what_is_not_read_has_a_cause() {
    let unread = |spec: &MeterSpec, headers: &HeaderMap, progress| {
        let (metered, usage) = Meter::new(spec, headers).finish(StatusCode::OK, progress);
        assert_eq!(usage, None);
        metered
    };
    let encoded = fields(&[(CONTENT_ENCODING, "gzip")]);
    for spec in [json("/n"), sse("/n"), body("/n"), usage()] {
        for (progress, cause) in [
            (Progress::Ended, Unsettled::Absent),
            (Progress::Broken, Unsettled::Broken),
            (Progress::Open, Unsettled::Left),
        ] {
            let found = unread(&spec, &HeaderMap::new(), progress);
            assert_eq!(found, Metered::AtLeast(0, cause), "{spec:?}");
            let found = unread(&spec, &encoded, progress);
            assert_eq!(found, Metered::AtLeast(0, Unsettled::Encoded), "{spec:?}");
        }
    }
    let field = MeterSpec::Header(HeaderName::from_static("x-used"));
    let absent = Metered::AtLeast(0, Unsettled::Absent);
    assert_eq!(unread(&field, &encoded, Progress::Ended), absent);
}

#[test]
fn tokens_settle_a_complete_answer_and_bound_the_cost_of_another() {
    let cost = |text: &str, status, progress| {
        let mut meter = Meter::new(&usage(), &HeaderMap::new());
        meter.observe(text.as_bytes());
        meter.finish(status, progress).0
    };
    let stated = r#"{"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let ok = StatusCode::OK;
    assert_eq!(cost(stated, ok, Progress::Ended), Metered::Cost(7));
    let left = cost(stated, ok, Progress::Open);
    assert_eq!(left, Metered::AtLeast(7, Unsettled::Left));
    assert_eq!((left.units(5), left.units(9)), (7, 9));
    // What broke off was spent, too.
    let broken = cost(&stated[..30], ok, Progress::Broken);
    assert_eq!(broken, Metered::AtLeast(3, Unsettled::Broken));
    // Errors without tokens cost nothing.
    let bad = StatusCode::BAD_REQUEST;
    assert_eq!(cost("{}", bad, Progress::Ended), Metered::Cost(0));
    assert_eq!(cost("{}", ok, Progress::Ended), Metered::AtLeast(0, Unsettled::Absent));
    assert_eq!(cost(stated, bad, Progress::Ended), Metered::Cost(7));
}

#[test]
fn the_content_type_says_how_a_body_is_read() {
    let [document, events, lines] =
        [r#"{"n":1}"#, "data: {\"n\":2}\n\n", "{\"n\":0}\r\n\n[\n{\"n\":3}\n{}"];
    let typed = |value| fields(&[(CONTENT_TYPE, value)]);
    let read = |value, text: &str| cost_with(&body("/n"), &typed(value), text.as_bytes());
    assert_eq!(cost(&body("/n"), document.as_bytes()), Some(1));
    for value in ["application/json", "application/vnd.api+json", "text/plain"] {
        assert_eq!(read(value, document), Some(1), "{value}");
        assert_eq!(read(value, events), None, "{value}");
        assert_eq!(read(value, lines), None, "{value}");
    }
    assert_eq!(read("text/event-stream; charset=utf-8", events), Some(2));
    assert_eq!(read("application/x-ndjson", lines), Some(3));
    // The last line may lack its line end, and a line that breaks off has no number.
    assert_eq!(read("application/jsonl", "{\"n\":4}\n{\"n\":5}"), Some(5));
    assert_eq!(read("application/jsonl", "{\"n\":4}\n{\"n\":5"), Some(4));
}

#[test]
fn the_content_type_of_a_body_does_not_matter_if_its_form_is_written() {
    let headers = fields(&[(CONTENT_TYPE, "text/plain")]);
    assert_eq!(cost_with(&json(""), &headers, b" 12 "), Some(12));
    assert_eq!(cost(&json("/n"), b"data: {\"n\":3}\n\n"), None);
    assert_eq!(cost(&sse("/n"), br#"{"n":3}"#), None);
}

#[test]
fn a_meter_is_small_and_needs_no_other_memory() {
    assert!(size_of::<Meter>() <= 256, "{} bytes", size_of::<Meter>());
}

proptest! {
    #[test]
    fn no_bytes_make_a_meter_panic_and_no_chunks_change_its_cost(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        sizes in chunk_sizes(),
    ) {
        for spec in [json("/a"), sse(""), bytes(3)] {
            prop_assert_eq!(cost_in_chunks(&spec, &body, &sizes), cost(&spec, &body));
        }
        let spec = self::body("");
        let headers = fields(&[(CONTENT_TYPE, "application/jsonl")]);
        let whole = cost_with(&spec, &headers, &body);
        prop_assert_eq!(cost_in_chunks_with(&spec, &headers, &body, &sizes), whole);
    }
}

/// Providers do not bill errors, and an upstream may compress them although it was asked not to.
#[test]
fn an_encoded_error_has_no_tokens() {
    let headers = fields(&[(CONTENT_ENCODING, "gzip")]);
    let read = |spec: &MeterSpec, status: u16, expected: Option<Expected>| {
        let mut meter = Meter::expecting(spec, &headers, expected);
        meter.observe(br#"{"usage":{"prompt_tokens":7},"n":7}"#);
        let status = StatusCode::from_u16(status).expect("a status");
        meter.finish(status, Progress::Ended)
    };
    let encoded = (Metered::AtLeast(0, Unsettled::Encoded), None);
    let bytes_per_token = NonZeroU64::MIN;
    for expected in [None, Some(Expected { input: 9, bytes_per_token })] {
        assert_eq!(read(&usage(), 399, expected), encoded);
        assert_eq!(read(&usage(), 400, expected), (Metered::Cost(0), None));
        assert_eq!(read(&usage(), 503, expected), (Metered::Cost(0), None));
        assert_eq!(read(&json("/n"), 503, expected), encoded);
    }
}

/// What the gateway itself says states no cost, whatever it contains.
#[test]
fn a_failure_of_the_gateway_is_no_answer() {
    let name = HeaderName::from_static("x-n");
    let headers = fields(&[(name.clone(), "5")]);
    let body = br#"{"n":6,"usage":{"prompt_tokens":7}}"#;
    for (spec, is_length) in [
        (MeterSpec::Header(name), false),
        (json("/n"), false),
        (sse("/n"), false),
        (usage(), false),
        (bytes(1), true),
    ] {
        for (failed, expected) in
            [(Failed::Unsent, Metered::Cost(0)), (Failed::Unanswered, Metered::Unanswered)]
        {
            let mut meter = Meter::new(&spec, &headers).failed(failed);
            meter.observe(body);
            let length = Metered::Cost(body.len().try_into().expect("it is short"));
            let expected = if is_length { length } else { expected };
            let read = meter.finish(StatusCode::GATEWAY_TIMEOUT, Progress::Ended);
            assert_eq!(read, (expected, None), "{spec:?}");
        }
    }
}
