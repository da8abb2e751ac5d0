//! The turns of a thread's runtime: in each, it asks the system what has happened on the sockets,
//! and then runs the tasks that are ready.
//!
//! Between two questions the runtime does not know what arrives. Code for which that matters asks
//! the socket itself if it is still in the same turn.

use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// A turn of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

impl Turn {
    /// The turn of now. If an earlier value differs from it, the runtime has asked the system since
    /// then. A runtime that does not call [`Turn::end`] stays in one turn.
    pub fn current() -> Self {
        Self(CURRENT.get())
    }

    /// The runtime of this thread asks the system next.
    pub fn end() {
        CURRENT.set(CURRENT.get().wrapping_add(1));
    }
}
