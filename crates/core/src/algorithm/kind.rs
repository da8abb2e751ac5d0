//! The algorithms by name, as a policy chooses one of them.

use std::fmt;

/// The names of the algorithms and how each of them counts, which configurations and their schema
/// show, too.
macro_rules! kinds {
    ($($(#[doc = $meaning:literal])+ $kind:ident => $name:literal,)+) => {
        /// How requests are counted. `docs/limits.md` compares the algorithms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum AlgorithmKind {
            $($(#[doc = $meaning])+ $kind,)+
        }

        impl AlgorithmKind {
            /// All of them, in the order in which messages list them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];
            /// Their names in configurations and messages, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];
            /// How they count, in the same order.
            pub const MEANINGS: &'static [&'static str] = &[$(concat!($($meaning),+)),+];

            /// Its name in configurations and messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

kinds! {
    /// Two counters: one for this window, and the weighted rest of the window before.
    SlidingWindow => "sliding_window",
    /// A log of every request in the last window.
    SlidingLog => "sliding_log",
    /// One counter, which starts again at the beginning of each window.
    FixedWindow => "fixed_window",
    /// A bucket that refills at a steady rate.
    TokenBucket => "token_bucket",
    /// A queue that forwards requests at even intervals.
    LeakyBucket => "leaky_bucket",
    /// The number of requests that are in progress at the same time.
    Concurrency => "concurrency",
}

impl Default for AlgorithmKind {
    fn default() -> Self {
        Self::SlidingWindow
    }
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
