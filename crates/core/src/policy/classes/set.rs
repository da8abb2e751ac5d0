//! A set of classes by their places in the list.

use super::bounds::MAX_CLASSES;

const BITS: usize = 64;

/// Some of the classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassSet([u64; MAX_CLASSES / BITS]);

impl ClassSet {
    /// Adds the class at this place. One beyond the bound is not added.
    #[cfg(any(test, feature = "classes"))]
    pub(super) fn add(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / BITS) {
            *word |= 1 << (index % BITS);
        }
    }

    /// Whether it has the class at this place.
    pub(super) fn has(&self, index: usize) -> bool {
        self.0.get(index / BITS).is_some_and(|word| word & (1 << (index % BITS)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_has_what_was_added(added in prop::collection::vec(0..MAX_CLASSES + 9, 0..40)) {
            let mut set = ClassSet::default();
            added.iter().for_each(|index| set.add(*index));
            for index in 0..MAX_CLASSES + 9 {
                prop_assert_eq!(set.has(index), index < MAX_CLASSES && added.contains(&index));
            }
        }
    }
}
