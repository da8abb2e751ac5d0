//! The tokens of one request, by the kinds that have prices of their own.

/// The tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the input that were not read from a cache and not written to one.
    pub input: u64,
    /// Tokens of the input that were read from a cache.
    pub cache_read: u64,
    /// Tokens of the input that were written to a cache.
    pub cache_write: u64,
    /// Tokens of the output, with those of its thoughts.
    pub output: u64,
}

impl Usage {
    /// All tokens of the input.
    pub const fn all_input(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}
