//! What a request asks: the descriptors, and how many hits each of them counts.

use smallvec::SmallVec;

use super::Unit;

/// One entry of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'q> {
    pub key: &'q str,
    /// It may be empty.
    pub value: &'q str,
}

/// One descriptor of a request.
#[derive(Clone, Debug)]
pub struct Descriptor<'q> {
    /// The entries, at least one.
    pub entries: SmallVec<[Entry<'q>; 4]>,
    /// A limit of the request itself, instead of the configured one.
    pub instead: Option<Override>,
    /// What the request counts.
    pub hits: Hits,
}

/// A limit that a request brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    pub requests: u32,
    pub unit: Unit,
}

/// What a request counts on the counter of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// So many more. 0 asks whether the counter is above its limit, and counts nothing.
    Add(u64),
    /// So many less, but never less than none.
    GiveBack(u64),
}

impl Hits {
    /// The largest number that is counted at once. More makes no difference: a counter contains
    /// at most twice its limit, which has 32 bits. Redis counts exactly up to 53 bits.
    const MOST: u64 = 1 << 40;

    /// The hits of a descriptor: its own number, which may be 0; or else the number of the
    /// request, where 0 counts as 1.
    pub fn new(own: Option<u64>, of_request: u32, is_negative: bool) -> Self {
        let number = own.unwrap_or(u64::from(of_request.max(1))).min(Self::MOST);
        if is_negative { Self::GiveBack(number) } else { Self::Add(number) }
    }

    /// The number of hits that are added.
    pub const fn added(self) -> u64 {
        match self {
            Self::Add(number) => number,
            Self::GiveBack(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_number_counts_even_if_it_is_0() {
        assert_eq!(Hits::new(Some(0), 7, false), Hits::Add(0));
        assert_eq!(Hits::new(None, 7, false), Hits::Add(7));
        assert_eq!(Hits::new(None, 0, false), Hits::Add(1));
        assert_eq!(Hits::new(Some(3), 7, true), Hits::GiveBack(3));
        assert_eq!(Hits::new(None, u32::MAX, false), Hits::Add(u64::from(u32::MAX)));
        assert_eq!(Hits::new(Some(u64::MAX), 1, false), Hits::Add(1 << 40));
    }
}
