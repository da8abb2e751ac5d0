//! Shares of a limit whose passing is reported.

use smallvec::SmallVec;

/// The most shares of one policy.
pub const MAX_SHARES: usize = 4;

/// Shares of a limit in percent, from the least to the greatest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarnShares(SmallVec<[u8; MAX_SHARES]>);

impl WarnShares {
    /// These percentages. None unless they are one to [`MAX_SHARES`], from 1 to 100, and all
    /// different.
    pub fn new(percents: &[u8]) -> Option<Self> {
        let mut shares = SmallVec::from_slice(percents);
        shares.sort_unstable();
        shares.dedup();
        let is_valid = (1..=MAX_SHARES).contains(&percents.len())
            && shares.len() == percents.len()
            && shares.iter().all(|share| (1..=100).contains(share));
        is_valid.then_some(Self(shares))
    }

    /// The percentages, from the least to the greatest.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().copied()
    }

    /// The greatest share of `limit` that `used` units reach.
    pub fn reached(&self, used: u64, limit: u64) -> Option<u8> {
        let reaches = |share: &u8| u128::from(used) * 100 >= u128::from(limit) * u128::from(*share);
        self.0.iter().rev().copied().find(reaches)
    }

    /// The greatest share of `limit` that a count passes when it changes from the first to the
    /// second of these numbers.
    pub fn passed(&self, used: [u64; 2], limit: u64) -> Option<u8> {
        let [before, after] = used.map(|used| self.reached(used, limit));
        after.filter(|_| after > before)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::testing::cases;

    #[test]
    fn one_to_four_different_shares_make_a_warning() {
        let sorted = |percents: &[u8]| WarnShares::new(percents).map(|it| it.iter().collect());
        assert_eq!(sorted(&[95, 80]), Some(vec![80, 95]));
        assert_eq!(sorted(&[1, 2, 3, 100]), Some(vec![1, 2, 3, 100]));
        for wrong in [&[][..], &[0], &[101], &[80, 80], &[1, 2, 3, 4, 5]] {
            assert_eq!(sorted(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_share_is_passed_by_the_unit_that_reaches_it() {
        let shares = WarnShares::new(&[80, 95]).unwrap();
        assert_eq!(shares.passed([7, 8], 10), Some(80));
        assert_eq!(shares.passed([8, 9], 10), None);
        assert_eq!(shares.passed([9, 10], 10), Some(95));
        assert_eq!(shares.passed([0, 10], 10), Some(95));
        assert_eq!(shares.passed([10, 0], 10), None);
        // 80 % of 3 are 2.4 units.
        assert_eq!([1, 2, 3].map(|used| shares.reached(used, 3)), [None, None, Some(95)]);
    }

    proptest! {
        #![proptest_config(cases())]

        /// Whatever the steps in which a count grows, each share is passed at most once, and the
        /// greatest one that is reached in the end was passed.
        #[test]
        fn a_growing_count_passes_each_share_once(
            percents in prop::collection::btree_set(1..=100_u8, 1..=MAX_SHARES),
            limit in 1..=1_000_u64,
            steps in prop::collection::vec(0..=300_u64, 0..20),
        ) {
            let percents: Vec<u8> = percents.into_iter().collect();
            let shares = WarnShares::new(&percents).unwrap();
            let mut used = 0;
            let mut passed = Vec::new();
            for step in steps {
                let after = (used + step).min(limit);
                passed.extend(shares.passed([used, after], limit));
                used = after;
            }
            prop_assert!(passed.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(passed.last().copied(), shares.reached(used, limit));
        }
    }
}
