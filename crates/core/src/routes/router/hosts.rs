//! Maps hosts to path tries. The labels of hosts form a trie from the right, because
//! `*.example.com` shares its end with the hosts that it matches.
//!
//! A search takes at most one step for each label of the longest pattern, however long the
//! host of a request is.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::paths::PathTrie;
use crate::routes::HostPattern;

/// Path tries by host.
#[derive(Clone, Debug)]
pub(super) struct HostIndex {
    any: PathTrie,
    /// The nodes. The first one is the root.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    labels: HashMap<Box<str>, usize>,
    exact: Option<PathTrie>,
    below: Option<PathTrie>,
}

impl Default for HostIndex {
    fn default() -> Self {
        Self { any: PathTrie::default(), nodes: vec![Node::default()] }
    }
}

impl HostIndex {
    /// The path trie of routes without a host.
    pub(super) fn any(&mut self) -> &mut PathTrie {
        &mut self.any
    }

    /// The path trie of routes for `host`. It is created at the first call.
    pub(super) fn paths(&mut self, host: &HostPattern) -> &mut PathTrie {
        match host {
            HostPattern::Exact(name) => self.node(name).exact.get_or_insert_default(),
            HostPattern::Below(name) => self.node(name).below.get_or_insert_default(),
        }
    }

    fn node(&mut self, name: &str) -> &mut Node {
        let mut at = 0;
        for label in name.rsplit('.') {
            let next = self.nodes.len();
            at = *self.nodes[at].labels.entry(label.into()).or_insert(next);
            if at == next {
                self.nodes.push(Node::default());
            }
        }
        &mut self.nodes[at]
    }

    /// All tries whose host pattern matches `host`.
    pub(super) fn matching(&self, host: &str) -> SmallVec<[&PathTrie; 8]> {
        let mut tries = SmallVec::from_iter([&self.any]);
        let mut node = &self.nodes[0];
        let mut labels = host.rsplit('.').peekable();
        while let Some(label) = labels.next() {
            let Some(&child) = node.labels.get(label) else { break };
            node = &self.nodes[child];
            let here = if labels.peek().is_some() { &node.below } else { &node.exact };
            tries.extend(here);
        }
        tries
    }
}
