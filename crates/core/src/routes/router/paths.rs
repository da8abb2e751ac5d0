//! A trie of path segments. Each node contains the routes that end in it, in file order.
//!
//! A literal, a parameter and prefixes may all match a segment, so a search may branch at
//! every step. It is still not exponential: nodes form a tree and each node has one path
//! from the root, so no search visits a node twice. It visits only nodes whose pattern
//! matches the path so far. These are at most as many as the segments of all routes,
//! whatever path a client sends.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use crate::request::{PathPattern, Segment};

/// Routes by path.
#[derive(Clone, Debug)]
pub(super) struct PathTrie {
    /// The nodes. The first one is the root.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    literals: HashMap<Box<str>, usize>,
    param: Option<usize>,
    prefixes: Prefixes,
    /// Routes whose pattern ends here, ascending.
    ends: Vec<usize>,
    /// Routes whose tail begins here, ascending.
    tails: Vec<usize>,
    /// The first route at or below this node.
    first: usize,
}

impl Node {
    fn new(first: usize) -> Self {
        Self {
            literals: HashMap::new(),
            param: None,
            prefixes: Prefixes::default(),
            ends: Vec::new(),
            tails: Vec::new(),
            first,
        }
    }
}

/// Nodes by the prefix of a segment. A look-up takes one step for each length that a prefix
/// has, however many prefixes there are.
#[derive(Clone, Debug, Default)]
struct Prefixes {
    nodes: HashMap<Box<str>, usize>,
    /// The lengths in bytes, without duplicates, ascending.
    lengths: Vec<usize>,
}

impl Prefixes {
    /// The node of `prefix`. It is set to `next` if there was none.
    fn node(&mut self, prefix: &str, next: usize) -> usize {
        if let Err(place) = self.lengths.binary_search(&prefix.len()) {
            self.lengths.insert(place, prefix.len());
        }
        *self.nodes.entry(prefix.into()).or_insert(next)
    }

    /// The nodes of all prefixes of `segment`.
    fn of(&self, segment: &str) -> impl Iterator<Item = usize> {
        let starts = self
            .lengths
            .iter()
            .map_while(|&length| (length <= segment.len()).then(|| segment.get(..length)));
        starts.flatten().filter_map(|start| self.nodes.get(start).copied())
    }
}

impl Default for PathTrie {
    fn default() -> Self {
        // The root leads to all routes; 0 is below every bound.
        Self { nodes: vec![Node::new(0)] }
    }
}

impl PathTrie {
    /// Adds a route. Routes must be added in file order: the route that creates a node is
    /// the first one below it.
    pub(super) fn insert(&mut self, pattern: &PathPattern, route: usize) {
        let mut at = 0;
        for segment in &pattern.segments {
            let next = self.nodes.len();
            at = match segment {
                Segment::Literal(text) => {
                    *self.nodes[at].literals.entry(text.clone()).or_insert(next)
                }
                Segment::Param(_) => *self.nodes[at].param.get_or_insert(next),
                Segment::Prefix(start) => self.nodes[at].prefixes.node(start, next),
            };
            if at == next {
                self.nodes.push(Node::new(route));
            }
        }
        let node = &mut self.nodes[at];
        if pattern.tail { node.tails.push(route) } else { node.ends.push(route) }
    }

    /// Begins a search along `path`.
    pub(super) fn walk<'t>(&'t self, path: &'t str) -> Walk<'t> {
        Walk { nodes: &self.nodes, ahead: smallvec![(0, path.strip_prefix('/'))] }
    }
}

/// A depth-first search along a path.
pub(super) struct Walk<'t> {
    nodes: &'t [Node],
    /// The nodes to visit, each with the rest of the path after it; none if the path ends
    /// in the node. Their number is bounded by the depth of the trie, plus one, and the
    /// prefixes of the path's segments.
    ahead: SmallVec<[(usize, Option<&'t str>); 16]>,
}

/// The routes of one node that match a path. Both lists ascend.
pub(super) struct Candidates<'t> {
    /// The routes whose pattern ends where the path ends.
    pub(super) ends: &'t [usize],
    /// The routes whose tail matches the rest of the path.
    pub(super) tails: &'t [usize],
}

impl<'t> Walk<'t> {
    /// The matches at the next node. Skips nodes that lead to no route before `bound`.
    pub(super) fn next_before(&mut self, bound: usize) -> Option<Candidates<'t>> {
        while let Some((at, rest)) = self.ahead.pop() {
            let node = &self.nodes[at];
            if node.first >= bound {
                continue;
            }
            let ends: &[usize] = match rest {
                Some(rest) => {
                    self.branch(node, rest);
                    &[]
                }
                None => &node.ends,
            };
            return Some(Candidates { ends, tails: &node.tails });
        }
        None
    }

    /// Pushes the nodes after `node` to the stack, with the earliest route on top. Its
    /// result may make the other nodes unnecessary.
    fn branch(&mut self, node: &Node, rest: &'t str) {
        let (segment, rest) =
            rest.split_once('/').map_or((rest, None), |(segment, rest)| (segment, Some(rest)));
        let literal = node.literals.get(segment).copied();
        let param = node.param.filter(|_| !segment.is_empty());
        let prefixes = node.prefixes.of(segment);
        let mut ways: SmallVec<[usize; 4]> =
            literal.into_iter().chain(param).chain(prefixes).collect();
        ways.sort_unstable_by_key(|&way| std::cmp::Reverse(self.nodes[way].first));
        self.ahead.extend(ways.into_iter().map(|way| (way, rest)));
    }
}
