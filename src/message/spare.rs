//! A table of fields that is used again.
//!
//! Each response needs a table, and at that moment its request needs its own no longer. Using the
//! memory again saves two allocations; see bench/NOTEBOOK.md.

use std::cell::Cell;

use http::HeaderMap;

/// The largest table that is kept. It has room for the fields of a usual browser and backend.
const MAX_FIELDS: usize = 64;

thread_local! {
    /// The last table that this thread has no longer needed.
    static SPARE: Cell<Option<HeaderMap>> = const { Cell::new(None) };
}

/// An empty table with room for `fields` fields.
pub fn empty_table(fields: usize) -> HeaderMap {
    match SPARE.take() {
        Some(spare) if spare.capacity() >= fields => spare,
        _ => HeaderMap::with_capacity(fields),
    }
}

/// Takes a table that is no longer needed.
pub fn recycle(mut table: HeaderMap) {
    if table.capacity() <= MAX_FIELDS {
        table.clear();
        SPARE.set(Some(table));
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{ACCEPT, HOST};

    use super::*;

    #[test]
    fn a_table_is_used_again_and_has_nothing_of_its_former_content() {
        let mut table = empty_table(20);
        table.insert(HOST, HeaderValue::from_static("a"));
        table.append(ACCEPT, HeaderValue::from_static("b"));
        table.append(ACCEPT, HeaderValue::from_static("c"));
        let capacity = table.capacity();
        recycle(table);
        let again = empty_table(1);
        assert_eq!((again.len(), again.capacity()), (0, capacity));
        assert_ne!(empty_table(1).capacity(), capacity, "it is given once");
    }

    #[test]
    fn a_large_table_is_not_kept_and_a_small_one_is_not_given_for_a_large_one() {
        recycle(HeaderMap::with_capacity(10 * MAX_FIELDS));
        assert!(empty_table(1).capacity() <= MAX_FIELDS);
        recycle(HeaderMap::with_capacity(4));
        assert!(empty_table(40).capacity() >= 40);
    }
}
