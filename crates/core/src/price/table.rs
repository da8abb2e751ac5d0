//! Prices by the names of models.
//!
//! A name has the price of the entry with exactly this name. Otherwise the longest pattern counts.
//! Case is ignored. A lookup takes at most one step for each length of a pattern.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use super::Price;

/// The most entries of a table.
pub const MAX_ENTRIES: usize = 10_000;

/// The most bytes of the name in an entry. Of a longer name of a model, only so many count.
pub const MAX_MODEL_BYTES: usize = 256;

/// A name in lower case.
type Folded = SmallVec<[u8; 64]>;

/// Which models an entry is for: a name, or the beginning of one and `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPattern {
    /// As it is written.
    written: Box<str>,
    is_prefix: bool,
}

/// Why a text is not the name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has more than {MAX_MODEL_BYTES} bytes")]
    TooLong,
    /// It has a character that names of models do not have.
    #[error("it has a character that is not printable ASCII")]
    Character,
    /// It has a `*` that is not at its end, or several.
    #[error("it has a \"*\" that is not its last character")]
    Star,
}

impl FromStr for ModelPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let name = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() {
            Err(PatternError::Empty)
        } else if name.len() > MAX_MODEL_BYTES {
            Err(PatternError::TooLong)
        } else if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            Err(PatternError::Character)
        } else if name.contains('*') {
            Err(PatternError::Star)
        } else {
            Ok(Self { written: text.into(), is_prefix: name.len() < text.len() })
        }
    }
}

impl ModelPattern {
    /// Its text in lower case: two entries with the same text are for the same models.
    pub fn folded(&self) -> String {
        self.written.to_ascii_lowercase()
    }

    fn key(&self) -> Folded {
        let name = self.written.strip_suffix('*').unwrap_or(&self.written);
        folded(name.as_bytes())
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn folded(name: &[u8]) -> Folded {
    name.iter().map(u8::to_ascii_lowercase).collect()
}

/// Prices by the names of models.
#[derive(Clone, Default)]
pub struct PriceTable {
    entries: Vec<(ModelPattern, Price)>,
    exact: HashMap<Folded, u16>,
    prefixes: HashMap<Folded, u16>,
    /// The lengths of the prefixes, the longest first.
    lengths: Vec<usize>,
}

impl PriceTable {
    /// The table of these entries, of which the first [`MAX_ENTRIES`] are used. If two are for the
    /// same models, the first one counts.
    pub fn new(entries: impl IntoIterator<Item = (ModelPattern, Price)>) -> Self {
        let entries: Vec<_> = entries.into_iter().take(MAX_ENTRIES).collect();
        let mut exact = HashMap::new();
        let mut prefixes = HashMap::new();
        for (index, (pattern, _)) in (0_u16..).zip(&entries) {
            let names = if pattern.is_prefix { &mut prefixes } else { &mut exact };
            names.entry(pattern.key()).or_insert(index);
        }
        let mut lengths: Vec<usize> = prefixes.keys().map(|key: &Folded| key.len()).collect();
        lengths.sort_unstable_by(|one, other| other.cmp(one));
        lengths.dedup();
        Self { entries, exact, prefixes, lengths }
    }

    /// The index of the entry for a model.
    pub fn find(&self, model: &str) -> Option<u16> {
        let bytes = model.as_bytes();
        let name = folded(&bytes[..bytes.len().min(MAX_MODEL_BYTES)]);
        let exact = || self.exact.get(&name).filter(|_| bytes.len() <= MAX_MODEL_BYTES);
        let of_length = |length: &usize| self.prefixes.get(name.get(..*length)?);
        exact().or_else(|| self.lengths.iter().find_map(of_length)).copied()
    }

    /// The price of the entry with this index.
    pub fn price(&self, index: u16) -> Option<&Price> {
        self.entries.get(usize::from(index)).map(|(_, price)| price)
    }

    /// The name of the entry with this index, as it is written.
    pub fn name(&self, index: u16) -> Option<&str> {
        self.entries.get(usize::from(index)).map(|(pattern, _)| &*pattern.written)
    }

    /// All entries in their order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&ModelPattern, &Price)> {
        self.entries.iter().map(|(pattern, price)| (pattern, price))
    }
}

/// The entries are all: the rest follows from them.
impl PartialEq for PriceTable {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Eq for PriceTable {}

/// Leaves out the entries, which may be many.
impl fmt::Debug for PriceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriceTable").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}
