//! A small table in which a worker finds its series without a lock or an allocation.

/// A key: two numbers, such as the address of a policy and the number of a plan.
pub type CacheKey = (usize, u64);

/// A table with one place for each key. Two keys may have the same place, and then only
/// the last one is found: the caller finds the series of the other in the slow way.
#[derive(Debug)]
pub struct Cache<T> {
    places: Box<[Option<(CacheKey, T)>]>,
    shift: u32,
}

/// The fewest and the most places of a table, as powers of two.
const BITS: (u32, u32) = (6, 14);

impl<T> Cache<T> {
    /// A table for about this number of keys.
    pub fn new(keys: usize) -> Self {
        let wanted = keys.saturating_mul(4).checked_next_power_of_two().unwrap_or(1 << BITS.1);
        let bits = wanted.trailing_zeros().clamp(BITS.0, BITS.1);
        Self { places: (0..1_usize << bits).map(|_| None).collect(), shift: 64 - bits }
    }

    /// What is kept for `key`; `make` makes it if it is not there.
    pub fn get(&mut self, key: CacheKey, make: impl FnOnce() -> T) -> &T {
        // Fibonacci hashing (D. Knuth, "The Art of Computer Programming", 6.4).
        let mixed = key.1.rotate_left(40) ^ u64::try_from(key.0).unwrap_or(u64::MAX);
        let hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        let place = &mut self.places[usize::try_from(hash).unwrap_or(0)];
        match place {
            Some((known, _)) if *known == key => {}
            _ => *place = Some((key, make())),
        }
        &place.as_ref().expect("it was filled just now").1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_key_never_finds_what_belongs_to_another(
            keys in prop::collection::vec((0..40_usize, 0..40_u64), 1..400),
            room in 0..50_usize,
        ) {
            let mut cache = Cache::new(room);
            for key in keys {
                prop_assert_eq!(*cache.get(key, || key), key);
                prop_assert_eq!(*cache.get(key, || unreachable!("it is there")), key);
            }
        }
    }

    #[test]
    fn a_table_has_a_bounded_number_of_places() {
        assert_eq!(Cache::<()>::new(0).places.len(), 64);
        assert_eq!(Cache::<()>::new(usize::MAX).places.len(), 1 << 14);
    }
}
