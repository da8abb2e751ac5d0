//! The states of a shard that do not fit into a slot, with a list of the free indices. Each
//! belongs to one slot, so there are never more of them than slots.

use crate::algorithm::State;

/// Large states by index.
#[derive(Debug, Default)]
pub(super) struct Slab {
    states: Vec<Option<State>>,
    free: Vec<u32>,
}

impl Slab {
    /// Stores a state. Returns its index.
    pub(super) fn insert(&mut self, state: State) -> u32 {
        if let Some(index) = self.free.pop() {
            self.states[place(index)] = Some(state);
            return index;
        }
        self.states.push(Some(state));
        u32::try_from(self.states.len() - 1).expect("a shard has fewer than 2^32 slots")
    }

    /// The state at `index`, if there is one.
    pub(super) fn get(&self, index: u32) -> Option<&State> {
        self.states[place(index)].as_ref()
    }

    /// Removes a state and frees its index and its memory.
    pub(super) fn remove(&mut self, index: u32) {
        self.states[place(index)] = None;
        self.free.push(index);
    }

    /// The number of states, and the maximum number so far.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.states.len() - self.free.len(), self.states.len())
    }
}

fn place(index: u32) -> usize {
    usize::try_from(index).expect("an address has at least 32 bits")
}
