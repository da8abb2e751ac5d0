//! A JSON number (RFC 8259, section 6), read byte by byte and rounded up to an integer.
//!
//! The result is exact for any number of digits: it is not computed with floats, and only digits
//! that can change the result are kept.

/// A number of which some bytes have been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number {
    part: Part,
    is_negative: bool,
    /// The leading digits, until they exceed 64 bits.
    significand: u128,
    /// Whether a digit after those was not zero.
    has_more: bool,
    /// The power of ten of the significand's last digit, the exponent aside.
    scale: i64,
    exponent: i64,
    exponent_is_negative: bool,
}

/// The meaning of the last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Nothing,
    Minus,
    /// A leading zero, which no other digit of the integer part may follow.
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigit,
}

impl Number {
    /// The number that consists of all these bytes; see [`Self::rounded_up`].
    pub(super) fn parse(bytes: &[u8]) -> Option<u64> {
        let mut number = Self::default();
        let is_number = bytes.iter().all(|byte| number.read(*byte)) && number.is_complete();
        is_number.then(|| number.rounded_up()).flatten()
    }

    /// Reads one byte. Returns false if the number has ended before it.
    pub(super) fn read(&mut self, byte: u8) -> bool {
        self.part = match (self.part, byte) {
            (Part::Nothing, b'-') => Part::Minus,
            (Part::Nothing | Part::Minus, b'0') => Part::Zero,
            (Part::Nothing | Part::Minus, b'1'..=b'9') | (Part::Whole, b'0'..=b'9') => Part::Whole,
            (Part::Zero | Part::Whole, b'.') => Part::Point,
            (Part::Point | Part::Fraction, b'0'..=b'9') => Part::Fraction,
            (Part::Zero | Part::Whole | Part::Fraction, b'e' | b'E') => Part::Exponent,
            (Part::Exponent, b'+' | b'-') => Part::ExponentSign,
            (Part::Exponent | Part::ExponentSign | Part::ExponentDigit, b'0'..=b'9') => {
                Part::ExponentDigit
            }
            _ => return false,
        };
        let digit = byte.wrapping_sub(b'0');
        match self.part {
            Part::Minus => self.is_negative = true,
            Part::Whole => self.push(digit, 0),
            Part::Fraction => self.push(digit, -1),
            Part::ExponentSign => self.exponent_is_negative = byte == b'-',
            Part::ExponentDigit => {
                self.exponent = self.exponent.saturating_mul(10).saturating_add(digit.into());
            }
            Part::Nothing | Part::Zero | Part::Point | Part::Exponent => {}
        }
        true
    }

    /// Appends a digit. `shift` is its effect on the significand's power of ten.
    fn push(&mut self, digit: u8, shift: i64) {
        if self.significand <= u64::MAX.into() {
            self.significand = self.significand * 10 + u128::from(digit);
            self.scale = self.scale.saturating_add(shift);
        } else {
            self.has_more |= digit != 0;
            self.scale = self.scale.saturating_add(shift + 1);
        }
    }

    /// Whether the number may end here.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.part, Part::Zero | Part::Whole | Part::Fraction | Part::ExponentDigit)
    }

    /// The power of ten of the significand's last digit, and ten to its absolute value, if that has
    /// 128 bits at most.
    fn power(&self) -> (i64, Option<u128>) {
        let power = if self.exponent_is_negative {
            self.scale.saturating_sub(self.exponent)
        } else {
            self.scale.saturating_add(self.exponent)
        };
        let size = u32::try_from(power.unsigned_abs()).ok();
        (power, size.and_then(|size| 10_u128.checked_pow(size)))
    }

    /// The smallest integer that is not less than the number, or [`u64::MAX`] if it exceeds
    /// 64 bits; none if the number is negative. `-0` is zero.
    pub(super) fn rounded_up(&self) -> Option<u64> {
        if self.significand == 0 {
            return Some(0);
        }
        if self.is_negative {
            return None;
        }
        let (power, factor) = self.power();
        let whole = match factor {
            // Omitted digits make no difference: the digits before them exceed 64 bits.
            Some(factor) if power >= 0 => self.significand.saturating_mul(factor),
            Some(factor) => {
                let has_rest = self.has_more || self.significand % factor != 0;
                self.significand / factor + u128::from(has_rest)
            }
            None if power > 0 => u128::MAX,
            None => 1,
        };
        Some(u64::try_from(whole).unwrap_or(u64::MAX))
    }

    /// The number in decimal digits, if it is an integer: `1.0` and `1e0` are `1`, and `-0` is `0`.
    /// All numbers of more than 64 bits are the largest number of 64 bits, with their sign.
    pub(super) fn integer(&self) -> Option<String> {
        if self.significand == 0 {
            return Some("0".into());
        }
        // The negative of a negative number, which is rounded up, is not rounded at all.
        let size = Self { is_negative: false, ..*self };
        let whole = size.rounded_up()?;
        let is_whole = size.rounded_down().is_none_or(|down| down == whole);
        let sign = if self.is_negative { "-" } else { "" };
        is_whole.then(|| format!("{sign}{whole}"))
    }

    /// Whether the nearest float of 64 bits is an integer, as it is of `7.00000000000000000001`.
    ///
    /// Of a number with more digits than are kept, both numbers around it that have only these digits
    /// are tested. They are much closer together than floats, so no such number is missed.
    pub(super) fn is_integer_as_float(&self) -> bool {
        let (power, _) = self.power();
        let is_integer = |significand: u128| {
            let float = format!("{significand}e{power}").parse::<f64>();
            float.is_ok_and(|float| float.fract() == 0.0)
        };
        is_integer(self.significand) || self.has_more && is_integer(self.significand + 1)
    }

    /// The largest integer that is not more than the number; none if it exceeds 64 bits.
    fn rounded_down(&self) -> Option<u64> {
        let (power, factor) = self.power();
        let whole = match factor {
            Some(_) if self.has_more && power >= 0 => return None,
            Some(factor) if power >= 0 => self.significand.checked_mul(factor)?,
            Some(factor) => self.significand / factor,
            None if power > 0 => return None,
            None => 0,
        };
        u64::try_from(whole).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_rounded_up() {
        let cases = [
            ("0", 0),
            ("12", 12),
            ("12.3", 13),
            ("12.000", 12),
            ("1e3", 1000),
            ("1.5E+3", 1500),
            ("1234e-2", 13),
            ("1e-400", 1),
            ("0e99999999999999999999", 0),
            ("-0", 0),
            ("-0.00e7", 0),
            ("18446744073709551615", u64::MAX),
            ("18446744073709551614.00000000000000000000000000000000001", u64::MAX),
            ("100000000000000000000000000000000000000001e-41", 2),
        ];
        for (text, cost) in cases {
            assert_eq!(Number::parse(text.as_bytes()), Some(cost), "{text}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_the_largest_number() {
        for text in ["18446744073709551616", "1e20", "1e999999999999999999999", "9e38", "9e39"] {
            assert_eq!(Number::parse(text.as_bytes()), Some(u64::MAX), "{text}");
        }
    }

    #[test]
    fn negative_numbers_and_other_texts_are_not_a_cost() {
        let texts = [
            "-1", "-1e-400", "", "-", "+1", "01", "-01", ".5", "1.", "1.e2", "1e", "1e+", "1e1.0",
            "1 ", " 1", "0x1", "1_0", "NaN", "--1", "1-",
        ];
        for text in texts {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
    }

    /// Writes the number without an exponent, and checks the digits behind the point.
    fn written_out(whole: &str, fraction: &str, exponent: i32) -> u64 {
        let zeros = "0".repeat(60);
        let digits = format!("{zeros}{whole}{fraction}{zeros}");
        let point = i32::try_from(60 + whole.len()).unwrap() + exponent;
        let (whole, rest) = digits.split_at(point.try_into().unwrap());
        let has_rest = rest.bytes().any(|digit| digit != b'0');
        let whole = whole.trim_start_matches('0');
        if whole.len() > 30 {
            return u64::MAX;
        }
        let whole = format!("0{whole}").parse::<u128>().unwrap() + u128::from(has_rest);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    proptest! {
        #[test]
        fn the_result_is_exact_for_any_number_of_digits(
            whole in "0|[1-9][0-9]{0,29}",
            fraction in "0{0,9}[0-9]{0,20}",
            exponent in -59..=59_i32,
        ) {
            let point = if fraction.is_empty() { "" } else { "." };
            let text = format!("{whole}{point}{fraction}e{exponent}");
            let expected = written_out(&whole, &fraction, exponent);
            prop_assert_eq!(Number::parse(text.as_bytes()), Some(expected), "{}", text);
        }
    }
}
