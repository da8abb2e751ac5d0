//! Which route a request takes, and which policies judge it there. Pure: nothing
//! in here does I/O or reads a clock.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod guarded;
mod host;
mod reading;
mod route;
mod router;

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use tollgate_limiter::digest::{Principal, SharedSecret};
use tollgate_limiter::policy::{ClientSettings, Clients, KeyExpr, KeyTextError, Subject};
use tollgate_limiter::request::{Params, RequestView, slashed_path};
use tollgate_limiter::time::Timestamp;

use self::guarded::GuardedNames;
use self::reading::Reading;
use self::router::Router;

pub use host::{HostPattern, HostPatternError};
pub use route::Route;

/// Routes, and how clients are recognised: what a snapshot holds of the rules.
#[derive(Debug)]
pub struct Rules {
    routes: Vec<Route>,
    router: Router,
    clients: Clients,
    guarded: GuardedNames,
}

/// Why no route is chosen for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmatched {
    /// None matches.
    #[error("no route matches")]
    NoRoute,
    /// Which one matches depends on how the backend reads the request: whether an
    /// escaped slash is one, or whether a field replaces the method.
    #[error("the request can be read in two ways that lead to different routes")]
    Ambiguous,
}

impl Rules {
    /// Rules over `routes`, in file order. Keys are digested under `secret`, as
    /// it is at the time: only rules with the same secret make the same keys.
    pub fn new(routes: Vec<Route>, client: ClientSettings, secret: Arc<SharedSecret>) -> Self {
        let guarded = GuardedNames::new(guarded::names(&client, &routes));
        let clients = Clients::new(client, routes.iter().flat_map(Route::keys), secret);
        Self { router: Router::new(&routes), guarded, routes, clients }
    }

    /// Guards the names of these fields besides those that the rules go by.
    #[must_use]
    pub fn guarding(mut self, edited: impl IntoIterator<Item = HeaderName>) -> Self {
        edited.into_iter().for_each(|name| self.guarded.add(name));
        self
    }

    /// Whether a field has a name that some backends take for the name of a field
    /// that the rules go by, or that a route edits.
    pub fn has_disguised_name(&self, headers: &HeaderMap) -> bool {
        self.guarded.is_disguised_in(headers)
    }

    /// The fields that the rules go by, or that a route edits.
    pub fn guarded_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.guarded.iter()
    }

    /// The index of the first route in file order that matches.
    ///
    /// # Errors
    /// If there is none, or if there is another one for backends that read the
    /// request in another way.
    pub fn select(&self, request: &RequestView<'_>) -> Result<usize, Unmatched> {
        let (path, method) = (request.path(), request.method());
        let select =
            |path, method| self.router.select(&self.routes, &Reading { request, path, method });
        let index = select(path, method);
        let tells_slashes_apart =
            index.is_some_and(|index| self.routes[index].path_match.exact_escaped_slash);
        let slashed = if tells_slashes_apart { None } else { slashed_path(path) };
        let overriding = request.overriding_method().map_err(|_| Unmatched::Ambiguous)?;
        let (other_path, other_method) = (slashed.as_deref(), overriding.as_ref());
        let others = [
            other_path.map(|path| (path, method)),
            other_method.map(|method| (path, method)),
            other_path.zip(other_method),
        ];
        if others.into_iter().flatten().any(|(path, method)| select(path, method) != index) {
            return Err(Unmatched::Ambiguous);
        }
        index.ok_or(Unmatched::NoRoute)
    }

    /// The route with this index.
    pub fn route(&self, index: usize) -> &Route {
        &self.routes[index]
    }

    /// The principal that policies with the key `key` count under `text`.
    ///
    /// # Errors
    /// If no request can have this key, or it is not written as it should be.
    pub fn principal(&self, key: &KeyExpr, text: &str) -> Result<Principal, KeyTextError> {
        let is_route = |name: &str| self.routes.iter().any(|route| &*route.name == name);
        self.clients.principal(key, text, &is_route)
    }

    /// How clients are recognised.
    pub const fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The parameters of `path`, in the form that is compared, under the route
    /// with this index, which it matches.
    pub fn params<'p>(&'p self, index: usize, path: &'p str) -> Params<'p> {
        let route = &self.routes[index];
        Params::new(&route.path, route.path_match, path)
    }

    /// The client of a request on the route with this index. `now` is the wall
    /// clock's time, by which tokens expire.
    pub fn subject<'r, 'q>(
        &'r self,
        request: &'q RequestView<'q>,
        route: usize,
        now: Timestamp,
    ) -> Subject<'r, 'q> {
        self.clients.subject(request, Some(self.routes[route].view()), now)
    }
}
