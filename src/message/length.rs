//! The length that a message states (RFC 9110, section 8.6).

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue};

/// The number in a Content-Length: decimal digits, and not above what a reader with
/// signed numbers can represent.
pub fn content_length(value: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let next = |number: i64, byte| number.checked_mul(10)?.checked_add(digit(byte)?);
    let number = value.iter().try_fold(0, next).filter(|_| !value.is_empty())?;
    u64::try_from(number).ok()
}

/// The length that the fields of a message state, if they state one. Several equal lengths are
/// merged into one field.
///
/// # Errors
/// If the lengths differ, or are not [lengths](content_length).
pub fn merge_content_lengths(headers: &mut HeaderMap) -> Result<Option<u64>, BadLength> {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    // Nearly all messages have one length.
    if lines.next().is_none()
        && let Some(length) = content_length(line.as_bytes().trim_ascii())
    {
        return Ok(Some(length));
    }
    let lines = headers.get_all(CONTENT_LENGTH).iter();
    let mut texts = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let first = texts.next().unwrap_or_default().trim_ascii();
    let length = content_length(first).ok_or(BadLength)?;
    if texts.any(|text| text.trim_ascii() != first) {
        return Err(BadLength);
    }
    let merged = HeaderValue::from_bytes(first).expect("digits are visible ASCII");
    headers.insert(CONTENT_LENGTH, merged);
    Ok(Some(length))
}

/// The lengths of a message differ, or are no lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lengths_become_one() {
        let cases: [(&[&str], Option<&[&str]>); 15] = [
            (&[], Some(&[])),
            (&["2"], Some(&["2"])),
            (&["2, 2"], Some(&["2"])),
            (&["2", "2"], Some(&["2"])),
            (&["2 ,2", "2"], Some(&["2"])),
            (&["2, 3"], None),
            (&["2", "3"], None),
            (&["2", "02"], None),
            (&["2,"], None),
            (&[""], None),
            (&["+2"], None),
            (&["2 2"], None),
            (&["9223372036854775807"], Some(&["9223372036854775807"])),
            (&["9223372036854775808"], None),
            (&["9223372036854775808, 9223372036854775808"], None),
        ];
        for (lines, united) in cases {
            let line = |line: &&str| (CONTENT_LENGTH, HeaderValue::from_str(line).unwrap());
            let mut headers: HeaderMap = lines.iter().map(line).collect();
            let length = merge_content_lengths(&mut headers);
            let after: Vec<&HeaderValue> = headers.get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(length.is_ok(), united.is_some(), "{lines:?}");
            if let Ok(length) = length {
                let stated = after.first().map(|it| it.to_str().unwrap().parse().unwrap());
                assert_eq!(length, stated, "{lines:?}");
            }
            assert!(united.is_none_or(|united| after == united), "{lines:?}: {after:?}");
        }
    }
}
