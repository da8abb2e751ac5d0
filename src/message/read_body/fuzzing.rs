//! The fuzz target of bodies: the values that policies read in them.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;
use tollgate_core::algorithm::{Algorithm, FixedWindow, Quota};
use tollgate_core::meter::{MeterSpec, Tariff, UsageApi};
use tollgate_core::policy::{BodyWords, Cost, KeyExpr, Policy, Reservation, ReserveSettings};
use tollgate_core::request::{ContentFault, ContentWord};
use tollgate_core::time::Span;

use super::{Coding, Decoded, Decoder};
use crate::message::fuzzing::pieces;

/// The most bytes that are read of a compressed body.
const MAX_READ: usize = 1024 * 1024;

/// A value in a body: a pointer or a name in the first line, and then the body.
pub fn bodies(input: &[u8]) {
    let Some((&[seed, kind], rest)) = input.split_first_chunk() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(name) = std::str::from_utf8(&rest[..end]) else { return };
    let body = &rest[end + 1..];
    let is_form = kind & 1 == 1;
    let (word, content_type) = match is_form {
        true => (format!("form:{name}"), "application/x-www-form-urlencoded"),
        false => (format!("json:{name}"), "application/json"),
    };
    let Ok(key) = word.parse::<KeyExpr>() else { return };
    let coding = [Coding::Identity, Coding::Gzip, Coding::Zstd][usize::from(kind >> 1) % 3];
    let Some(text) = decoded(coding, body, seed) else { return };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
    let whole = value(&key, &headers, &mut [&text[..]].into_iter());
    assert_eq!(value(&key, &headers, &mut pieces(&text, seed)), whole, "pieces make a difference");
    if is_form {
        return;
    }
    measure(&text, &headers, seed);
    let (Ok(found), Ok(document)) = (whole, serde_json::from_slice::<Value>(&text)) else { return };
    let expected = match document.pointer(name) {
        Some(Value::String(text)) => Some(text.clone()).filter(|text| text.len() <= 1024),
        Some(Value::Bool(truth)) => Some(truth.to_string()),
        Some(Value::Number(number)) if number.is_f64() => return,
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    assert_eq!(found, expected.map(String::into_bytes), "another parser finds another value");
}

/// The size of the body, by which tokens are estimated.
fn measure(text: &[u8], headers: &HeaderMap, seed: u8) {
    for api in [UsageApi::OpenAi, UsageApi::Gemini, UsageApi::Bedrock] {
        let estimate = Some(Box::new(Reservation::new(api, ReserveSettings::default())));
        let meter = MeterSpec::Usage { api, tariff: Tariff::default() };
        let cost = Cost::Metered { reserve: 1000, estimate, meter };
        let quota = Quota::new(1000, Span::DAY).expect("it is a quota");
        let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
        let policy = Policy { cost, ..Policy::new("p", KeyExpr::Ip, algorithm) };
        let words = BodyWords::of_policies(std::iter::once(&policy)).expect("it needs the body");
        let size = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut reading = words.begin(headers).expect("the body has the content type");
            pieces.for_each(|piece| reading.read(piece));
            reading.end(headers).size().expect("it is measured")
        };
        let whole = size(&mut std::iter::once(text));
        assert_eq!(size(&mut pieces(text, seed)), whole, "pieces make a difference");
        assert_eq!(usize::try_from(whole.bytes), Ok(text.len()));
        assert!(whole.file_bytes <= whole.bytes && whole.files * 8192 <= whole.file_bytes);
    }
}

/// The bytes of a body in this coding.
fn decoded(coding: Coding, body: &[u8], seed: u8) -> Option<Vec<u8>> {
    let blocks: Vec<Bytes> = pieces(body, seed).map(Bytes::copy_from_slice).collect();
    let mut decoder = Decoder::new(coding, blocks.into_iter()).ok()?;
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while text.len() < MAX_READ {
        match decoder.read(&mut buffer).ok()? {
            Decoded::Bytes(read) => text.extend_from_slice(&buffer[..read]),
            Decoded::NoneYet => {}
            Decoded::End => return Some(text),
        }
    }
    None
}

fn value(
    key: &KeyExpr,
    headers: &HeaderMap,
    pieces: &mut dyn Iterator<Item = &[u8]>,
) -> Result<Option<Vec<u8>>, ContentFault> {
    let words = BodyWords::of([key]).expect("it is a value of a body");
    let mut reading = words.begin(headers).expect("the body has the content type");
    pieces.for_each(|piece| reading.read(piece));
    let values = reading.end(headers);
    let word: &ContentWord = key.body_words().first().copied().expect("it is one word");
    values.get(word).map(|value| value.map(<[u8]>::to_vec))
}
