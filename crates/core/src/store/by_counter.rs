//! Numbers by counter, for metrics. They are bounded, however many counters there are.

use std::collections::HashMap;

use crate::digest::Counter;

/// The maximum number of counters that are counted apart. What belongs to further counters is
/// counted under 0.
const MAX_COUNTERS: usize = 256;

/// One value for each counter.
#[derive(Debug)]
pub struct ByCounter<T>(HashMap<Counter, T>);

impl<T> Default for ByCounter<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Default> ByCounter<T> {
    /// The value of a counter.
    pub fn of(&mut self, counter: Counter) -> &mut T {
        let has_room = self.0.len() < MAX_COUNTERS || self.0.contains_key(&counter);
        let counter = if has_room { counter } else { Counter::from_bits(0) };
        self.0.entry(counter).or_default()
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, &T)> {
        self.0.iter().map(|(counter, value)| (*counter, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_counters_share_one_value() {
        let mut numbers = ByCounter::<u64>::default();
        for _ in 0..2 {
            for counter in 1..=1000 {
                *numbers.of(Counter::from_bits(counter)) += 1;
            }
        }
        assert_eq!(numbers.iter().count(), MAX_COUNTERS + 1);
        assert_eq!(*numbers.of(Counter::from_bits(256)), 2);
        assert_eq!(*numbers.of(Counter::from_bits(0)), 2 * (1000 - 256));
    }
}
