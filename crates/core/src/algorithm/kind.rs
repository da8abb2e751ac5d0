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

impl AlgorithmKind {
    /// Its name in configurations and messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SlidingWindow => "sliding_window",
            Self::SlidingLog => "sliding_log",
            Self::FixedWindow => "fixed_window",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
            Self::Concurrency => "concurrency",
        }
    }
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
