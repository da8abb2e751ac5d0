//! What is kept of the lines of a log.

use std::sync::Arc;

use http::HeaderName;
use http::header::{AUTHORIZATION, COOKIE, FORWARDED};

/// The header fields that rules may read, and the policies that there are. Others are not
/// kept.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    headers: Vec<HeaderName>,
    policies: Vec<Arc<str>>,
}

impl Wanted {
    /// The fields that the rules name, and those that every rule may read.
    pub(super) fn new(
        names: impl IntoIterator<Item = HeaderName>,
        policies: impl IntoIterator<Item = Arc<str>>,
    ) -> Self {
        let forwarded = HeaderName::from_static("x-forwarded-for");
        let mut all = vec![forwarded, FORWARDED, COOKIE, AUTHORIZATION];
        all.extend(names);
        Self { headers: all, policies: policies.into_iter().collect() }
    }

    /// The policy of this name, if there is one.
    pub(super) fn policy(&self, name: &[u8]) -> Option<&Arc<str>> {
        self.policies.iter().find(|policy| policy.as_bytes() == name)
    }

    /// The field of this name in any case, if it is wanted.
    pub(super) fn find(&self, name: &[u8]) -> Option<&HeaderName> {
        self.headers.iter().find(|wanted| name.eq_ignore_ascii_case(wanted.as_str().as_bytes()))
    }
}
