//! The router: which route is the first to match.
//!
//! The first in file order wins, not the most specific one, because that is
//! what a reader of the file expects. A thousand routes cost about as much as
//! ten: the host leads to a few tries of path segments, and the walk through
//! them looks only at nodes that match so far and lead to an earlier route than
//! the best one found. Routes that differ in nothing but methods and headers
//! share a node and are compared one by one, and so are those that differ only in
//! how exactly they compare paths.

mod hosts;
mod paths;

use self::hosts::HostIndex;
use super::Route;
use super::reading::Reading;
use crate::request::loose_path;

/// An index over the routes of a file.
#[derive(Debug)]
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

    /// The index of the first route that matches a request, read in this way.
    /// `routes` are those that this router was made of.
    pub(super) fn select(&self, routes: &[Route], reading: &Reading<'_>) -> Option<usize> {
        let mut best = routes.len();
        let path = loose_path(reading.path);
        // The target of OPTIONS for the whole server is no path that could end anywhere.
        let is_path = reading.path.starts_with('/');
        for paths in self.hosts.matching(reading.request.host()) {
            let mut walk = paths.walk(&path);
            while let Some(candidates) = walk.next_before(best) {
                let ends = if is_path { candidates.ends } else { &[] };
                for list in [ends, candidates.tails] {
                    let mut earlier = list.iter().copied().take_while(|&index| index < best);
                    let found = earlier.find(|&index| routes[index].admits(reading));
                    best = found.unwrap_or(best);
                }
            }
        }
        (best < routes.len()).then_some(best)
    }
}

#[cfg(test)]
mod tests;
