//! One refusal.

use std::sync::Arc;

use tollgate_limiter::algorithm::Retry;
use tollgate_limiter::digest::{Principal, PrincipalId};
use tollgate_limiter::time::Timestamp;

/// The most bytes of a path that are kept.
const MAX_PATH_BYTES: usize = 256;

/// What a refusal was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its number among all refusals of this process, from 0.
    pub(crate) sequence: u64,
    /// When it was, by the wall clock.
    pub(crate) time: Timestamp,
    /// The id of the request. Clients may choose it, so several requests may have it.
    pub(crate) request_id: Box<str>,
    /// The policy whose wait the client was told.
    pub(crate) policy: Arc<str>,
    /// The client that is counted.
    pub(super) client: Principal,
    /// The masked text of its key.
    pub(crate) text: Box<str>,
    /// The limit in units.
    pub(crate) limit: u64,
    /// The units that counted against it.
    pub(crate) used: u64,
    /// When the request would have fit.
    pub(crate) retry: Retry,
    /// The route.
    pub(crate) route: Box<str>,
    /// Where the counter was.
    pub(crate) source: &'static str,
    /// The method.
    pub(crate) method: Box<str>,
    /// The path, without the query and without the values of path parameters.
    pub(crate) path: Box<str>,
}

impl Refusal {
    /// The id of the client's key.
    pub(crate) fn key_id(&self) -> PrincipalId {
        self.client.into()
    }
}

/// A refusal, as a worker describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused<'a> {
    /// See [`Refusal`].
    pub(crate) time: Timestamp,
    pub(crate) request_id: &'a str,
    pub(crate) policy: &'a Arc<str>,
    pub(crate) client: Principal,
    pub(crate) text: &'a str,
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) retry: Retry,
    pub(crate) route: &'a str,
    pub(crate) source: &'static str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
}

impl Refused<'_> {
    /// The refusal with this sequence.
    pub(super) fn numbered(&self, sequence: u64) -> Refusal {
        let &Self { time, client, limit, used, retry, source, .. } = self;
        Refusal {
            sequence,
            time,
            request_id: self.request_id.into(),
            policy: Arc::clone(self.policy),
            client,
            text: self.text.into(),
            limit,
            used,
            retry,
            route: self.route.into(),
            source,
            method: self.method.into(),
            path: cut(self.path).into(),
        }
    }
}

/// The beginning of a path.
fn cut(path: &str) -> &str {
    let end = path.floor_char_boundary(MAX_PATH_BYTES);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_cut_between_characters() {
        let path = "/é".repeat(1000);
        let short = cut(&path);
        assert!(short.len() <= MAX_PATH_BYTES && path.starts_with(short));
        assert_eq!(cut("/short"), "/short");
    }
}
