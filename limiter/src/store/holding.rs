//! How long the units of concurrency limits are held: what a client that is
//! refused can be told to wait.
//!
//! Each node measures for itself, and all of its workers together. The measure is
//! kept for each counter of a policy, not for each client, so its size is fixed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Counter;
use crate::time::Span;

/// Counters that are measured at the same time. Two that fall into the same
/// place take turns, and are told the least wait in between.
const PLACES: usize = 256;
/// The part of a new measure in the mean: about the last 16 count.
const WEIGHT: u64 = 16;
/// The shortest wait: a header has whole seconds.
const LEAST: Span = Span::SECOND;
/// The longest wait: connections that stay for days say nothing about when it is
/// worth another try.
const MOST: Span = Span::from_secs(3600);

/// The mean times for which units are held.
#[derive(Debug)]
pub struct HoldingTimes(Box<[Measured]>);

/// The mean of one counter. Threads may write it at the same time: then one of
/// their measures is lost, which does no harm.
#[derive(Debug, Default)]
struct Measured {
    counter: AtomicU64,
    /// 0: nothing was measured.
    mean_us: AtomicU64,
}

impl Default for HoldingTimes {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Measured::default()).collect())
    }
}

impl HoldingTimes {
    /// Units of this counter were held for so long, and have been given back.
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

    /// How long a client is told to wait that is refused by this counter: the
    /// mean time, after which what is in flight now has ended. From one second
    /// to one hour; one second while nothing was measured.
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
    fn what_was_never_measured_is_a_second() {
        assert_eq!(HoldingTimes::default().wait(COUNTER), Span::SECOND);
    }

    #[test]
    fn the_first_measure_counts_at_once_and_later_ones_by_and_by() {
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
    fn counters_that_share_a_place_do_not_mix() {
        let (times, other) = (HoldingTimes::default(), Counter::from_bits(7 + 256));
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
