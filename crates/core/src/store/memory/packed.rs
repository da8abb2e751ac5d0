//! States in 128 bits.
//!
//! The two highest bits are the kind. A kind with unused bits has a second kind in the next
//! two. Counts take 40 bits, twice [`MAX_LIMIT`](crate::algorithm::MAX_LIMIT). Windows take
//! 44 bits: the shortest ones fit until the year 2527. Times take 52 bits of microseconds,
//! until 2112. A larger number is replaced by the largest one that fits.

use crate::algorithm::State;
use crate::time::Timestamp;

const KIND_AT: u32 = 126;
const SLIDING: u128 = 0;
const FIXED: u128 = 1;
const BUCKET: u128 = 2;
const OTHER: u128 = 3;
const OTHER_KIND_AT: u32 = 124;
const LARGE: u128 = 0;
const QUEUE: u128 = 1;
const BAN: u128 = 2;

const COUNT_BITS: u32 = 40;
const WINDOW_BITS: u32 = 44;
const TIME_BITS: u32 = 52;
const LEVEL_BITS: u32 = 74;
const QUEUE_LEVEL_BITS: u32 = 71;
const INDEX_BITS: u32 = 32;
const BANS_BITS: u32 = 8;

/// The form of a state in a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packed {
    /// A state that fits.
    Small(State),
    /// The index in the slab of a state that does not fit.
    Large(u32),
}

impl Packed {
    /// The state in 128 bits. Counts and logs do not fit and belong in the slab. Units in
    /// flight are stored separately.
    pub(super) fn bits(&self) -> Option<u128> {
        Some(match *self {
            Self::Small(State::Sliding { window, current, previous }) => {
                SLIDING << KIND_AT
                    | cut(window, WINDOW_BITS) << (2 * COUNT_BITS)
                    | cut(current, COUNT_BITS) << COUNT_BITS
                    | cut(previous, COUNT_BITS)
            }
            Self::Small(State::Fixed { window, current }) => {
                FIXED << KIND_AT | cut(window, WINDOW_BITS) << COUNT_BITS | cut(current, COUNT_BITS)
            }
            Self::Small(State::Bucket { as_of, level }) => {
                BUCKET << KIND_AT
                    | cut(as_of.as_micros(), TIME_BITS) << LEVEL_BITS
                    | cut(level, LEVEL_BITS)
            }
            Self::Small(State::Queue { as_of, level, shared }) => {
                OTHER << KIND_AT
                    | QUEUE << OTHER_KIND_AT
                    | u128::from(shared) << (TIME_BITS + QUEUE_LEVEL_BITS)
                    | cut(as_of.as_micros(), TIME_BITS) << QUEUE_LEVEL_BITS
                    | cut(level, QUEUE_LEVEL_BITS)
            }
            Self::Small(State::Ban { until, bans }) => {
                OTHER << KIND_AT
                    | BAN << OTHER_KIND_AT
                    | cut(until.as_micros(), TIME_BITS) << BANS_BITS
                    | u128::from(bans)
            }
            Self::Small(State::Counts { .. } | State::Log(_) | State::InFlight { .. }) => {
                return None;
            }
            Self::Large(index) => OTHER << KIND_AT | LARGE << OTHER_KIND_AT | u128::from(index),
        })
    }

    /// The inverse of [`bits`](Self::bits).
    pub(super) fn from_bits(bits: u128) -> Self {
        match bits >> KIND_AT {
            SLIDING => Self::Small(State::Sliding {
                window: field(bits, 2 * COUNT_BITS, WINDOW_BITS),
                current: field(bits, COUNT_BITS, COUNT_BITS),
                previous: field(bits, 0, COUNT_BITS),
            }),
            FIXED => Self::Small(State::Fixed {
                window: field(bits, COUNT_BITS, WINDOW_BITS),
                current: field(bits, 0, COUNT_BITS),
            }),
            BUCKET => Self::Small(State::Bucket {
                as_of: Timestamp::from_micros(field(bits, LEVEL_BITS, TIME_BITS)),
                level: bits & mask(LEVEL_BITS),
            }),
            _ if bits >> OTHER_KIND_AT & mask(2) == QUEUE => Self::Small(State::Queue {
                as_of: Timestamp::from_micros(field(bits, QUEUE_LEVEL_BITS, TIME_BITS)),
                level: bits & mask(QUEUE_LEVEL_BITS),
                shared: bits >> (TIME_BITS + QUEUE_LEVEL_BITS) & 1 == 1,
            }),
            _ if bits >> OTHER_KIND_AT & mask(2) == BAN => Self::Small(State::Ban {
                until: Timestamp::from_micros(field(bits, BANS_BITS, TIME_BITS)),
                bans: u8::try_from(bits & mask(BANS_BITS)).expect("no more than 8 bits are left"),
            }),
            _ => Self::Large(
                u32::try_from(bits & mask(INDEX_BITS)).expect("no more than 32 bits are left"),
            ),
        }
    }
}

const fn mask(width: u32) -> u128 {
    (1 << width) - 1
}

fn cut(value: impl Into<u128>, width: u32) -> u128 {
    value.into().min(mask(width))
}

fn field(bits: u128, at: u32, width: u32) -> u64 {
    u64::try_from(bits >> at & mask(width)).expect("no field is wider than 64 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::testing::cases;

    fn survives(state: State) -> bool {
        let packed = Packed::Small(state);
        packed.bits().is_some_and(|bits| Packed::from_bits(bits) == packed)
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn a_state_survives_being_packed(
            window in 0..1_u64 << WINDOW_BITS,
            (current, previous) in (0..1_u64 << COUNT_BITS, 0..1_u64 << COUNT_BITS),
            us in 0..1_u64 << TIME_BITS,
            level in 0..1_u128 << LEVEL_BITS,
            (queue_level, shared) in (0..1_u128 << QUEUE_LEVEL_BITS, any::<bool>()),
            bans in any::<u8>(),
            index in any::<u32>(),
        ) {
            let small = [
                State::Sliding { window, current, previous },
                State::Fixed { window, current },
                State::Bucket { as_of: Timestamp::from_micros(us), level },
                State::Queue { as_of: Timestamp::from_micros(us), level: queue_level, shared },
                State::Ban { until: Timestamp::from_micros(us), bans },
            ];
            prop_assert!(small.into_iter().all(survives));
            let large = Packed::Large(index).bits().map(Packed::from_bits);
            prop_assert_eq!(large, Some(Packed::Large(index)));
        }
    }

    #[test]
    fn a_number_that_is_too_large_becomes_the_largest_that_fits() {
        let bits = Packed::Small(State::Fixed { window: u64::MAX, current: u64::MAX }).bits();
        let largest =
            State::Fixed { window: (1 << WINDOW_BITS) - 1, current: (1 << COUNT_BITS) - 1 };
        assert_eq!(bits.map(Packed::from_bits), Some(Packed::Small(largest)));
    }

    #[test]
    fn counts_do_not_fit() {
        let counts = State::Counts { newest: 0, counts: Box::default() };
        assert_eq!(Packed::Small(counts).bits(), None);
    }
}
