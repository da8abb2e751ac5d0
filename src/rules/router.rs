//! The router: which route is the first to match.
//!
//! The first in file order wins, not the most specific one, because that is
//! what a reader of the file expects. A thousand routes cost about as much as
//! ten: the host leads to a few tries of path segments, and the walk through
//! them looks only at nodes that match so far and lead to an earlier route than
//! the best one found. Routes that differ in nothing but methods and headers
//! share a node and are compared one by one.

mod hosts;
mod paths;

use self::hosts::HostIndex;
use super::Route;
use crate::request::RequestView;

/// An index over the routes of a file.
#[derive(Debug)]
pub(super) struct Router {
    hosts: HostIndex,
}

impl Router {
    pub(super) fn new(routes: &[Route]) -> Self {
        let mut hosts = HostIndex::default();
        for (index, route) in routes.iter().enumerate() {
            if route.hosts.is_empty() {
                hosts.any().insert(&route.path, index);
            }
            for host in &route.hosts {
                hosts.paths(host).insert(&route.path, index);
            }
        }
        Self { hosts }
    }

    /// The index of the first route that matches. `routes` are those that this
    /// router was made of.
    pub(super) fn select(&self, routes: &[Route], request: &RequestView<'_>) -> Option<usize> {
        let mut best = routes.len();
        for paths in self.hosts.matching(&request.host) {
            let mut walk = paths.walk(&request.path);
            while let Some(candidates) = walk.next_before(best) {
                for list in [candidates.ends, candidates.tails] {
                    let earlier = list.iter().copied().take_while(|&index| index < best);
                    let found = earlier.into_iter().find(|&index| routes[index].admits(request));
                    best = found.unwrap_or(best);
                }
            }
        }
        (best < routes.len()).then_some(best)
    }
}

#[cfg(test)]
mod tests;
