//! The figures that operators watch: of a whole node, and of each policy.

use tollgate_core::decision::REFUSING;

use super::families::{DECISION_DURATION, OWN_DURATION, REQUEST_DURATION, UTILISATION};
use super::family::{Family, Kind};
use super::worker::Series;

/// A struct of numbers, each of which has a name in answers and labels.
macro_rules! named_counts {
    ($(#[$about:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$of_field])* pub $field: u64,)+
        }

        impl $name {
            /// The names, in the order of the fields.
            pub const NAMES: [&'static str; [$($word),+].len()] = [$($word),+];

            /// The numbers, in the order of the names.
            pub const fn numbers(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$field),+]
            }

            /// The numbers, in the order of the names.
            pub const fn numbers_mut(&mut self) -> [&mut u64; Self::NAMES.len()] {
                [$(&mut self.$field),+]
            }

            /// The numbers with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                Self::NAMES.into_iter().zip(self.numbers())
            }
        }
    };
}

named_counts! {
    /// Requests by the classes of their statuses.
    ByClass {
        informational = "1xx",
        success = "2xx",
        redirection = "3xx",
        client_error = "4xx",
        server_error = "5xx",
        /// The client has left before there was a status.
        unanswered = "unanswered",
        other = "other",
    }
}

named_counts! {
    /// Decisions of policies by what has judged.
    BySource {
        store = "store",
        local = "local",
        none = "none",
        unasked = "unasked",
    }
}

named_counts! {
    /// Decisions of a policy by their outcomes.
    ByOutcome {
        admitted = "admitted",
        soft = "soft",
        elastic = "elastic",
        exempt = "exempt",
        refused = "refused",
        banned = "banned",
        failed_closed = "failed_closed",
        lacking_key = "lacking_key",
        unverifiable = "unverifiable",
        ambiguous = "ambiguous",
        /// A refusal, if the policy were not in shadow.
        shadow_refused = "shadow_refused",
        failed_open = "failed_open",
        model_unpriced = "model_unpriced",
        key_limit_unfit = "key_limit_unfit",
    }
}

impl ByClass {
    /// The number of the class of a status, which is empty if there is none.
    pub const fn of_status(&mut self, status: &str) -> &mut u64 {
        match status.as_bytes() {
            [b'1', _, _] => &mut self.informational,
            [b'2', _, _] => &mut self.success,
            [b'3', _, _] => &mut self.redirection,
            [b'4', _, _] => &mut self.client_error,
            [b'5', _, _] => &mut self.server_error,
            [] => &mut self.unanswered,
            _ => &mut self.other,
        }
    }

    /// All requests.
    pub fn sum(&self) -> u64 {
        self.numbers().into_iter().sum()
    }
}

impl ByOutcome {
    /// These numbers, in the order of the names.
    pub fn of(numbers: [u64; Self::NAMES.len()]) -> Self {
        let mut all = Self::default();
        for (to, from) in all.numbers_mut().into_iter().zip(numbers) {
            *to = from;
        }
        all
    }

    /// All decisions.
    pub fn sum(&self) -> u64 {
        self.numbers().into_iter().fold(0, u64::saturating_add)
    }

    /// The refusals, whatever the reason.
    pub fn refusals(&self) -> u64 {
        let refusing = self.named().filter(|(name, _)| REFUSING.contains(name));
        refusing.fold(0, |sum, (_, more)| sum.saturating_add(more))
    }

    /// Adds the decisions of another node.
    pub fn add(&mut self, other: &Self) {
        for (number, more) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *number = number.saturating_add(more);
        }
    }
}

/// The number with this name among numbers that have these names.
pub fn by_name<'n, const N: usize>(
    names: [&str; N],
    numbers: [&'n mut u64; N],
    name: &str,
) -> Option<&'n mut u64> {
    let index = names.iter().position(|it| *it == name)?;
    numbers.into_iter().nth(index)
}

/// A histogram: how many values lie in each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets<const N: usize> {
    /// The upper bounds of all buckets but the last, which has none.
    upper: &'static [u64],
    numbers: [u64; N],
}

/// The bucket of a histogram in which a quantile lies. Nothing more is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The quantile is above this, or at least 0.
    pub over: u64,
    /// It is this at most. None: there is no upper bound.
    pub to: Option<u64>,
}

impl<const N: usize> Buckets<N> {
    /// A histogram with the bounds of this metric, of which there are one fewer than `N`.
    const fn of(family: &'static Family) -> Self {
        let Kind::Histogram(bounds) = family.kind else { panic!("the metric is no histogram") };
        assert!(bounds.upper.len() + 1 == N, "the metric has another number of buckets");
        Self { upper: bounds.upper, numbers: [0; N] }
    }

    /// How many values there are.
    pub fn sum(&self) -> u64 {
        self.numbers.iter().sum()
    }

    /// How many values lie in buckets above `bound`, which is one of the bounds.
    pub fn above(&self, bound: u64) -> u64 {
        let first = self.upper.partition_point(|upper| *upper <= bound);
        self.numbers[first..].iter().sum()
    }

    /// The bucket of the value that `thousandths` of the values do not exceed. None: there
    /// are no values.
    pub fn quantile(&self, thousandths: u64) -> Option<Bucket> {
        let rank = self.sum().saturating_mul(thousandths).div_ceil(1000).max(1);
        let mut seen = 0_u64;
        let found = self.numbers.iter().position(|number| {
            seen = seen.saturating_add(*number);
            seen >= rank
        })?;
        let over = found.checked_sub(1).and_then(|below| self.upper.get(below)).copied();
        Some(Bucket { over: over.unwrap_or(0), to: self.upper.get(found).copied() })
    }

    /// Adds the values of a series of the metric, and says how many these are.
    pub fn read(&mut self, series: &Series) -> u64 {
        let mut sum = 0_u64;
        for (index, number) in self.numbers.iter_mut().enumerate() {
            let more = series.cells.get(index);
            *number = number.wrapping_add(more);
            sum = sum.wrapping_add(more);
        }
        sum
    }
}

/// The figures of a whole node, or their growth over a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCounts {
    pub by_class: ByClass,
    /// Requests that a policy has refused.
    pub refused: u64,
    pub by_source: BySource,
    /// Durations of requests, in microseconds.
    pub whole_us: Buckets<15>,
    /// The part of these that the gateway itself took, in microseconds.
    pub own_us: Buckets<15>,
    /// Durations of decisions, in nanoseconds.
    pub decision_ns: Buckets<18>,
}

/// The figures of a policy, or their growth over a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyCounts {
    pub by_outcome: ByOutcome,
    /// Used units by limit, in thousandths.
    pub used: Buckets<8>,
}

impl Default for NodeCounts {
    fn default() -> Self {
        Self {
            by_class: ByClass::default(),
            refused: 0,
            by_source: BySource::default(),
            whole_us: Buckets::of(&REQUEST_DURATION),
            own_us: Buckets::of(&OWN_DURATION),
            decision_ns: Buckets::of(&DECISION_DURATION),
        }
    }
}

impl Default for PolicyCounts {
    fn default() -> Self {
        Self { by_outcome: ByOutcome::default(), used: Buckets::of(&UTILISATION) }
    }
}

impl NodeCounts {
    fn numbers_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let Self { by_class, refused, by_source, whole_us, own_us, decision_ns } = self;
        let numbers = by_class.numbers_mut().into_iter().chain([refused]);
        let numbers = numbers.chain(by_source.numbers_mut()).chain(&mut whole_us.numbers);
        numbers.chain(&mut own_us.numbers).chain(&mut decision_ns.numbers)
    }

    /// Adds the numbers of another time.
    pub fn add(&mut self, other: &Self) {
        increase(self.numbers_mut(), other.clone().numbers_mut());
    }

    /// How much the numbers have grown since they were `before`.
    pub fn growth(&self, before: &Self) -> Self {
        let mut growth = self.clone();
        decrease(growth.numbers_mut(), before.clone().numbers_mut());
        growth
    }
}

impl PolicyCounts {
    fn numbers_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let Self { by_outcome, used } = self;
        by_outcome.numbers_mut().into_iter().chain(&mut used.numbers)
    }

    /// Adds the numbers of another time.
    pub fn add(&mut self, other: &Self) {
        increase(self.numbers_mut(), other.clone().numbers_mut());
    }

    /// How much the numbers have grown since they were `before`.
    pub fn growth(&self, before: &Self) -> Self {
        let mut growth = self.clone();
        decrease(growth.numbers_mut(), before.clone().numbers_mut());
        growth
    }

    /// Whether nothing was counted.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

fn increase<'n>(
    numbers: impl Iterator<Item = &'n mut u64>,
    others: impl Iterator<Item = &'n mut u64>,
) {
    numbers.zip(others).for_each(|(number, more)| *number = number.wrapping_add(*more));
}

fn decrease<'n>(
    numbers: impl Iterator<Item = &'n mut u64>,
    others: impl Iterator<Item = &'n mut u64>,
) {
    numbers.zip(others).for_each(|(number, less)| *number = number.wrapping_sub(*less));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn refusals_are_the_outcomes_that_refuse() {
        let mut all = ByOutcome::default();
        for (number, count) in all.numbers_mut().into_iter().zip(1..) {
            *number = count;
        }
        assert_eq!((all.sum(), all.refusals()), (105, 5 + 6 + 7 + 8 + 9 + 10 + 13 + 14));
        assert_eq!(all.named().nth(10), Some(("shadow_refused", 11)));
        all.add(&ByOutcome { refused: u64::MAX, ..all });
        assert_eq!((all.admitted, all.refused, all.failed_open), (2, u64::MAX, 24));
    }

    /// A word that these numbers lack would be counted nowhere.
    #[test]
    fn all_outcomes_that_refuse_are_counted_and_the_page_sums_the_same() {
        assert!(REFUSING.iter().all(|word| ByOutcome::NAMES.contains(word)));
        let page = include_str!("../../admin/page/words.js");
        let summed = format!("const REFUSED = {REFUSING:?};");
        assert!(page.contains(&summed), "words.js lacks {summed}");
    }

    #[test]
    fn each_class_has_its_statuses() {
        let mut classes = ByClass::default();
        for status in ["100", "204", "304", "404", "599", "", "600", "0", "20"] {
            *classes.of_status(status) += 1;
        }
        assert_eq!((classes.numbers(), classes.sum()), ([1, 1, 1, 1, 1, 1, 3], 9));
    }

    #[test]
    fn a_quantile_is_known_as_well_as_the_buckets_are() {
        let metrics = Metrics::new(100);
        let worker = metrics.worker();
        let own = worker.histogram(&OWN_DURATION, &[]);
        let quantile = |thousandths| metrics.totals().node.own_us.quantile(thousandths);
        assert_eq!(quantile(500), None);
        (0..98).for_each(|_| own.observe(60));
        [300, 2_000_000].into_iter().for_each(|value| own.observe(value));
        assert_eq!(quantile(500), Some(Bucket { over: 50, to: Some(100) }));
        assert_eq!(quantile(980), Some(Bucket { over: 50, to: Some(100) }));
        assert_eq!(quantile(990), Some(Bucket { over: 250, to: Some(500) }));
        assert_eq!(quantile(1000), Some(Bucket { over: 1_000_000, to: None }));
        (0..1000).for_each(|_| own.observe(1));
        assert_eq!(quantile(500), Some(Bucket { over: 0, to: Some(10) }));
    }

    #[test]
    fn sums_and_growths_have_every_number() {
        let mut one = NodeCounts::default();
        for (number, count) in one.numbers_mut().zip(1..) {
            *number = count;
        }
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.growth(&one), one.numbers_mut().count()), (one, 7 + 1 + 4 + 15 + 15 + 18));
        let counts = PolicyCounts {
            by_outcome: ByOutcome { soft: 3, ..Default::default() },
            ..Default::default()
        };
        assert_eq!((counts.is_zero(), counts.growth(&counts).is_zero()), (false, true));
    }
}
