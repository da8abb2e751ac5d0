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
    /// The index of the route that has judged the request before, if one has. Its body was read since,
    /// or that route hands it over.
    pub judged_by: Option<usize>,
}

/// The routes of a request that is judged once more.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// The index of the route that has judged it before.
    pub judged_by: usize,
    /// The index of the route that judges it now. It is the same one after its body was read.
    pub route: usize,
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
        Self { request, route, subject, judged_by: None }
    }

    /// A request that is judged once more.
    pub fn again(
        rules: &'r Rules,
        routes: Again,
        request: &'q RequestView<'q>,
        wall: Timestamp,
    ) -> Self {
        let Again { judged_by, route } = routes;
        Self { judged_by: Some(judged_by), ..Self::on(rules, route, request, wall) }
    }
}
