//! One way in which a backend may read a request.

use http::Method;

use crate::request::RequestView;

/// A request with the path and the method that a backend may take it to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'q> {
    pub(super) request: &'q RequestView<'q>,
    /// The path in normal form.
    pub(super) path: &'q str,
    pub(super) method: &'q Method,
}
