//! One interpretation of a request by a backend.

use http::Method;

use crate::request::RequestView;

/// A request with the path and the method of one interpretation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'q> {
    pub(super) request: &'q RequestView<'q>,
    /// The path in normal form.
    pub(super) path: &'q str,
    pub(super) method: &'q Method,
}
