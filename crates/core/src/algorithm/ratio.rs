//! Quotients that are exact at any size.
//!
//! A limit takes up to 39 bits and a window up to 45, so a product takes up to 128 bits.
//! Nearly all products fit in 64 bits, for which a division is several times faster.

/// `a · b`, which never overflows.
pub(super) fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// `⌊dividend / divisor⌋`, or the largest number. The divisor is not zero.
pub(super) fn floor(dividend: u128, divisor: u64) -> u64 {
    match u64::try_from(dividend) {
        Ok(dividend) => dividend / divisor,
        Err(_) => u64::try_from(dividend / u128::from(divisor)).unwrap_or(u64::MAX),
    }
}

/// `⌈dividend / divisor⌉`, or the largest number. The divisor is not zero.
pub(super) fn ceil(dividend: u128, divisor: u64) -> u64 {
    match u64::try_from(dividend) {
        Ok(dividend) => dividend.div_ceil(divisor),
        Err(_) => u64::try_from(dividend.div_ceil(u128::from(divisor))).unwrap_or(u64::MAX),
    }
}
