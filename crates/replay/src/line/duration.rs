//! The forms in which logs write durations.

use super::text::scaled;

/// Go's units (package `time`, `ParseDuration`), in nanoseconds. A unit that begins like another
/// one stands before it.
const UNITS: [(&[u8], u64); 8] = [
    (b"ns", 1),
    (b"us", 1000),
    // U+00B5 and U+03BC.
    ("\u{b5}s".as_bytes(), 1000),
    ("\u{3bc}s".as_bytes(), 1000),
    (b"ms", 1_000_000),
    (b"s", 1_000_000_000),
    (b"m", 60_000_000_000),
    (b"h", 3_600_000_000_000),
];

/// Microseconds, rounded down: of a number in units of `unit_ns` nanoseconds, or of a text with
/// its own units, such as `1.5ms` or `1h2m3.5s`.
pub(super) fn micros(text: &[u8], unit_ns: u64) -> Option<u64> {
    scaled(text, unit_ns).or_else(|| with_units(text)).map(|ns| ns / 1000)
}

/// Nanoseconds of a text with units.
pub(super) fn with_units(text: &[u8]) -> Option<u64> {
    let mut rest = text;
    let mut sum_ns = 0_u64;
    loop {
        let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.'))?;
        let (number, after) = rest.split_at(end);
        let (unit, unit_ns) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        sum_ns = sum_ns.checked_add(scaled(number, *unit_ns)?)?;
        rest = &after[unit.len()..];
        if rest.is_empty() {
            return Some(sum_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_numbers_or_have_units() {
        let second = 1_000_000_000;
        let cases = [
            ("5", second, Some(5_000_000)),
            ("5.0", second, Some(5_000_000)),
            ("0.000929675", second, Some(929)),
            ("15", 1_000_000, Some(15_000)),
            ("5s", second, Some(5_000_000)),
            ("5000ms", second, Some(5_000_000)),
            ("1.5ms", second, Some(1500)),
            ("929.675\u{b5}s", second, Some(929)),
            ("929.675\u{3bc}s", second, Some(929)),
            ("7us", second, Some(7)),
            ("1500ns", second, Some(1)),
            ("0s", second, Some(0)),
            ("0m5s", second, Some(5_000_000)),
            ("1h2m3.5s", second, Some(3_723_500_000)),
            // The text's own unit counts.
            ("3s", 1_000_000, Some(3_000_000)),
            ("-1", second, None),
            ("-1s", second, None),
            ("5x", second, None),
            ("s", second, None),
            ("1s2", second, None),
            ("99999999999999999h", second, None),
            ("-", second, None),
            ("", second, None),
        ];
        for (text, unit_ns, expected) in cases {
            assert_eq!(micros(text.as_bytes(), unit_ns), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(
            text in "[0-9.a-z\u{b5}-]{0,30}",
            number in "[0-9]{1,3}[.][0-9]{0,20}[eE][-+]?(21474836[0-9]{2}|[0-9]{1,11})",
            bytes in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let _ = micros(text.as_bytes(), 1_000_000_000);
            let _ = micros(number.as_bytes(), 1_000_000_000);
            let _ = micros(&bytes, 1_000_000_000);
        }
    }
}
