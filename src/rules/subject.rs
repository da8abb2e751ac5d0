//! A request together with who asks.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use super::cidr::CidrSet;
use super::client_ip::client_ip;
use super::fields::{self, Lack};
use super::geo::{self, Place};
use super::guarded::{self, GuardedNames};
use super::jwt::{Claims, Fault, TokenVerifier};
use super::router::{Reading, Router};
use super::{ClientSettings, ForwardedHeader, KeyExpr, Params, Route, TokenKeys, UserSource};
use crate::digest::{Secret, SharedSecret};
use crate::message::TokenFault;
use crate::request::{RequestView, slashed_path};
use crate::time::Timestamp;

/// Routes, and how clients are recognised: what a snapshot holds of the rules.
#[derive(Debug)]
pub struct Rules {
    routes: Vec<Route>,
    router: Router,
    pub(super) client: ClientSettings,
    pub(super) trusted: CidrSet,
    tokens: Option<TokenVerifier>,
    secret: Arc<SharedSecret>,
    guarded: GuardedNames,
}

/// The first route that matches, and the parameters of its path.
#[derive(Clone, Copy, Debug)]
pub struct Match<'a> {
    /// The route's index in the file.
    pub index: usize,
    /// The path's parameters.
    pub params: Params<'a>,
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
        let tokens = match &client.user {
            Some(UserSource::Jwt(settings)) => {
                Some(TokenVerifier::new(settings.clone(), claims_of(&routes), secret.get()))
            }
            Some(UserSource::Header(_)) | None => None,
        };
        Self {
            router: Router::new(&routes),
            guarded: GuardedNames::new(guarded::names(&client, &routes)),
            trusted: CidrSet::new(&client.trusted_proxies),
            routes,
            client,
            tokens,
            secret,
        }
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

    /// The first route in file order that matches.
    ///
    /// # Errors
    /// If there is none, or if there is another one for backends that read the
    /// request in another way.
    pub fn select<'r>(&'r self, request: &'r RequestView<'_>) -> Result<Match<'r>, Unmatched> {
        let RequestView { method, ref path, .. } = *request;
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
            other_method.map(|method| (&**path, method)),
            other_path.zip(other_method),
        ];
        if others.into_iter().flatten().any(|(path, method)| select(path, method) != index) {
            return Err(Unmatched::Ambiguous);
        }
        let index = index.ok_or(Unmatched::NoRoute)?;
        Ok(Match { index, params: self.params(index, path) })
    }

    /// The route with this index.
    pub fn route(&self, index: usize) -> &Route {
        &self.routes[index]
    }

    /// The parameters of `path`, in the form that is compared, under the route
    /// with this index, which it matches.
    pub fn params<'p>(&'p self, index: usize, path: &'p str) -> Params<'p> {
        Params::new(&self.routes[index], path)
    }

    /// Whether proxies tell each other in `Forwarded` who their client is.
    pub fn speaks_forwarded(&self) -> bool {
        self.client.forwarded_header == ForwardedHeader::Forwarded
    }

    /// Whether a token can hold.
    pub fn verifies_tokens(&self) -> bool {
        self.client.token_keys().is_some_and(TokenKeys::can_verify)
    }

    /// Whether what `peer` says about other clients is believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.contains(peer.to_canonical())
    }

    /// Removes the fields in which only trusted proxies may say who a client is.
    pub fn strip_claims(&self, headers: &mut HeaderMap) {
        if let ForwardedHeader::Single(name) = &self.client.forwarded_header {
            headers.remove(name);
        }
        if let Some(UserSource::Header(name)) = &self.client.user {
            headers.remove(name);
        }
    }

    /// Who asks. `now` is the wall clock's time, by which tokens expire.
    pub fn subject<'r, 'q>(
        &'r self,
        request: &'q RequestView<'q>,
        matched: Match<'q>,
        now: Timestamp,
    ) -> Subject<'r, 'q> {
        let (client_ip, place, claims) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        let secret = self.secret.get();
        Subject { rules: self, request, matched, secret, now, client_ip, place, claims }
    }
}

/// The claims that some policy counts by, that name a plan, or that choose an
/// endpoint: all that is kept of a token.
fn claims_of(routes: &[Route]) -> Vec<Box<str>> {
    let mut claims = Vec::new();
    let policies = routes.iter().flat_map(|route| &route.policies);
    let plans = policies.clone().filter_map(|policy| policy.plans.as_ref());
    let keys = policies.map(|policy| &policy.key).chain(plans.map(|plans| &plans.from));
    for key in keys.chain(routes.iter().filter_map(|route| route.affinity.as_ref())) {
        key.visit(&mut |key| {
            if let KeyExpr::Jwt(claim) = key {
                claims.push(claim.clone());
            }
        });
    }
    claims
}

/// A request `'q` together with who asks under the rules `'r`: what keys are
/// made of. Costly parts are computed when first asked for, and once.
#[derive(Debug)]
pub struct Subject<'r, 'q> {
    pub(super) rules: &'r Rules,
    pub(super) request: &'q RequestView<'q>,
    matched: Match<'q>,
    pub(super) secret: Secret,
    now: Timestamp,
    client_ip: OnceCell<IpAddr>,
    place: OnceCell<Place>,
    claims: OnceCell<Result<Arc<Claims>, Lack>>,
}

impl<'r, 'q> Subject<'r, 'q> {
    /// The route that matched.
    pub fn route(&self) -> &'r Route {
        &self.rules.routes[self.matched.index]
    }

    /// The parameters of the route's path.
    pub fn params(&self) -> Params<'q> {
        self.matched.params
    }

    /// The parameters that the route finds in another path.
    pub(super) fn params_of<'p>(&self, path: &'p str) -> Params<'p>
    where
        'r: 'p,
    {
        self.rules.params(self.matched.index, path)
    }

    /// The request's key for choosing an endpoint, if its route has one and it
    /// has that. The same on every gateway, and after every restart.
    pub fn affinity(&self) -> Option<u64> {
        self.affinity_by(self.route().affinity.as_ref()?)
    }

    /// The client's address: the peer, or what trusted proxies say.
    pub fn client_ip(&self) -> IpAddr {
        *self.client_ip.get_or_init(|| {
            client_ip(self.request, &self.rules.trusted, &self.rules.client.forwarded_header)
        })
    }

    /// Where the client's address is.
    pub(super) fn place(&self) -> &Place {
        self.place.get_or_init(|| geo::place_of(&self.rules.client.geo, self.client_ip()))
    }

    /// Whether the peer is a proxy that may speak for its clients.
    pub(super) fn is_from_trusted_peer(&self) -> bool {
        self.request.may_forward && self.rules.trusted.contains(self.request.peer)
    }

    /// What the request's bearer token claims, if it is a token that holds now.
    pub(super) fn claims(&self) -> Result<&Claims, Lack> {
        let verified = self.claims.get_or_init(|| {
            let tokens = self.rules.tokens.as_ref().ok_or(Lack::Absent)?;
            let token = fields::bearer(self.request.headers)?;
            tokens.verify(token, self.now).map_err(|fault| match fault {
                // Where bearer tokens may be API keys, it is one of these.
                Fault::Opaque if self.rules.client.api_key.bearer => Lack::Absent,
                Fault::Opaque | Fault::Invalid => Lack::Invalid,
                Fault::Unverifiable => Lack::Unverifiable,
                Fault::Ambiguous => Lack::Ambiguous,
            })
        });
        verified.as_deref().map_err(|lack| *lack)
    }

    /// What is wrong with the request's bearer token, which gives no key.
    pub(super) fn token_fault(&self) -> TokenFault {
        match fields::bearer(self.request.headers) {
            Err(Lack::Absent) => TokenFault::Missing,
            Ok(_) | Err(_) => TokenFault::Invalid,
        }
    }
}
