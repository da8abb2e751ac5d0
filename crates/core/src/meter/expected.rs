//! The cost of an answer that does not state all of its tokens.

use std::num::NonZeroU64;

use super::tariff::Tariff;
use crate::price::{PriceEntry, Usage};

/// What counts for a request whose answer does not state its tokens: this input, and the text that
/// the answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The tokens of the input.
    pub input: u64,
    /// Bytes of text for each token of the output.
    pub bytes_per_token: NonZeroU64,
}

impl Expected {
    /// The units of an answer that states these tokens, and has a text of so many bytes. An answer
    /// that breaks off may have stated only the beginning of its output. None: it is not known what
    /// they cost.
    pub(super) fn units(
        &self,
        usage: Option<Usage>,
        text_bytes: u64,
        tariff: &Tariff,
        entry: Option<PriceEntry>,
    ) -> Option<u64> {
        let seen = usage.unwrap_or_default();
        let output = seen.output.max(text_bytes.div_ceil(self.bytes_per_token.get()));
        match seen.all_input() {
            0 => tariff.estimated_units(&Usage { input: self.input, output, ..seen }, entry),
            _ => tariff.units(&Usage { output, ..seen }, entry),
        }
    }
}

#[cfg(test)]
mod tests;
