//! The most frequent keys of a stream, in bounded memory: Filtered Space-Saving
//! (Homem and Carvalho, "Finding top-k elements in data streams", Information Sciences
//! 180 (2010), section 4).
//!
//! A sketch has [`ENTRIES`] counters with keys and [`CELLS`] cells without. A key that has
//! no counter adds to the cell of its digest. When the cell reaches the smallest counter,
//! the key takes over that counter and starts with the value of the cell, so that its count
//! is never too low.
//!
//! Guarantees, for a stream of n observations:
//! - A key that was observed more than n / [`ENTRIES`] times has a counter.
//! - The count of a key is never too low, and too high by its `error` at most, which is at
//!   most n / [`ENTRIES`].
//! - The same holds for several sketches that are merged.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use tollgate_core::digest::DigestHasher;

/// Counters of a sketch.
pub const ENTRIES: usize = 128;
/// Cells of a sketch: eight for each counter.
const CELLS: usize = 1024;

/// The digest of a key. Its bits are uniformly distributed, and a client cannot choose them.
pub type KeyId = u128;

/// The most frequent keys of one stream.
#[derive(Clone, Debug)]
pub struct Sketch<T> {
    observed: u64,
    /// For each cell, the most observations that one of its keys without a counter can have.
    cells: Box<[u64]>,
    entries: Vec<Entry<T>>,
    /// The index of the entry of each key. The hash has other bits than the cell of the key.
    places: HashMap<KeyId, usize, BuildHasherDefault<DigestHasher>>,
    /// The index of an entry with the smallest count.
    smallest: usize,
}

/// One key, and how often it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// The key.
    pub id: KeyId,
    /// Its observations: this number at most.
    pub count: u64,
    /// By how many the count can be too high.
    pub error: u64,
    /// The largest value that was noted of the key while it had its counter. The description is
    /// true of the observation with it.
    pub peak: Option<u16>,
    /// A description of the key.
    pub text: T,
}

impl<T: Clone> Entry<T> {
    /// Takes the value of the same key in another sketch, if it is larger.
    pub fn take_larger(&mut self, other: &Self) {
        if other.peak > self.peak {
            self.peak = other.peak;
            self.text = other.text.clone();
        }
    }
}

impl<T> Default for Sketch<T> {
    fn default() -> Self {
        Self {
            observed: 0,
            cells: vec![0; CELLS].into(),
            entries: Vec::new(),
            places: HashMap::default(),
            smallest: 0,
        }
    }
}

impl<T> Sketch<T> {
    /// Counts one observation of a key, and notes a value of it. `text` describes the key if it
    /// gets a counter. Returns the description of a key whose value is its largest one.
    pub fn observe(
        &mut self,
        id: KeyId,
        value: Option<u16>,
        text: impl FnOnce() -> T,
    ) -> Option<&mut T> {
        self.observed += 1;
        if let Some(&place) = self.places.get(&id) {
            let before = self.entries[place].count;
            self.entries[place].count += 1;
            if place == self.smallest {
                self.find_smallest(before);
            }
            let entry = &mut self.entries[place];
            let is_largest = value > entry.peak;
            entry.peak = entry.peak.max(value);
            return is_largest.then_some(&mut entry.text);
        }
        if self.entries.len() < ENTRIES {
            self.places.insert(id, self.entries.len());
            self.entries.push(Entry { id, count: 1, error: 0, peak: value, text: text() });
            // No count is smaller.
            self.smallest = self.entries.len() - 1;
            return None;
        }
        let cell = &mut self.cells[cell_of(id)];
        if *cell + 1 < self.entries[self.smallest].count {
            *cell += 1;
            return None;
        }
        let entry = Entry { id, count: *cell + 1, error: *cell, peak: value, text: text() };
        self.replace_smallest(entry);
        None
    }

    fn replace_smallest(&mut self, entry: Entry<T>) {
        self.places.insert(entry.id, self.smallest);
        let old = std::mem::replace(&mut self.entries[self.smallest], entry);
        self.places.remove(&old.id);
        let cell = &mut self.cells[cell_of(old.id)];
        *cell = old.count.max(*cell);
        self.find_smallest(old.count);
    }

    /// Finds an entry with the smallest count again, after the count of that entry was `before`
    /// and has risen. No other count is below `before`, so the search ends at the next entry that
    /// has it. If all keys are equally frequent, that is one of the next entries.
    fn find_smallest(&mut self, before: u64) {
        let mut smallest = (u64::MAX, 0);
        let (first, last) = self.entries.split_at(self.smallest);
        let places = (self.smallest..).zip(last).chain((0..).zip(first));
        for (place, entry) in places {
            smallest = smallest.min((entry.count, place));
            if entry.count <= before {
                break;
            }
        }
        self.smallest = smallest.1;
    }

    /// All observations.
    pub const fn observed(&self) -> u64 {
        self.observed
    }

    /// The most observations that a key without a counter can have.
    fn most_of_other(&self, id: KeyId) -> u64 {
        self.cells[cell_of(id)]
    }

    /// The same for all keys without a counter.
    pub fn most_of_others(&self) -> u64 {
        self.cells.iter().copied().max().unwrap_or(0)
    }

    /// The descriptions of all keys that have a counter.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|entry| &mut entry.text)
    }

    fn entry(&self, id: KeyId) -> Option<&Entry<T>> {
        self.places.get(&id).map(|&place| &self.entries[place])
    }
}

/// The keys of several sketches, with their counts over all of them: the most frequent
/// first. There are at most [`ENTRIES`] for each sketch.
pub fn merge<T: Clone>(sketches: &[&Sketch<T>]) -> Vec<Entry<T>> {
    let mut all: BTreeMap<KeyId, &Entry<T>> = BTreeMap::new();
    for entry in sketches.iter().flat_map(|sketch| &sketch.entries) {
        all.entry(entry.id).or_insert(entry);
    }
    let mut merged: Vec<_> = all
        .into_values()
        .map(|entry| {
            let mut sum = Entry { count: 0, error: 0, ..entry.clone() };
            for sketch in sketches {
                let (count, error) = match sketch.entry(entry.id) {
                    Some(known) => {
                        sum.take_larger(known);
                        (known.count, known.error)
                    }
                    None => (sketch.most_of_other(entry.id), sketch.most_of_other(entry.id)),
                };
                sum.count += count;
                sum.error += error;
            }
            sum
        })
        .collect();
    merged.sort_by_key(|entry| (std::cmp::Reverse(entry.count), entry.error, entry.id));
    merged
}

fn cell_of(id: KeyId) -> usize {
    usize::try_from(id % CELLS as u128).expect("it is less than the number of cells")
}

#[cfg(test)]
mod tests;
