//! A route: which requests, and by which policies they are judged.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};

use super::Policy;

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
    /// Any of these; none: every method.
    pub methods: Vec<Method>,
    /// All of these, with exactly this value.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// All must admit. No policy stands here twice.
    pub policies: Vec<Arc<Policy>>,
}

/// `api.example.com`, or `*.example.com` for all hosts below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host.
    Exact(Box<str>),
    /// Every host that ends in a dot and this.
    Below(Box<str>),
}

/// `/v1/orders`, `/v1/orders/{id}`, or a tail: `/v1/*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern {
    /// Between the slashes.
    pub segments: Vec<Segment>,
    /// Whether the pattern ends in `*`: anything may follow, also nothing.
    pub tail: bool,
}

/// One segment of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Exactly this.
    Literal(Box<str>),
    /// Any one segment that is not empty, under this name.
    Param(Box<str>),
}
