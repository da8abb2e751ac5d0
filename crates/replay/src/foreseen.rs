//! What is known of a decision before it is made.

/// What a policy does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreseen {
    /// It does not judge it.
    Exempt,
    /// The policy with this index judges it, and can refuse it in these windows only.
    Judges { policy: usize, windows: Windows },
}

/// Some of the windows for which limits are suggested, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Windows(u8);

impl Windows {
    /// Adds the window with this index.
    pub(super) const fn insert(&mut self, window: usize) {
        self.0 |= 1 << window;
    }

    /// Whether it has the window with this index.
    pub(super) const fn contains(self, window: usize) -> bool {
        self.0 >> window & 1 == 1
    }
}
