//! States that do not fit a slot: a shard's own list of them, with the free
//! places remembered. Each belongs to one slot, so there are never more of them
//! than slots.

use crate::algorithm::State;

/// Large states by index.
#[derive(Debug, Default)]
pub(super) struct Slab {
    states: Vec<Option<State>>,
    free: Vec<u32>,
}

impl Slab {
    /// Keeps a state and says where.
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

    /// Frees the place and the memory of a state.
    pub(super) fn remove(&mut self, index: u32) {
        self.states[place(index)] = None;
        self.free.push(index);
    }

    /// How many states it holds, and how many it ever held at once.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.states.len() - self.free.len(), self.states.len())
    }
}

fn place(index: u32) -> usize {
    usize::try_from(index).expect("an address has at least 32 bits")
}
