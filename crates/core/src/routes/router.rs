//! The router selects the first matching route.
//!
//! The first route in file order wins, and not the most specific one, because readers of
//! the file expect this. A thousand routes cost about as much as ten: the host selects a
//! few tries of path segments. The search visits only nodes that match so far and lead to
//! an earlier route than the best one so far. Routes that differ only in methods, headers
//! or the exactness of path comparison share a node and are compared one by one.

mod hosts;
mod paths;

use crate::request::loose_path;

use self::hosts::HostIndex;
use super::Route;
use super::part::Met;
use super::reading::Reading;

/// The first route that some backend selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) index: usize,
    /// Whether every backend selects it.
    pub(super) is_clear: bool,
}

/// An index over the routes of a file.
#[derive(Clone, Debug)]
pub(super) struct Router {
    hosts: HostIndex,
}

impl Router {
    pub(super) fn new(routes: &[Route]) -> Self {
        let mut hosts = HostIndex::default();
        for (index, route) in routes.iter().enumerate() {
            let path = route.path.loose();
            if route.hosts.is_empty() {
                hosts.any().insert(&path, index);
            }
            for host in &route.hosts {
                hosts.paths(host).insert(&path, index);
            }
        }
        Self { hosts }
    }

    /// The index of the first route that matches this interpretation of a request. `routes`
    /// are the routes of this router.
    pub(super) fn select(&self, routes: &[Route], reading: &Reading<'_>) -> Option<Selected> {
        let mut best = routes.len();
        let mut is_clear = true;
        let path = loose_path(reading.path);
        // `*`, the target of OPTIONS for the whole server, is not a path that could end in
        // a node.
        let is_path = reading.path.starts_with('/');
        for paths in self.hosts.matching(reading.request.host()) {
            let mut walk = paths.walk(&path);
            while let Some(candidates) = walk.next_before(best) {
                let ends = if is_path { candidates.ends } else { &[] };
                for list in [ends, candidates.tails] {
                    let earlier = list.iter().copied().take_while(|&index| index < best);
                    let mut met = earlier.map(|index| (index, routes[index].admits(reading)));
                    if let Some((index, met)) = met.find(|(_, met)| *met != Met::No) {
                        best = index;
                        is_clear = met == Met::Yes;
                    }
                }
            }
        }
        (best < routes.len()).then_some(Selected { index: best, is_clear })
    }
}

#[cfg(test)]
mod tests;
