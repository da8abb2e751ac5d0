//! What metrics count for one descriptor: which of its hits were within the limit, near it and
//! over it. The rules are those of envoyproxy/ratelimit.

/// The hits of one descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All hits.
    pub total: u64,
    /// Hits beyond the limit.
    pub over: u64,
    /// Hits within the limit, but beyond 80 % of it.
    pub near: u64,
    /// All hits, if the descriptor is within its limit.
    pub within: u64,
    /// Hits beyond the limit that were admitted, because the limit is in shadow mode.
    pub shadow: u64,
}

impl Tally {
    /// `hits` more on a counter with this limit, which had `before`. A counter that was above its
    /// limit may be given as equal to it.
    pub fn new(limit: u64, before: u64, hits: u64, is_over: bool, is_shadow: bool) -> Self {
        let after = before.saturating_add(hits);
        let near_from = limit * 4 / 5;
        let over = match is_over {
            true if before >= limit => hits,
            true => after.saturating_sub(limit),
            false => 0,
        };
        let near = match is_over {
            true if before >= limit => 0,
            true => limit - near_from.max(before),
            false => after.saturating_sub(near_from.max(before)),
        };
        Self {
            total: hits,
            over,
            near,
            within: if is_over { 0 } else { hits },
            shadow: if is_shadow { over } else { 0 },
        }
    }

    /// Hits on a limit that admits none.
    pub fn of_none(hits: u64, is_shadow: bool) -> Self {
        Self::new(0, 0, hits, true, is_shadow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limit, before, hits; over, near, within.
    #[test]
    fn hits_are_split_at_the_limit_and_at_four_fifths_of_it() {
        let cases = [
            (10, 0, 1, (0, 0, 1)),
            (10, 7, 1, (0, 0, 1)),
            (10, 7, 3, (0, 2, 3)),
            (10, 8, 1, (0, 1, 1)),
            (10, 9, 3, (2, 1, 0)),
            (10, 2, 20, (12, 2, 0)),
            (10, 10, 5, (5, 0, 0)),
            (10, 10, 0, (0, 0, 0)),
            (1, 0, 1, (0, 1, 1)),
        ];
        for (limit, before, hits, expected) in cases {
            let is_over = before + hits > limit;
            let it = Tally::new(limit, before, hits, is_over, false);
            assert_eq!((it.over, it.near, it.within), expected, "{limit} {before} {hits}");
            assert_eq!((it.total, it.shadow), (hits, 0));
            let shadow = Tally::new(limit, before, hits, is_over, true);
            assert_eq!(shadow.shadow, it.over);
        }
        assert_eq!(Tally::of_none(3, true).shadow, 3);
    }
}
