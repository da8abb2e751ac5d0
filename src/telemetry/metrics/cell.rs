//! What a worker counts in: numbers that one thread writes and any thread reads.
//!
//! A write is a relaxed load and a relaxed store, without a locked instruction. This is
//! right only if one thread writes, so the handles cannot leave their thread. Each cell
//! has cache lines of its own, so that workers do not slow each other down.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::family::Bounds;

/// The numbers of one series of one worker: one for a counter or a gauge. A histogram has
/// one for each bucket and the sum of all values at the end.
#[derive(Debug)]
pub struct Cells(Box<[Aligned]>);

/// Sixteen numbers, which fill two cache lines.
#[derive(Debug, Default)]
#[repr(align(128))] // processors fetch cache lines of 64 bytes in pairs
struct Aligned([AtomicU64; 16]);

impl Cells {
    pub fn new(numbers: usize) -> Self {
        Self((0..numbers.div_ceil(16)).map(|_| Aligned::default()).collect())
    }

    fn cell(&self, index: usize) -> &AtomicU64 {
        &self.0[index / 16].0[index % 16]
    }

    /// The number at `index`.
    pub fn get(&self, index: usize) -> u64 {
        self.cell(index).load(Ordering::Relaxed)
    }

    fn add(&self, index: usize, amount: u64) {
        let cell = self.cell(index);
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }
}

/// A handle that must stay on the thread of its worker.
type OfThread = PhantomData<*const ()>;

/// A worker's part of a counter or a gauge.
#[derive(Clone, Debug)]
pub struct Counter(Arc<Cells>, OfThread);

impl Counter {
    pub fn new(cells: Arc<Cells>) -> Self {
        Self(cells, PhantomData)
    }

    /// Counts `amount` more.
    pub fn add(&self, amount: u64) {
        self.0.add(0, amount);
    }

    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts one less, of a gauge.
    pub fn decrement(&self) {
        self.subtract(1);
    }

    /// Counts `amount` less, of a gauge.
    pub fn subtract(&self, amount: u64) {
        self.0.add(0, amount.wrapping_neg());
    }

    /// Replaces the number, which only this worker counts.
    pub fn set(&self, number: u64) {
        self.0.cell(0).store(number, Ordering::Relaxed);
    }
}

/// A worker's part of a histogram.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Cells>, &'static [u64], OfThread);

impl Histogram {
    pub fn new(cells: Arc<Cells>, bounds: Bounds) -> Self {
        Self(cells, bounds.upper, PhantomData)
    }

    /// Counts one value.
    pub fn observe(&self, value: u64) {
        let Self(cells, upper, _) = self;
        let bucket = upper.partition_point(|bound| *bound < value);
        cells.add(bucket, 1);
        cells.add(upper.len() + 1, value);
    }

    /// Counts further values: how many lie in each bucket, and their sum.
    pub fn add_all(&self, buckets: impl Iterator<Item = u64>, sum: u64) {
        let Self(cells, upper, _) = self;
        for (bucket, count) in (0..=upper.len()).zip(buckets) {
            cells.add(bucket, count);
        }
        cells.add(upper.len() + 1, sum);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { upper: &[10, 20, 50], per_unit: 1 };

    fn histogram() -> (Arc<Cells>, Histogram) {
        let cells = Arc::new(Cells::new(BOUNDS.upper.len() + 2));
        (Arc::clone(&cells), Histogram::new(cells, BOUNDS))
    }

    #[test]
    fn a_value_that_equals_a_bound_is_in_its_bucket() {
        let (cells, histogram) = histogram();
        for value in [0, 10, 11, 20, 50, 51, 1000] {
            histogram.observe(value);
        }
        let numbers: Vec<u64> = (0..5).map(|index| cells.get(index)).collect();
        assert_eq!(numbers, [2, 2, 1, 2, 1142]);
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_bucket_and_in_the_sum(
            values in prop::collection::vec(0..100_u64, 0..50),
        ) {
            let (cells, histogram) = histogram();
            values.iter().for_each(|value| histogram.observe(*value));
            let count: u64 = (0..4).map(|index| cells.get(index)).sum();
            prop_assert_eq!(count, u64::try_from(values.len()).unwrap());
            prop_assert_eq!(cells.get(4), values.iter().sum::<u64>());
            for (index, bound) in BOUNDS.upper.iter().enumerate() {
                let below: u64 = (0..=index).map(|it| cells.get(it)).sum();
                let wanted = values.iter().filter(|value| *value <= bound).count();
                prop_assert_eq!(below, u64::try_from(wanted).unwrap());
            }
        }
    }

    #[test]
    fn a_gauge_returns_to_where_it_was() {
        let cells = Arc::new(Cells::new(1));
        let gauge = Counter::new(Arc::clone(&cells));
        gauge.add(2);
        gauge.decrement();
        assert_eq!(cells.get(0), 1);
        gauge.set(7);
        gauge.increment();
        assert_eq!(cells.get(0), 8);
    }
}
