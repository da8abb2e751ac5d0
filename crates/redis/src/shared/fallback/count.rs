//! Charges that count whether they fit or not, see [`Op::Count`].
//!
//! [`Op::Count`]: tollgate_core::algorithm::Op::Count

use smallvec::SmallVec;
use tollgate_core::consistency::OnFailure;
use tollgate_core::store::{Answer, Charge, MemoryStore, Source};
use tollgate_core::time::Timestamp;

use super::{Fallback, Undecided, both, by_policy, share};

impl Fallback {
    /// Counts charges without a reply of the store, each one alone and whether it fits or not, on
    /// one of `nodes` nodes. Charges that their policies admit or refuse without the store count
    /// nowhere.
    pub(crate) fn count(
        &self,
        charges: &[Undecided<'_>],
        nodes: u64,
        now: Timestamp,
    ) -> SmallVec<[Answer; 4]> {
        let answer = |it: &Undecided<'_>| match it.treatment() {
            OnFailure::Local => self.count_local(it, nodes, now),
            OnFailure::Allow => by_policy(&it.charge, true, now),
            OnFailure::Deny => by_policy(&it.charge, false, now),
        };
        charges.iter().map(answer).collect()
    }

    /// Counts a charge in the share of this node and in the known state. It is a debt, unless the
    /// store may have counted it.
    fn count_local(&self, it: &Undecided<'_>, nodes: u64, now: Timestamp) -> Answer {
        let Undecided { ref charge, is_doubtful, .. } = *it;
        let since = self.since(charge, nodes, now);
        let share = share(charge.algorithm, nodes);
        let told = |store: &MemoryStore, charge| store.count(&[charge], now)[0];
        let mut verdict = told(&self.memory, Charge { algorithm: &share, ..*charge });
        if self.knows(charge.key, charge.algorithm, now) {
            self.filter.insert(&charge.key, charge.algorithm, now);
            verdict = both(verdict, told(&self.known, *charge));
        }
        if !is_doubtful {
            self.owe(charge, charge.cost, since, now);
        }
        Answer::new(verdict, Source::Local)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::{Algorithm, FixedWindow, Op, Quota};
    use tollgate_core::consistency::Consistency;
    use tollgate_core::digest::{Counter, Key, Principal};
    use tollgate_core::time::Span;

    use super::*;
    use crate::shared::fallback::ServerStatus;

    const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

    fn daily(limit: u64) -> Algorithm {
        Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::DAY).expect("a quota")))
    }

    fn units(algorithm: &Algorithm, cost: u64, on_failure: OnFailure) -> Charge<'_> {
        let key =
            Key { principal: Principal::from_bits(u128::MAX / 3), counter: Counter::from_bits(1) };
        let consistency = Consistency { on_failure, ..Consistency::default() };
        Charge { key, algorithm, cost, binding: false, consistency }
    }

    fn fallback() -> Fallback {
        Fallback::new(MemoryStore::new(100).into())
    }

    impl Fallback {
        fn admits_counted(&self, charge: Charge<'_>, is_doubtful: bool, nodes: u64) -> bool {
            let undecided = Undecided { is_doubtful, ..Undecided::without_store(charge) };
            self.count(&[undecided], nodes, NOW)[0].verdict.admitted
        }

        fn owed_units(&self) -> u64 {
            self.owed(usize::MAX, NOW, |_| ServerStatus::Up).iter().map(|it| it.units).sum()
        }
    }

    #[test]
    fn units_beyond_the_limit_count_and_are_owed() {
        let fallback = fallback();
        let limit = daily(21);
        let count = |cost| fallback.admits_counted(units(&limit, cost, OnFailure::Local), false, 1);
        assert_eq!(
            [0, 10, 0, 10, 0, 10, 0].map(count),
            [true, true, true, true, true, false, false]
        );
        assert_eq!(fallback.owed_units(), 30);
    }

    #[test]
    fn a_share_that_refuses_counts_once_in_the_known_state() {
        let fallback = fallback();
        let limit = daily(100);
        let charge = |cost| units(&limit, cost, OnFailure::Local);
        let state = limit.apply(None, Op::Take(40), NOW).0;
        fallback.learn(charge(0).key, &limit, state, true, NOW);
        // The share of one of two nodes is 50.
        assert!(!fallback.admits_counted(charge(55), false, 2));
        assert_eq!(fallback.known.look(&charge(0), NOW).remaining, 5);
        assert!(!fallback.admits_counted(charge(0), false, 2), "the share has 5 too many");
        assert!(fallback.admits_counted(charge(0), false, 1), "and all units are fewer than 100");
    }

    #[test]
    fn units_that_the_store_may_have_counted_are_not_owed() {
        let fallback = fallback();
        let limit = daily(4);
        assert!(!fallback.admits_counted(units(&limit, 5, OnFailure::Local), true, 1));
        assert!(!fallback.admits_counted(units(&limit, 0, OnFailure::Local), true, 1));
        assert_eq!(fallback.owed_units(), 0);
    }

    #[test]
    fn policies_that_admit_or_refuse_without_the_store_count_nothing() {
        let fallback = fallback();
        let limit = daily(4);
        for (on_failure, is_admitted) in [(OnFailure::Allow, true), (OnFailure::Deny, false)] {
            let charge = |cost| units(&limit, cost, on_failure);
            assert_eq!(
                [9, 0].map(|cost| fallback.admits_counted(charge(cost), false, 1)),
                [is_admitted; 2]
            );
        }
        assert_eq!(fallback.owed_units(), 0);
    }
}
