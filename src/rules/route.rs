//! A route: which requests, and by which policies they are judged.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};

use super::{HostPattern, PathPattern, Policy};
use crate::request::RequestView;

/// Which requests, and by which policies they are judged. Where they go then
/// is not the rules' business: the router answers with the route's index.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name: given, or its number in the file.
    pub name: Arc<str>,
    /// Any of these; none: every host.
    pub hosts: Vec<HostPattern>,
    /// The path.
    pub path: PathPattern,
    /// Any of these; none: every method. GET does not imply HEAD: a route that
    /// lists methods means these and no others.
    pub methods: Vec<Method>,
    /// All of these, with exactly this value on one of the field's lines.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// All must admit. No policy stands here twice.
    pub policies: Vec<Arc<Policy>>,
}

impl Route {
    /// Whether every request that `later` matches is matched by this route,
    /// too: standing after it, `later` would never match.
    ///
    /// Several earlier routes that only together take everything are not seen.
    pub fn covers(&self, later: &Self) -> bool {
        let hosts = self.hosts.is_empty()
            || !later.hosts.is_empty()
                && later.hosts.iter().all(|their| self.hosts.iter().any(|mine| mine.covers(their)));
        let methods = self.methods.is_empty()
            || !later.methods.is_empty()
                && later.methods.iter().all(|method| self.methods.contains(method));
        let headers = self.headers.iter().all(|wanted| later.headers.contains(wanted));
        hosts && methods && headers && self.path.covers(&later.path)
    }

    /// Whether a request whose host and path match has the method and the header fields.
    pub(super) fn admits(&self, request: &RequestView<'_>) -> bool {
        let method = self.methods.is_empty() || self.methods.contains(request.method);
        method
            && self.headers.iter().all(|(name, wanted)| {
                request.headers.get_all(name).iter().any(|value| value == wanted)
            })
    }
}
