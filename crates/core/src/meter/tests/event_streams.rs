//! Event streams of AWS, whose messages have checksums.

use proptest::collection::vec;

use super::*;
use crate::crc::crc32;

/// A message with these headers and this payload.
fn message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).expect("a length").to_be_bytes();
    let mut bytes = length(16 + headers.len() + payload.len()).to_vec();
    bytes.extend(length(headers.len()));
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes.extend([headers, payload].concat());
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes
}

fn header(name: &str, value: &str) -> Vec<u8> {
    let name_length = u8::try_from(name.len());
    let length = u16::try_from(value.len());
    let mut bytes = vec![name_length.expect("a length")];
    bytes.extend(name.as_bytes());
    bytes.push(7);
    bytes.extend(length.expect("a length").to_be_bytes());
    bytes.extend(value.as_bytes());
    bytes
}

fn event(kind: &str, payload: &str) -> Vec<u8> {
    let headers = [
        header(":event-type", kind),
        header(":content-type", "application/json"),
        header(":message-type", "event"),
    ];
    message(&headers.concat(), payload.as_bytes())
}

fn spec() -> MeterSpec {
    MeterSpec::Usage { api: UsageApi::Bedrock, tariff: Tariff::default() }
}

fn settled(spec: &MeterSpec, pieces: &[&[u8]]) -> Metered {
    let headers = fields(&[(CONTENT_TYPE, "application/vnd.amazon.eventstream")]);
    let mut meter = Meter::new(spec, &headers);
    pieces.iter().for_each(|piece| meter.observe(piece));
    meter.finish(StatusCode::OK, Progress::Ended).0
}

const METADATA: &str =
    r#"{"metrics":{"latencyMs":7},"usage":{"inputTokens":12,"outputTokens":30,"totalTokens":42}}"#;

fn converse() -> Vec<Vec<u8>> {
    vec![
        event("messageStart", r#"{"role":"assistant"}"#),
        event("contentBlockDelta", r#"{"delta":{"text":"\"inputTokens\":9"},"p":"abc"}"#),
        message(&[], b""),
        event("metadata", METADATA),
    ]
}

/// The messages that the tests of botocore have, byte for byte.
#[test]
fn messages_of_another_program_are_read() {
    let empty = b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2H\xeb}\x98\xc8\xff";
    assert_eq!(message(&[], b""), empty);
    let one = b"\x00\x00\x00=\x00\x00\x00 \x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10\
                application/json{'foo':'bar'}\x8d\x9c\x08\xb1";
    assert_eq!(message(&header("content-type", "application/json"), b"{'foo':'bar'}"), one);
    assert_eq!(settled(&spec(), &[one]), Metered::AtLeast(0, Unsettled::Absent));
}

#[test]
fn the_tokens_are_in_the_payload_of_a_message() {
    let stream = converse().concat();
    assert_eq!(settled(&spec(), &[&stream]), Metered::Cost(42));
    let single: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(settled(&spec(), &single), Metered::Cost(42));
    assert_eq!(settled(&body("/usage/totalTokens"), &[&stream]), Metered::Cost(42));
}

#[test]
fn after_a_message_that_is_not_valid_nothing_is_read() {
    let broken = |stream: &[u8], units| {
        assert_eq!(settled(&spec(), &[stream]), Metered::AtLeast(units, Unsettled::Broken));
    };
    let good = event("metadata", METADATA);
    for at in 0..12 {
        let mut bad = good.clone();
        bad[at] ^= 1;
        broken(&[bad, good.clone()].concat(), 0);
    }
    // What a message has stated was spent, whatever its checksum is.
    let mut bad = good.clone();
    *bad.last_mut().expect("a byte") ^= 1;
    let larger = event("metadata", r#"{"usage":{"inputTokens":500}}"#);
    broken(&[bad, larger].concat(), 42);
    // A stream that ends in a message breaks off.
    broken(&[good.clone(), good[..5].to_vec()].concat(), 42);
    broken(&good[..good.len() - 1], 42);
    broken(b"{\"usage\":{\"inputTokens\":5}}", 0);
}

#[test]
fn the_parts_of_a_message_have_bounds() {
    let prelude = |total: u32, headers: u32| {
        let mut bytes = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        bytes.extend(crc32(&bytes).to_be_bytes());
        bytes
    };
    // The same bytes are read as a payload, or they are not.
    let is_read = |total, headers: u32| {
        let zeros = vec![0; usize::try_from(headers).expect("a length").min(200_000)];
        let stream = [prelude(total, headers), zeros, METADATA.as_bytes().to_vec()].concat();
        settled(&spec(), &[&stream]) == Metered::AtLeast(42, Unsettled::Broken)
    };
    assert!(is_read(1000, 0) && is_read(1000, 100) && is_read(131_072 + 1000, 131_072));
    assert!(!is_read(131_073 + 1000, 131_073), "too many headers");
    assert!(is_read(24 * 1024 * 1024 + 16, 0));
    assert!(!is_read(24 * 1024 * 1024 + 17, 0), "too long a payload");
    assert!(!is_read(15, 0) && !is_read(0, 0) && !is_read(100, 85) && !is_read(100, u32::MAX));
}

proptest! {
    #[test]
    fn chunks_make_no_difference_and_no_bytes_panic(
        mut stream in vec(prop_oneof![any::<u8>().prop_map(|byte| vec![byte]),
            (0..4_usize).prop_map(|n| converse()[n].clone())], 0..8).prop_map(|all| all.concat()),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
        sizes in vec(1..40_usize, 1..5),
    ) {
        for (at, byte) in flips {
            if !stream.is_empty() {
                let at = at.index(stream.len());
                stream[at] ^= byte;
            }
        }
        let mut pieces = Vec::new();
        let mut rest = &stream[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break }
            let (piece, others) = rest.split_at(rest.len().min(*size));
            pieces.push(piece);
            rest = others;
        }
        prop_assert_eq!(settled(&spec(), &pieces), settled(&spec(), &[&stream]));
    }
}
