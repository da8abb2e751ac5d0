//! Selects the route of a request, and the policies that judge it. Pure: this module does
//! no I/O and reads no clock.

#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod guarded;
mod host;
mod part;
mod passed_over;
mod reading;
mod route;
mod router;
mod split;

use std::sync::Arc;

use crate::api_keys::KeyId;
use crate::digest::{Principal, SharedSecret};
use crate::policy::{
    AccessList, ClientSettings, Clients, KeyExpr, KeyTextError, KeyTexts, Policy, Subject,
};
use crate::request::{Params, RequestView, slashed_path};
use crate::time::Timestamp;
use http::{HeaderMap, HeaderName};

use self::guarded::GuardedNames;
use self::reading::Reading;
use self::router::Router;

pub use host::{HostPattern, HostPatternError};
pub use part::{Part, PartMatch, Wanted};
pub use passed_over::{Mismatch, PassedOver};
pub use route::{Overflow, Route};
pub use split::{Branch, Destination, Point, Split};

/// The routes, and the settings that identify clients. A snapshot contains them.
#[derive(Debug)]
pub struct Rules {
    routes: Vec<Route>,
    router: Router,
    clients: Arc<Clients>,
    guarded: GuardedNames,
}

/// The reason why no route is selected for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmatched {
    /// No route matches.
    #[error("no route matches")]
    NoRoute,
    /// The backend's interpretation of the request determines the route: whether an escaped
    /// slash is a slash, whether a field replaces the method, or which one of two values counts.
    #[error("the request can be read in two ways that lead to different routes")]
    Ambiguous,
}

impl Rules {
    /// Rules over `routes`, in file order. Keys are digested under the current value of
    /// `secret`: only rules with the same secret derive the same keys.
    pub fn new(routes: Vec<Route>, client: ClientSettings, secret: Arc<SharedSecret>) -> Self {
        let guarded = GuardedNames::new(guarded::names(&client, &routes));
        let clients = Clients::new(client, routes.iter().flat_map(Route::keys), secret);
        Self { router: Router::new(&routes), guarded, routes, clients: Arc::new(clients) }
    }

    /// Also guards the names of these fields.
    #[must_use]
    pub fn guarding(mut self, edited: impl IntoIterator<Item = HeaderName>) -> Self {
        edited.into_iter().for_each(|name| self.guarded.add(name));
        self
    }

    /// The same rules with other policies and access lists, which have the same keys: `change`
    /// returns those that take the place of a policy, and `list` the one that takes the place of a
    /// list.
    #[must_use]
    pub fn changing(
        &self,
        change: impl Fn(&Arc<Policy>) -> Vec<Arc<Policy>>,
        list: impl Fn(&Arc<AccessList>) -> Arc<AccessList>,
    ) -> Self {
        let changed = |route: &Route| Route {
            policies: route.policies.iter().flat_map(&change).collect(),
            access: route.access.iter().map(&list).collect(),
            ..route.clone()
        };
        Self {
            routes: self.routes.iter().map(changed).collect(),
            router: self.router.clone(),
            clients: Arc::clone(&self.clients),
            guarded: self.guarded.clone(),
        }
    }

    /// Whether some backends treat the name of a field as that of a field that the rules
    /// use, or that a route edits.
    pub fn has_disguised_name(&self, headers: &HeaderMap) -> bool {
        self.guarded.is_disguised_in(headers)
    }

    /// The fields that the rules use, or that a route edits.
    pub fn guarded_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.guarded.iter()
    }

    /// The index of the first route in file order that matches.
    ///
    /// # Errors
    /// If no route matches, or backends may interpret the request in a way that selects
    /// another route.
    pub fn select(&self, request: &RequestView<'_>) -> Result<usize, Unmatched> {
        let path = request.path();
        let method = request.method();
        let select =
            |path, method| self.router.select(&self.routes, &Reading { request, path, method });
        let selected = select(path, method);
        if selected.is_some_and(|selected| !selected.is_clear) {
            return Err(Unmatched::Ambiguous);
        }
        let index = selected.map(|selected| selected.index);
        let tells_slashes_apart =
            index.is_some_and(|index| self.routes[index].path_match.exact_escaped_slash);
        let slashed = if tells_slashes_apart { None } else { slashed_path(path) };
        let overriding = request.overriding_method().map_err(|_| Unmatched::Ambiguous)?;
        let other_path = slashed.as_deref();
        let other_method = overriding.as_ref();
        let others = [
            other_path.map(|path| (path, method)),
            other_method.map(|method| (path, method)),
            other_path.zip(other_method),
        ];
        if others.into_iter().flatten().any(|(path, method)| select(path, method) != selected) {
            return Err(Unmatched::Ambiguous);
        }
        index.ok_or(Unmatched::NoRoute)
    }

    /// Whether the API key of a request on the route with this index is looked up, or a credential
    /// is demanded.
    #[inline]
    pub fn asks_for_credentials(&self, index: usize) -> bool {
        self.clients.settings().keys.is_some() || !self.routes[index].auth.is_empty()
    }

    /// The route with this index.
    pub fn route(&self, index: usize) -> &Route {
        &self.routes[index]
    }

    /// The principal that policies with the key `key` count under `text`, which a person or a
    /// program has written.
    ///
    /// # Errors
    /// If no request can have this key, or it is not written as it should be.
    pub fn principal(&self, key: &KeyExpr, text: &str) -> Result<Principal, KeyTextError> {
        self.keys(|texts| texts.principal(key, text))
    }

    /// The principal of a client for whose words `value` returns the values, see
    /// [`KeyTexts::principal_of`].
    ///
    /// # Errors
    /// If no request can have this key.
    pub fn principal_of<'v>(
        &self,
        key: &KeyExpr,
        value: impl Fn(&KeyExpr) -> Option<&'v str>,
    ) -> Result<Principal, KeyTextError> {
        self.keys(|texts| texts.principal_of(key, value))
    }

    /// The id of the API key in the text of a key, see [`KeyTexts::api_key`].
    pub fn api_key(&self, key: &KeyExpr, text: &str) -> Option<KeyId> {
        self.keys(|texts| texts.api_key(key, text))
    }

    /// The text of a key for operators, see [`KeyTexts::shown`].
    pub fn shown_key(&self, key: &KeyExpr, text: &str) -> Option<String> {
        self.keys(|texts| texts.shown(key, text))
    }

    fn keys<T>(&self, read: impl FnOnce(KeyTexts<'_>) -> T) -> T {
        let is_route = |name: &str| self.routes.iter().any(|route| &*route.name == name);
        let client = self.clients.settings();
        let secret = self.clients.secret();
        read(KeyTexts { client, secret, is_route: &is_route })
    }

    /// The policies of all routes.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.routes.iter().flat_map(|route| &route.policies)
    }

    /// The index of the route with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.routes.iter().position(|route| &*route.name == name)
    }

    /// The settings that identify clients.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Where a request with this client goes, whose route has the index `route`. `random` returns a
    /// random number.
    pub fn destination(
        &self,
        route: usize,
        subject: &Subject<'_, '_>,
        random: impl FnOnce() -> u64,
    ) -> Destination {
        let split = self.routes[route].split.as_ref();
        Destination { route, branch: split.map_or(0, |split| split.branch(subject, random)) }
    }

    /// The parameters of `path`, in normal form, under the route with this index. The path
    /// must match the route.
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
