//! How much of its limit a client gets a second time if its state is forgotten.
//!
//! If a store has no free slot, it forgets the state with the smallest such share. It is a
//! share of the limit, so that neither long windows nor large limits displace short windows or
//! small limits.
//!
//! A share is stored in one byte. With the time that is left until the state ends, it yields
//! the share at any later time:
//!
//! - Two-counter windows and buckets forget steadily: the share falls linearly to 0 at the
//!   end. The byte has the fall of the share in a second.
//! - In a fixed window, in sub-windows and in a log, all units may count until the end. The
//!   byte has the share, which does not change.
//!
//! Both are powers of 2^(−1/5), so one step is 13 %. The smallest share is 2^−14 of a limit,
//! and a linear fall may take more than two years.

use crate::algorithm::Algorithm;
use crate::time::Span;

/// How much of its limit a state counts, and how this changes with time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight(u8);

/// The number of steps in which a share halves.
const STEPS: u32 = 5;
/// The first code of a constant share. Lower codes are of falling shares.
const STEADY: u8 = 184;
/// The share of one whole limit, in the unit of [`Weight::debt`].
pub(super) const WHOLE: u64 = 1 << 44;
/// 2^(−k/5) of [`WHOLE`].
const FIFTHS: [u64; 5] =
    [WHOLE, 15_314_887_470_577, 13_332_383_914_327, 11_606_514_326_698, 10_104_057_585_011];
/// Remaining times are rounded to seconds, so a shorter fall cannot be measured.
const SHORTEST_FALL: Span = Span::from_secs(2);

/// The value of each code: a share in a second, or a share.
const VALUES: [u64; 256] = {
    let mut values = [0; 256];
    let mut code = 0;
    while code < values.len() {
        let step = if code < STEADY as usize { code } else { code - STEADY as usize };
        values[code] = FIFTHS[step % 5] >> (step / 5);
        code += 1;
    }
    values
};

impl Weight {
    /// The weight of a state of this algorithm that counts `used` of `capacity` units and ends
    /// after `left`.
    pub(super) fn new(algorithm: &Algorithm, used: u64, capacity: u64, left: Span) -> Self {
        // A ban counts no units. Until it is forgotten, it counts like a whole limit.
        let used = if matches!(algorithm, Algorithm::Ban(_)) { capacity } else { used };
        let used = used.clamp(1, capacity.max(1));
        let halvings = log2_256(capacity) - log2_256(used);
        if stays(algorithm) {
            return Self(STEADY.saturating_add(code(halvings)));
        }
        let seconds = log2_256(left.max(SHORTEST_FALL).as_micros()) - log2_256(1_000_000);
        Self(code(halvings + seconds).min(STEADY - 1))
    }

    /// The share that still counts `left_s` seconds before the end. [`WHOLE`] is the whole
    /// limit.
    pub(super) fn debt(self, left_s: u32) -> u64 {
        let value = VALUES[usize::from(self.0)];
        let seconds = if self.0 < STEADY { u64::from(left_s) } else { 1 };
        value.saturating_mul(seconds).min(WHOLE)
    }

    /// The weight as it is stored in a slot.
    pub(super) const fn code(self) -> u8 {
        self.0
    }

    /// The inverse of [`code`](Self::code).
    pub(super) const fn from_code(code: u8) -> Self {
        Self(code)
    }
}

/// Whether all units may count until the state ends.
const fn stays(algorithm: &Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::FixedWindow(_) | Algorithm::SubWindows(_) | Algorithm::SlidingLog(_)
    )
}

/// The number of steps nearest to this number of halvings, which is in 256ths.
fn code(halvings_256: u32) -> u8 {
    u8::try_from((halvings_256 * STEPS + 128) / 256).unwrap_or(u8::MAX)
}

/// The logarithm to base 2, in 256ths. It is exact for powers of two and up to a twelfth too
/// small between them. It never falls where the number rises.
const fn log2_256(number: u64) -> u32 {
    let number = if number == 0 { 1 } else { number };
    let whole = number.ilog2();
    let mantissa = if whole > 8 { number >> (whole - 8) } else { number << (8 - whole) };
    // The mantissa is from 256 to 511.
    whole * 256 + (mantissa & 0xff) as u32
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "a quarter more or less makes no difference")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::testing::cases;
    use crate::algorithm::{Ban, FixedWindow, MAX_LIMIT, Quota, SlidingWindow};

    const YEAR_S: u64 = 366 * 86_400;

    fn quota() -> Quota {
        Quota::new(10, Span::from_secs(60)).unwrap()
    }

    fn falling() -> Algorithm {
        Algorithm::SlidingWindow(SlidingWindow::new(quota()))
    }

    fn steady() -> Algorithm {
        Algorithm::FixedWindow(FixedWindow::new(quota()))
    }

    fn debt(algorithm: &Algorithm, used: u64, capacity: u64, life_s: u64, left_s: u64) -> f64 {
        let weight = Weight::new(algorithm, used, capacity, Span::from_secs(life_s));
        let weight = Weight::from_code(weight.code());
        weight.debt(u32::try_from(left_s).unwrap()) as f64 / WHOLE as f64
    }

    #[test]
    fn the_fifths_have_their_exact_values() {
        for (k, fifth) in (0_i32..).zip(FIFTHS) {
            let exact = WHOLE as f64 * 2_f64.powf(-f64::from(k) / 5.0);
            assert!((fifth as f64 - exact).abs() < 1.0, "{k}: {fifth} is not {exact}");
        }
    }

    #[test]
    fn a_new_ban_counts_like_a_whole_limit() {
        let ban = Algorithm::Ban(Ban::new(Span::from_secs(300), Span::DAY).unwrap());
        let at_first = debt(&ban, 0, MAX_LIMIT, 86_700, 86_700);
        assert!(at_first > 0.85, "{at_first}");
        assert!(debt(&ban, 0, MAX_LIMIT, 86_700, 8670) < 0.13);
    }

    proptest! {
        #![proptest_config(cases())]

        /// The tolerance is half a step and the rounding of the logarithms, up or down.
        #[test]
        fn a_debt_is_measured_within_a_quarter(
            capacity in 1..=MAX_LIMIT,
            part in 0..1_000_000_u64,
            life_s in 2..=2 * YEAR_S,
            over in 0..1_000_000_u64,
        ) {
            let used = (capacity * part / 1_000_000).max(capacity.div_ceil(10_000));
            let share = used as f64 / capacity as f64;
            let stays = debt(&steady(), used, capacity, life_s, life_s * over / 1_000_000);
            prop_assert!((0.8..=1.25).contains(&(stays / share)), "{} for {}", stays, share);
            let left_s = (life_s * over / 1_000_000).max(1);
            let now = share * left_s as f64 / life_s as f64;
            if share * 900.0 >= 1.0 {
                let falls = debt(&falling(), used, capacity, life_s, left_s);
                prop_assert!((0.8..=1.25).contains(&(falls / now)), "{} for {}", falls, now);
            }
        }

        #[test]
        fn a_debt_grows_with_use_and_never_exceeds_a_limit(
            capacity in 1..=MAX_LIMIT,
            (used, more) in (0..=2 * MAX_LIMIT, 0..=MAX_LIMIT),
            (left_s, longer_s) in (0..=2 * YEAR_S, 0..=YEAR_S),
            life_us in any::<u64>(),
        ) {
            for algorithm in [falling(), steady()] {
                let weight =
                    |used| Weight::new(&algorithm, used, capacity, Span::from_micros(life_us));
                let debt = |used, left_s| weight(used).debt(u32::try_from(left_s).unwrap());
                prop_assert!(debt(used, left_s) <= debt(used + more, left_s));
                prop_assert!(debt(used, left_s) <= debt(used, left_s + longer_s));
                prop_assert!(debt(used + more, left_s + longer_s) <= WHOLE);
            }
        }
    }
}
