//! Decimal fractions as texts, read without a floating-point number.

use std::fmt;

/// A decimal fraction: `value` times 10 to the power of `-decimals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    value: u64,
    /// How many decimals are written, without zeros at the end.
    decimals: u8,
}

/// Why a text is no decimal fraction of the wanted form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// It is not digits with at most one point.
    #[error("it is not a number")]
    NotANumber,
    /// It has more decimals than can be counted.
    #[error("it has more than {0} decimals")]
    TooFine(u8),
    /// It is too large.
    #[error("it is too large")]
    TooLarge,
}

/// The most decimals that a text may have. Zeros at the end do not count.
const MAX_DECIMALS: u8 = 18;

impl Decimal {
    /// Reads digits with at most one point, like `1_000` or `0.125`. There may be `_` between the
    /// digits before the point.
    ///
    /// # Errors
    /// If the text has another form, or does not fit into 64 bits.
    pub fn read(text: &str) -> Result<Self, DecimalError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| {
            let mut bytes = digits.bytes();
            bytes.next().is_some_and(|first| first.is_ascii_digit())
                && bytes.all(|byte| byte.is_ascii_digit() || byte == b'_')
        };
        if !is_number(whole) || !is_number(fraction) || fraction.contains('_') {
            return Err(DecimalError::NotANumber);
        }
        let fraction = fraction.trim_end_matches('0');
        let decimals = u8::try_from(fraction.len()).unwrap_or(u8::MAX);
        if decimals > MAX_DECIMALS {
            return Err(DecimalError::TooFine(MAX_DECIMALS));
        }
        let digits = whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit);
        let value = digits
            .map(|digit| u64::from(digit - b'0'))
            .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(digit));
        Ok(Self { value: value.ok_or(DecimalError::TooLarge)?, decimals })
    }

    /// The number in units of 10 to the power of `-digits`.
    ///
    /// # Errors
    /// If it has more decimals, or does not fit into 64 bits.
    pub fn in_units(self, digits: u8) -> Result<u64, DecimalError> {
        let more = digits.checked_sub(self.decimals).ok_or(DecimalError::TooFine(digits))?;
        let factor = 10_u64.checked_pow(u32::from(more));
        factor.and_then(|factor| self.value.checked_mul(factor)).ok_or(DecimalError::TooLarge)
    }
}

/// Writes it so that it can be read again.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_units(f, self.value, self.decimals, 0)
    }
}

/// Writes a number of units of 10 to the power of `-digits` with at least `least` decimals.
pub(super) fn write_units(
    f: &mut fmt::Formatter<'_>,
    units: u64,
    digits: u8,
    least: u8,
) -> fmt::Result {
    let width = usize::from(digits) + 1;
    let all = format!("{units:0>width$}");
    let (whole, fraction) = all.split_at(all.len() - usize::from(digits));
    let shown = fraction.trim_end_matches('0').len().max(usize::from(least.min(digits)));
    match shown {
        0 => f.write_str(whole),
        _ => write!(f, "{whole}.{}", &fraction[..shown]),
    }
}
