//! Fetches a key set once, so that an operator can check it before a gateway starts.

use tollgate_core::policy::{LeftOut, UsableKeys};

use super::{FETCH_TIMEOUT, MAX_BYTES, shown};
use crate::config::KeySource;
use crate::proxy::fetch;

/// What a set contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCount {
    /// How many of its keys verify tokens.
    pub usable: usize,
    /// How many of its members are not used, for whatever reason.
    pub passed_over: usize,
    /// The first members that are meant for the algorithms and cannot be used: their names, and
    /// why.
    pub left_out: Vec<(String, String)>,
}

/// Fetches the set of this source, and counts its keys.
///
/// # Errors
/// Why the set cannot be used.
pub async fn count_keys(source: &KeySource) -> Result<KeyCount, String> {
    let fetched = fetch(&source.document, MAX_BYTES, FETCH_TIMEOUT).await;
    let document = fetched.map_err(|error| error.to_string())?;
    let read = UsableKeys::read(&document.bytes, &source.algorithms);
    let UsableKeys { keys, left_out, passed_over } = read.map_err(|error| shown(&error))?;
    let left_out = left_out.into_iter().map(|LeftOut { name, error }| (name, error.to_string()));
    Ok(KeyCount { usable: keys.len(), passed_over, left_out: left_out.collect() })
}
