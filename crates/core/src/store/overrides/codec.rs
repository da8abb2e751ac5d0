//! The format of overrides in Redis and in files: one byte for the kind, then the numbers as
//! LEB128 (7 bits in each byte, the lowest first).

use super::Override;
use crate::time::Span;

const UNLIMITED: u8 = 0;
const LIMIT: u8 = 1;
const LIMIT_AND_WINDOW: u8 = 2;

/// Encodes an override in at most 21 bytes.
pub fn encode(what: Override) -> Vec<u8> {
    let mut bytes = Vec::new();
    match what {
        Override::Unlimited => bytes.push(UNLIMITED),
        Override::Limited { units, window: None } => {
            bytes.push(LIMIT);
            put(units, &mut bytes);
        }
        Override::Limited { units, window: Some(window) } => {
            bytes.push(LIMIT_AND_WINDOW);
            put(units, &mut bytes);
            put(window.as_micros(), &mut bytes);
        }
    }
    bytes
}

/// Decodes an override. None if the bytes are not in this format.
pub fn decode(bytes: &[u8]) -> Option<Override> {
    let (kind, mut rest) = bytes.split_first()?;
    let what = match *kind {
        UNLIMITED => Override::Unlimited,
        LIMIT => Override::Limited { units: take(&mut rest)?, window: None },
        LIMIT_AND_WINDOW => {
            let units = take(&mut rest)?;
            Override::Limited { units, window: Some(Span::from_micros(take(&mut rest)?)) }
        }
        _ => return None,
    };
    rest.is_empty().then_some(what)
}

fn put(mut number: u64, bytes: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).expect("7 bits fit into a byte");
        number >>= 7;
        bytes.push(if number > 0 { low | 0x80 } else { low });
        if number == 0 {
            return;
        }
    }
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        let part = low << shift;
        if part >> shift != low {
            return None;
        }
        number |= part;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overrides() -> impl Strategy<Value = Override> {
        let window = prop::option::of(any::<u64>().prop_map(Span::from_micros));
        let limited = |(units, window)| Override::Limited { units, window };
        prop_oneof![Just(Override::Unlimited), (any::<u64>(), window).prop_map(limited)]
    }

    proptest! {
        #[test]
        fn an_encoded_override_decodes_to_itself(what in overrides()) {
            let bytes = encode(what);
            prop_assert!((1..=21).contains(&bytes.len()));
            prop_assert_eq!(decode(&bytes), Some(what));
            prop_assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
            prop_assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        }

        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            decode(&bytes);
        }
    }

    /// Nodes of different versions read the same bytes, so the format must never change.
    #[test]
    fn the_format_does_not_change() {
        let window = Some(Span::SECOND);
        let cases = [
            (Override::Unlimited, &b"\x00"[..]),
            (Override::Limited { units: 300, window: None }, b"\x01\xac\x02"),
            (Override::Limited { units: 1, window }, b"\x02\x01\xc0\x84\x3d"),
        ];
        for (what, bytes) in cases {
            assert_eq!(encode(what), bytes);
        }
    }
}
