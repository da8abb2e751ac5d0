//! A split: the upstreams that share the requests of a route, and the one that a request gets.
//!
//! The key of a request is hashed to a point on a line from 0 to 100. Each upstream has a range of
//! the line, as long as its share. The hash has a fixed key and not the secret of the node, so a
//! client has the same upstream on all nodes, after each restart, and on all routes with the same
//! split. This is safe: a client that chooses its own key, such as a cookie, can choose its
//! upstream, and a split protects nothing. The point is all that is used of the hash, and it is
//! neither stored nor sent.
//!
//! The order of the ranges decides which clients change the upstream when shares change. It follows
//! from the names of the upstreams, because the order in a file says nothing: programs that write
//! YAML sort it. In the order of the names, the second upstream begins at 0, the third one ends at
//! 100, the next ones follow inwards in turns, and the first one has the middle. Therefore:
//!
//! - With two upstreams, a client of the one whose share grows never changes to the other.
//! - A client of the second or the third upstream changes only if the share of its own upstream
//!   shrinks, whatever the other shares are.
//! - A client of the first upstream changes only if another share grows.
//! - A client of any other upstream does not change if its own share does not shrink, and no
//!   upstream that is further out on its side has another share.
//!
//! More cannot be promised. If a growing share kept its clients whatever the others are, the
//! clients of an upstream would depend on its own share alone. Let A, B and C have such sets. With
//! a share of 0 for C, the sets of A and B are complements. So C with the share c gets what A gains
//! by growing by c, from any share on. But what A gains from 0 and what it gains from c have
//! nothing in common.

use std::fmt;
use std::sync::Arc;

use crate::policy::{KeyExpr, Subject};

/// The upstreams that share the requests of a route.
#[derive(Clone, Debug)]
pub struct Split {
    by: Option<KeyExpr>,
    branches: Box<[Branch]>,
    /// The ranges in the order of the line.
    ranges: Box<[Range]>,
}

/// Where a request goes: its route, and the branch of the route's split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The index of the route.
    pub route: usize,
    /// The index of the branch. 0 if the route has no split.
    pub branch: usize,
}

/// One of the upstreams of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The name of the upstream.
    pub name: Arc<str>,
    /// Its share.
    pub percent: u8,
    /// The key by which the upstream distributes requests over its endpoints, if it uses one.
    pub affinity: Option<KeyExpr>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    /// Where it ends on the line.
    end: u8,
    branch: usize,
}

/// A point on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(u64);

impl Point {
    /// The point of a hash, whose bits must be uniformly distributed.
    pub const fn of(hash: u64) -> Self {
        Self(hash)
    }

    /// The point in parts of the line, of which there are `parts`.
    fn part(self, parts: u8) -> u8 {
        let part = (u128::from(self.0) * u128::from(parts)) >> u64::BITS;
        u8::try_from(part).expect("it is less than the number of parts")
    }
}

/// As a percentage with two digits after the point.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (u128::from(self.0) * 10_000) >> u64::BITS;
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

impl Split {
    /// A split over `branches` by this key, or at random. The shares must sum to 100.
    pub fn new(by: Option<KeyExpr>, branches: Vec<Branch>) -> Self {
        let mut by_name: Vec<usize> = (0..branches.len()).collect();
        by_name.sort_by_key(|branch| &branches[*branch].name);
        let mut end = 0_u8;
        let ranges = order(branches.len()).map(|place| {
            let branch = by_name[place];
            end = end.saturating_add(branches[branch].percent);
            Range { end, branch }
        });
        Self { by, ranges: ranges.collect(), branches: branches.into() }
    }

    /// The upstreams, in the order of the file.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The key by which a client is placed. None: requests are placed at random.
    pub const fn by(&self) -> Option<&KeyExpr> {
        self.by.as_ref()
    }

    /// The index of the branch whose range contains `point`.
    pub fn branch_at(&self, point: Point) -> usize {
        let position = point.part(100);
        let range = self.ranges.iter().find(|range| position < range.end);
        range.or(self.ranges.last()).map_or(0, |range| range.branch)
    }

    /// The point of a request with this client. None if its place is random: there is no key, or
    /// the request does not have it.
    pub fn point(&self, subject: &Subject<'_, '_>) -> Option<Point> {
        subject.split_hash(self.by.as_ref()?).map(Point::of)
    }

    /// The index of the branch that a request with this client gets. `random` returns a random
    /// number for a request without the key.
    pub fn branch(&self, subject: &Subject<'_, '_>, random: impl FnOnce() -> u64) -> usize {
        self.branch_at(self.point(subject).unwrap_or_else(|| Point::of(random())))
    }

    /// The index of the branch with the largest share.
    pub fn largest(&self) -> usize {
        let shares = self.branches.iter().enumerate().rev();
        shares.max_by_key(|(_, branch)| branch.percent).map_or(0, |(index, _)| index)
    }

    /// The keys that it reads in requests.
    pub fn keys(&self) -> impl Iterator<Item = &KeyExpr> {
        self.by.iter().chain(self.branches.iter().filter_map(|branch| branch.affinity.as_ref()))
    }
}

/// The places of `count` branches in the order of their names, in the order of the line: see the
/// documentation of this module.
fn order(count: usize) -> impl Iterator<Item = usize> {
    let low = (1..count).step_by(2);
    let high = (2..count).step_by(2);
    low.chain((count > 0).then_some(0)).chain(high.rev())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(shares: &[u8]) -> Split {
        let branch = |(index, percent): (usize, &u8)| Branch {
            name: index.to_string().into(),
            percent: *percent,
            affinity: None,
        };
        Split::new(None, shares.iter().enumerate().map(branch).collect())
    }

    /// The branch of each percent of the line.
    fn line(shares: &[u8]) -> Vec<usize> {
        let split = split(shares);
        let point = |position: u64| Point::of((u64::MAX / 100) * position + u64::MAX / 200);
        (0..100).map(|position| split.branch_at(point(position))).collect()
    }

    /// Shares of `count` upstreams that sum to 100.
    fn shares(count: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0_u8..=100, count - 1).prop_map(|mut cuts| {
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([100]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            ends.zip(starts).map(|(end, start)| end - start).collect()
        })
    }

    fn two_of_a_size() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        (2_usize..7).prop_flat_map(|count| (shares(count), shares(count)))
    }

    proptest! {
        #[test]
        fn each_upstream_has_its_share(shares in (1_usize..7).prop_flat_map(shares)) {
            let line = line(&shares);
            for (index, share) in shares.iter().enumerate() {
                let length = line.iter().filter(|branch| **branch == index).count();
                prop_assert_eq!(length, usize::from(*share));
            }
        }

        #[test]
        fn a_share_that_grows_keeps_its_clients((old, new) in two_of_a_size()) {
            let places: Vec<_> = line(&old).into_iter().zip(line(&new)).collect();
            for (index, (before, after)) in old.iter().zip(&new).enumerate() {
                // The other upstreams that must not have another share.
                let mut outer = (1..old.len()).filter(|it| *it < index && it % 2 == index % 2);
                let is_promised = match index {
                    0 => (1..old.len()).all(|other| new[other] <= old[other]),
                    1 | 2 => true,
                    _ => outer.all(|it| old[it] == new[it]),
                };
                if old.len() == 2 || is_promised {
                    let loses = places.iter().any(|it| it.0 == index && it.1 != index);
                    prop_assert!(after < before || !loses, "{index}: {old:?} {new:?}");
                }
            }
        }

        #[test]
        fn a_point_is_shown_as_a_percentage(hash: u64) {
            let shown = Point::of(hash).to_string();
            let (whole, rest) = shown.split_once('.').unwrap();
            prop_assert_eq!(rest.len(), 2);
            prop_assert_eq!(whole, Point::of(hash).part(100).to_string());
        }
    }

    #[test]
    fn the_order_in_the_file_makes_no_difference() {
        let branch = |name: &str, percent| Branch { name: name.into(), percent, affinity: None };
        let names = |branches: [Branch; 3]| {
            let split = Split::new(None, branches.to_vec());
            let name = |part: u64| split.branch_at(Point::of(part << 56));
            (0..256).map(|part| split.branches()[name(part)].name.clone()).collect::<Vec<_>>()
        };
        let [a, b, c] = [branch("a", 50), branch("b", 30), branch("c", 20)];
        let expected = names([a.clone(), b.clone(), c.clone()]);
        assert_eq!(names([c.clone(), a.clone(), b.clone()]), expected);
        assert_eq!(names([b, c, a]), expected);
    }

    #[test]
    fn the_first_upstream_has_the_middle() {
        let ends = |shares: &[u8]| {
            let ranges = split(shares).ranges;
            ranges.iter().map(|range| (range.branch, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(ends(&[95, 5]), [(1, 5), (0, 100)]);
        assert_eq!(ends(&[90, 5, 5]), [(1, 5), (0, 95), (2, 100)]);
        assert_eq!(ends(&[60, 10, 10, 10, 10]), [(1, 10), (3, 20), (0, 80), (4, 90), (2, 100)]);
        assert_eq!(split(&[40, 40, 20]).largest(), 0);
        assert_eq!(Point::of(u64::MAX).to_string(), "99.99");
    }
}
