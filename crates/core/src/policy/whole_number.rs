//! Numbers that a request states.

/// Parses decimal digits only. A number that exceeds 64 bits counts as the largest number,
/// so that a long number does not cost less than a short one.
pub(super) fn whole_number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        text.iter().fold(0_u64, |number, digit| {
            number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        })
    })
}
