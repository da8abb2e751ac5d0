//! The route of a request, and its client.

use tollgate_core::policy::Subject;
use tollgate_core::request::{Ambiguity, Malformed, RequestView};
use tollgate_core::routes::{Rules, Unmatched};
use tollgate_core::time::Timestamp;

use super::Undecidable;

/// A request with its route and its client.
pub struct Placed<'r, 'q> {
    /// The request, as policies see it.
    pub request: &'q RequestView<'q>,
    /// The index of the route.
    pub route: usize,
    /// The client, as the policies of the route see it.
    pub subject: Subject<'r, 'q>,
    /// Whether a wrong password of the request was counted when it was judged before.
    pub has_failed: bool,
}

/// A request that is judged once more: its body was read since, or another route takes it over.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// The index of the route that judges it now.
    pub route: usize,
    /// Whether its wrong password was counted before.
    pub has_failed: bool,
}

impl<'r, 'q> Placed<'r, 'q> {
    /// Finds the route of a request under `rules`. Its tokens expire by the wall clock.
    ///
    /// # Errors
    /// If no route matches, or backends may interpret the request in two ways.
    #[inline]
    pub fn find(
        rules: &'r Rules,
        request: &'q RequestView<'q>,
        wall: Timestamp,
    ) -> Result<Self, Undecidable> {
        if rules.has_disguised_name(request.headers()) {
            return Err(Malformed::DisguisedName.into());
        }
        let index = rules.select(request).map_err(|unmatched| match unmatched {
            Unmatched::NoRoute => Undecidable::NoRoute,
            Unmatched::Ambiguous => Ambiguity::TwoRoutes.into(),
        })?;
        Ok(Self::on(rules, index, request, wall))
    }

    /// A request on the route with this index.
    #[inline]
    pub fn on(
        rules: &'r Rules,
        route: usize,
        request: &'q RequestView<'q>,
        wall: Timestamp,
    ) -> Self {
        let subject = rules.subject(request, route, wall);
        Self { request, route, subject, has_failed: false }
    }

    /// A request that is judged once more.
    pub fn again(
        rules: &'r Rules,
        again: Again,
        request: &'q RequestView<'q>,
        wall: Timestamp,
    ) -> Self {
        let Again { route, has_failed } = again;
        Self { has_failed, ..Self::on(rules, route, request, wall) }
    }
}
