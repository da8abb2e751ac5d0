//! How a lease has ended, as the value of a mark. Pure.

use tollgate_core::store::Mark;

/// Costs below this are told apart. Greater ones, and digests, are told apart but for chance.
const EXACT: u64 = 1 << 30;
/// A prime number, so that multiples of powers of two differ.
const GREATER: u64 = (1 << 29) - 3;
const RENEWED: u64 = EXACT + (1 << 29);

/// How a lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was settled: its request has cost these units.
    Settled(u64),
    /// It was settled: its request has used tokens with this digest.
    Used(u64),
    /// It was replaced by a lease that ends this many milliseconds after the question.
    Renewed(u64),
}

impl End {
    /// The longest time for which a lease can be renewed, in milliseconds: five days.
    pub const MAX_RENEWED_MS: u64 = 5 * 86_400_000;

    /// The value of a mark that says this.
    pub fn value(self) -> u32 {
        let value = match self {
            Self::Settled(actual) if actual < EXACT => actual,
            Self::Settled(other) | Self::Used(other) => EXACT + other % GREATER,
            Self::Renewed(ms) => RENEWED + ms.min(Self::MAX_RENEWED_MS),
        };
        u32::try_from(value).unwrap_or(Mark::MAX_VALUE)
    }

    /// When a lease ends that replaces another one, by the value of the mark of that one.
    pub fn renewed_ms(value: u32) -> Option<u64> {
        u64::from(value).checked_sub(RENEWED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart_by_their_values() {
        let ends = [
            End::Settled(0),
            End::Settled(1),
            End::Settled(EXACT - 1),
            End::Settled(EXACT),
            End::Settled(EXACT + 1),
            End::Settled(1 << 39),
            End::Used(0x9e37_79b9_7f4a_7c15),
            End::Used(0x9e37_79b9_7f4a_7c16),
            End::Renewed(0),
            End::Renewed(1),
            End::Renewed(End::MAX_RENEWED_MS),
        ];
        for (index, end) in ends.iter().enumerate() {
            assert!(end.value() <= Mark::MAX_VALUE, "{end:?}");
            assert!(ends[..index].iter().all(|other| other.value() != end.value()), "{end:?}");
            let renewed = match end {
                End::Settled(_) | End::Used(_) => None,
                End::Renewed(ms) => Some(*ms),
            };
            assert_eq!(End::renewed_ms(end.value()), renewed, "{end:?}");
        }
    }
}
