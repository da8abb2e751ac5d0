//! Prices of the table as prices for a million tokens.

use tollgate_core::price::Rate;

/// A price of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The price, rounded up to its last decimal.
    pub rate: Rate,
    /// Whether it was rounded.
    pub is_rounded: bool,
}

/// What the number of the table is a price of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// One token. It becomes the price of a million.
    Token,
    /// One request.
    Request,
}

/// The digits of a number that are read. A number with more of them was computed in binary, like
/// `2.0000000000000002e-07`: it is rounded to these first. All numbers with fewer are exact.
const DIGITS: i32 = 15;

/// The decimals of a price.
const DECIMALS: i32 = 6;

/// The price. None: the number is negative, or too high.
pub fn converted(number: f64, per: Per) -> Option<Converted> {
    if !(0.0..1e18).contains(&number) {
        return None;
    }
    let text = format!("{number:.*e}", usize::try_from(DIGITS - 1).ok()?);
    let (digits, exponent) = text.split_once('e')?;
    let digits: u128 = digits.replace('.', "").parse().ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let millionfold = match per {
        Per::Token => 6,
        Per::Request => 0,
    };
    // The price in millionths is `digits` times 10 to the power of `shift`.
    let shift = exponent - (DIGITS - 1) + millionfold + DECIMALS;
    let (millionths, is_rounded) = match u32::try_from(shift) {
        Ok(shift) => (digits.checked_mul(10_u128.checked_pow(shift)?)?, false),
        Err(_) => match 10_u128.checked_pow(shift.unsigned_abs()) {
            Some(divisor) => (digits.div_ceil(divisor), !digits.is_multiple_of(divisor)),
            // It is less than a millionth.
            None => (u128::from(digits > 0), digits > 0),
        },
    };
    let rate = Rate::from_millionths(u64::try_from(millionths).ok()?)?;
    Some(Converted { rate, is_rounded })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn per_token(number: f64) -> Option<(u64, bool)> {
        converted(number, Per::Token).map(|it| (it.rate.millionths(), it.is_rounded))
    }

    #[test]
    fn decimals_are_exact_and_more_than_six_are_rounded_up() {
        assert_eq!(per_token(1.25e-6), Some((1_250_000, false)));
        assert_eq!(per_token(1e-12), Some((1, false)));
        assert_eq!(per_token(1.0001e-12), Some((2, true)));
        assert_eq!(per_token(4.005_432_1e-8), Some((40_055, true)));
        assert_eq!(per_token(5e-300), Some((1, true)));
        assert_eq!(per_token(0.0), Some((0, false)));
        assert_eq!(per_token(1000.0), Some((1_000_000_000_000_000, false)));
        for wrong in [1000.1, -1e-6, f64::INFINITY, f64::NAN, 1e17] {
            assert_eq!(per_token(wrong), None, "{wrong}");
        }
        let request = converted(0.005, Per::Request).map(|it| it.rate.millionths());
        assert_eq!(request, Some(5000));
    }

    #[test]
    fn what_was_computed_in_binary_is_not_rounded_up_for_that() {
        assert_eq!(per_token(2.000_000_000_000_000_2e-7), Some((200_000, false)));
        assert_eq!(per_token(8.900_000_000_000_001e-7), Some((890_000, false)));
        assert_eq!(per_token(3.333_333_333_333_333_5e-5), Some((33_333_334, true)));
    }

    proptest! {
        /// By the text of the number, which has at most 15 digits.
        #[test]
        fn it_is_the_number_that_is_written(digits in 1_u64..999_999_999_999_999, shift in 0_u32..22) {
            let number: f64 = format!("{digits}e-{shift}").parse().unwrap();
            let exact = u128::from(digits) * 10_u128.pow(12);
            let millionths = exact.div_ceil(10_u128.pow(shift));
            let is_rounded = !exact.is_multiple_of(10_u128.pow(shift));
            let expected = u64::try_from(millionths).ok().filter(|it| *it <= 10_u64.pow(15));
            prop_assert_eq!(per_token(number), expected.map(|it| (it, is_rounded)));
        }
    }
}
