//! The algorithms by name, as a policy chooses one of them.

use std::fmt;

/// How requests are counted. `docs/limits.md` compares the algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlgorithmKind {
    /// Two counters: one for this window, and the weighted rest of the window before.
    #[default]
    SlidingWindow,
    /// A log of every request in the last window.
    SlidingLog,
    /// One counter, which starts again at the beginning of each window.
    FixedWindow,
    /// A bucket that refills at a steady rate.
    TokenBucket,
    /// A queue that delays requests, so that they go on at even intervals.
    LeakyBucket,
    /// The number of requests that are in progress at the same time.
    Concurrency,
}

/// What configurations and messages call each algorithm, and how it counts.
macro_rules! kinds {
    ($($kind:ident: $name:literal, $meaning:literal;)+) => {
        /// All algorithms, in the order in which messages list them.
        pub const KINDS: &[AlgorithmKind] = &[$(AlgorithmKind::$kind),+];
        /// Their names in configurations and messages, in the same order.
        pub const KIND_NAMES: &[&str] = &[$($name),+];
        /// How they count, in the same order.
        pub const KIND_MEANINGS: &[&str] = &[$($meaning),+];
    };
}

kinds! {
    SlidingWindow: "sliding_window",
        "Two counters: one for this window, and the weighted rest of the window before.";
    SlidingLog: "sliding_log", "A log of every request in the last window.";
    FixedWindow: "fixed_window",
        "One counter, which starts again at the beginning of each window.";
    TokenBucket: "token_bucket", "A bucket that refills at a steady rate.";
    LeakyBucket: "leaky_bucket", "A queue that forwards requests at even intervals.";
    Concurrency: "concurrency", "The number of requests that are in progress at the same time.";
}

impl AlgorithmKind {
    /// Its name in configurations and messages.
    pub(crate) const fn name(self) -> &'static str {
        KIND_NAMES[self as usize]
    }
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of an algorithm finds its name.
    #[test]
    fn the_list_has_the_order_of_the_type() {
        for (number, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, number, "{kind}");
        }
    }
}
