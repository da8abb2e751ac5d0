//! How long requests hold the units of concurrency limits. A refused client is told to wait
//! for this time.
//!
//! Each node measures it for all of its workers together. There is one measurement for each
//! counter of a policy, and not for each client, so its size is fixed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Counter;
use crate::time::Span;

/// The number of measured counters. If two counters share an entry, each replaces the other,
/// and the minimum wait is reported meanwhile.
const PLACES: usize = 256;
/// The divisor of a new measurement in the mean: about the last 16 have an effect.
const WEIGHT: u64 = 16;
/// The minimum wait. A header has whole seconds.
const LEAST: Span = Span::SECOND;
/// The maximum wait. A connection that stays open for days says nothing about when another
/// attempt is useful.
const MOST: Span = Span::from_secs(3600);

/// The mean times for which units are held.
#[derive(Debug)]
pub struct HoldingTimes(Box<[Measured]>);

/// The mean of one counter. If several threads write it at the same time, one of their
/// measurements is lost, which does no harm.
#[derive(Debug, Default)]
struct Measured {
    counter: AtomicU64,
    /// 0 if nothing was measured.
    mean_us: AtomicU64,
}

impl Default for HoldingTimes {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Measured::default()).collect())
    }
}

impl HoldingTimes {
    /// Records that units of this counter were held for this time and have been given back.
    pub fn ended(&self, counter: Counter, held: Span) {
        let place = self.place(counter);
        let held_us = held.as_micros().clamp(1, MOST.as_micros());
        let mean_us = place.mean_us.load(Ordering::Relaxed);
        if mean_us == 0 || place.counter.swap(counter.bits(), Ordering::Relaxed) != counter.bits() {
            place.counter.store(counter.bits(), Ordering::Relaxed);
            place.mean_us.store(held_us, Ordering::Relaxed);
            return;
        }
        let next_us = match held_us.checked_sub(mean_us) {
            Some(more) => mean_us + more / WEIGHT,
            None => mean_us - (mean_us - held_us) / WEIGHT,
        };
        if next_us != mean_us {
            place.mean_us.store(next_us, Ordering::Relaxed);
        }
    }

    /// How long a client waits that this counter refuses: the mean time after which the units
    /// in flight are given back. It is between one second and one hour, and one second if
    /// nothing was measured.
    pub fn wait(&self, counter: Counter) -> Span {
        let place = self.place(counter);
        if place.counter.load(Ordering::Relaxed) != counter.bits() {
            return LEAST;
        }
        Span::from_micros(place.mean_us.load(Ordering::Relaxed)).clamp(LEAST, MOST)
    }

    fn place(&self, counter: Counter) -> &Measured {
        let place = counter.bits() % (PLACES as u64);
        &self.0[usize::try_from(place).expect("less than 256")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: Counter = Counter::from_bits(7);

    fn secs(secs: u64) -> Span {
        Span::from_secs(secs)
    }

    #[test]
    fn a_counter_without_measurements_reports_one_second() {
        assert_eq!(HoldingTimes::default().wait(COUNTER), Span::SECOND);
    }

    #[test]
    fn the_first_measurement_counts_at_once_and_later_ones_gradually() {
        let times = HoldingTimes::default();
        times.ended(COUNTER, secs(20));
        assert_eq!(times.wait(COUNTER), secs(20));
        times.ended(COUNTER, secs(4));
        assert_eq!(times.wait(COUNTER), secs(19));
        (0..200).for_each(|_| times.ended(COUNTER, secs(4)));
        let wait = times.wait(COUNTER);
        assert!((secs(4)..Span::from_millis(4001)).contains(&wait), "{wait}");
        (0..200).for_each(|_| times.ended(COUNTER, secs(9)));
        let wait = times.wait(COUNTER);
        assert!((Span::from_millis(8999)..=secs(9)).contains(&wait), "{wait}");
    }

    #[test]
    fn the_wait_is_from_a_second_to_an_hour() {
        let times = HoldingTimes::default();
        times.ended(COUNTER, Span::ZERO);
        assert_eq!(times.wait(COUNTER), Span::SECOND);
        let other = Counter::from_bits(8);
        times.ended(other, Span::DAY);
        assert_eq!(times.wait(other), secs(3600));
        assert_eq!(times.wait(COUNTER), Span::SECOND);
    }

    #[test]
    fn counters_that_share_an_entry_do_not_mix() {
        let times = HoldingTimes::default();
        let other = Counter::from_bits(7 + 256);
        times.ended(COUNTER, secs(20));
        assert_eq!(times.wait(other), Span::SECOND);
        times.ended(other, secs(5));
        assert_eq!((times.wait(other), times.wait(COUNTER)), (secs(5), Span::SECOND));
    }

    #[test]
    fn workers_measure_together() {
        let times = HoldingTimes::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| times.ended(COUNTER, secs(6))));
            }
        });
        assert_eq!(times.wait(COUNTER), secs(6));
    }
}
