//! A request together with its client.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderName};

use super::cidr::CidrSet;
use super::client_ip::{AddressOrigin, Unbelieved, client_ip, unbelieved};
use super::fields::{self, Lack};
use super::geo::{self, Place};
use super::identified::Identified;
#[cfg(feature = "jwt")]
use super::jwt::TokenVerifier;
use super::token::{Claims, Fault, VerifyToken};
use super::token_fault::MAX_TOKEN;
use super::{
    ClientSettings, ForwardedHeader, KeyExpr, Misfits, PasswordAnswer, TokenFault, UserSource,
};
use crate::digest::{Secret, SharedSecret};
use crate::request::{Forwarding, Params, PathMatch, PathPattern, RequestView};
use crate::time::Timestamp;

/// The settings that identify clients.
#[derive(Debug)]
pub struct Clients {
    pub(super) settings: ClientSettings,
    pub(super) trusted: CidrSet,
    tokens: Option<Box<dyn VerifyToken>>,
    pub(super) misfits: Misfits,
    secret: Arc<SharedSecret>,
}

/// The parts of a route that policies use.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'r> {
    /// Its name.
    pub name: &'r str,
    /// The pattern that the request's path matches.
    pub path: &'r PathPattern,
    /// How paths are compared with the pattern.
    pub path_match: PathMatch,
}

impl Clients {
    /// Identifies clients by these settings. Of a token, only the claims that `keys` name
    /// are kept. Keys are digested under the current value of `secret`: only nodes with the
    /// same secret derive the same keys.
    pub fn new<'k>(
        settings: ClientSettings,
        keys: impl IntoIterator<Item = &'k KeyExpr>,
        secret: Arc<SharedSecret>,
    ) -> Self {
        let tokens = verifier(&settings, keys, &secret);
        let trusted = CidrSet::new(&settings.trusted_proxies);
        Self { trusted, settings, tokens, misfits: Misfits::default(), secret }
    }

    /// The secret under which keys are digested now.
    pub fn secret(&self) -> Secret {
        self.secret.get()
    }

    /// The settings.
    pub const fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    /// Whether trusted proxies name the client in `Forwarded`.
    pub fn speaks_forwarded(&self) -> bool {
        self.settings.forwarded_header == ForwardedHeader::Forwarded
    }

    /// Whether any token can be valid.
    pub fn verifies_tokens(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.can_verify())
    }

    /// Whether `peer` may name other clients.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.contains(peer.to_canonical())
    }

    /// Removes the fields in which only trusted proxies may name a client, but not those that
    /// `is_kept` selects.
    pub fn strip_claims(&self, headers: &mut HeaderMap, is_kept: impl Fn(&HeaderName) -> bool) {
        let client = match &self.settings.forwarded_header {
            ForwardedHeader::Single(name) => Some(name),
            _ => None,
        };
        let user = match &self.settings.user {
            Some(UserSource::Header(name)) => Some(name),
            _ => None,
        };
        for name in client.into_iter().chain(user).filter(|name| !is_kept(name)) {
            headers.remove(name);
        }
    }

    /// The client of a request on a route. Without a route, keys have no route name and
    /// no parameters. `now` is the wall clock's time, by which tokens expire.
    pub fn subject<'r, 'q>(
        &'r self,
        request: &'q RequestView<'q>,
        route: Option<RouteView<'r>>,
        now: Timestamp,
    ) -> Subject<'r, 'q> {
        Subject {
            clients: self,
            request,
            route,
            secret: self.secret.get(),
            now,
            client_ip: OnceCell::new(),
            place: OnceCell::new(),
            class: OnceCell::new(),
            agent: OnceCell::new(),
            claims: OnceCell::new(),
            identified: OnceCell::new(),
            password: OnceCell::new(),
            named_key: None,
        }
    }
}

/// What verifies the tokens of clients, if they have any.
#[cfg(feature = "jwt")]
fn verifier<'k>(
    settings: &ClientSettings,
    keys: impl IntoIterator<Item = &'k KeyExpr>,
    secret: &SharedSecret,
) -> Option<Box<dyn VerifyToken>> {
    match &settings.user {
        Some(UserSource::Jwt(jwt)) => {
            Some(Box::new(TokenVerifier::new(jwt.clone(), claims_in(keys), secret.get())))
        }
        Some(UserSource::Header(_) | UserSource::Basic(_)) | None => None,
    }
}

/// Without the feature `jwt`, no settings have keys for tokens.
#[cfg(not(feature = "jwt"))]
fn verifier<'k>(
    _: &ClientSettings,
    _: impl IntoIterator<Item = &'k KeyExpr>,
    _: &SharedSecret,
) -> Option<Box<dyn VerifyToken>> {
    None
}

/// The claims that `keys` name. Only these are kept of a token.
#[cfg(feature = "jwt")]
fn claims_in<'k>(keys: impl IntoIterator<Item = &'k KeyExpr>) -> Vec<Box<str>> {
    let mut claims = Vec::new();
    for key in keys {
        key.visit(&mut |key| {
            if let KeyExpr::Jwt(claim) = key {
                claims.push(claim.clone());
            }
        });
    }
    claims
}

/// A request `'q` together with its client under the settings `'r`: the input
/// of keys. Expensive parts are computed once, when they are first needed.
#[derive(Debug)]
pub struct Subject<'r, 'q> {
    pub(super) clients: &'r Clients,
    pub(super) request: &'q RequestView<'q>,
    pub(super) route: Option<RouteView<'r>>,
    pub(super) secret: Secret,
    pub(super) now: Timestamp,
    client_ip: OnceCell<IpAddr>,
    place: OnceCell<Place>,
    pub(super) class: OnceCell<Result<&'r str, Lack>>,
    pub(super) agent: OnceCell<Result<&'r str, Lack>>,
    claims: OnceCell<Result<Arc<Claims>, Lack>>,
    pub(super) identified: OnceCell<Identified<'r>>,
    pub(super) password: OnceCell<PasswordAnswer>,
    /// The text of its API key, if that is not read from the request.
    pub(super) named_key: Option<&'q [u8]>,
}

impl<'r, 'q> Subject<'r, 'q> {
    /// When the decision must be made, see [`RequestView::with_answer_by`].
    pub(crate) const fn answer_by(&self) -> Option<Instant> {
        self.request.answer_by()
    }

    /// The values of the route's parameters in the request's path.
    pub(crate) fn params(&self) -> Params<'q>
    where
        'r: 'q,
    {
        self.params_of(self.request.path())
    }

    /// The values of the route's parameters in another path.
    pub(super) fn params_of<'p>(&self, path: &'p str) -> Params<'p>
    where
        'r: 'p,
    {
        self.route
            .map_or_else(Params::none, |route| Params::new(route.path, route.path_match, path))
    }

    /// The client's address: the peer's, or the one that trusted proxies name.
    pub fn client_ip(&self) -> IpAddr {
        *self.client_ip.get_or_init(|| self.find_client().0)
    }

    /// Whether the client's address was used.
    pub fn has_found_client(&self) -> bool {
        self.client_ip.get().is_some()
    }

    /// How the client's address is known.
    pub fn address_origin(&self) -> AddressOrigin {
        self.find_client().1
    }

    /// What the peer says of its client in a forwarding field, if it is not trusted.
    #[inline]
    pub fn unbelieved(&self) -> Option<Unbelieved> {
        unbelieved(self.request, &self.clients.trusted)
    }

    fn find_client(&self) -> (IpAddr, AddressOrigin) {
        let Clients { trusted, settings, .. } = self.clients;
        client_ip(self.request, trusted, &settings.forwarded_header)
    }

    /// The place of the client's address.
    pub(super) fn place(&self) -> &Place {
        self.place.get_or_init(|| geo::place_of(&self.clients.settings.geo, self.client_ip()))
    }

    /// Whether the peer is a proxy that may name the clients that it forwards for.
    pub(super) fn is_from_trusted_peer(&self) -> bool {
        self.request.forwarding() != Forwarding::Never
            && self.clients.trusted.contains(self.request.peer())
    }

    /// The claims of the request's bearer token, if the token is valid now.
    pub(super) fn claims(&self) -> Result<&Claims, Lack> {
        let verified = self.claims.get_or_init(|| {
            let tokens = self.clients.tokens.as_ref().ok_or(Lack::Absent)?;
            let token = fields::bearer(self.request.fields())?;
            if self.is_key_beside(token) {
                return Err(Lack::Absent);
            }
            tokens.verify(token, self.now).map_err(|fault| match fault {
                // If bearer tokens can be API keys, this is an API key.
                Fault::Opaque if self.may_be_key(token) => Lack::Absent,
                Fault::Opaque | Fault::Invalid => Lack::Invalid,
                Fault::Unverifiable => Lack::Unverifiable,
                Fault::Ambiguous => Lack::Ambiguous,
            })
        });
        verified.as_deref().map_err(|lack| *lack)
    }

    /// The fault of the request's bearer token, if the token gives no key.
    pub(super) fn token_fault(&self) -> TokenFault {
        match fields::bearer(self.request.fields()) {
            Err(Lack::Absent) => TokenFault::Missing,
            Ok(token) if token.len() > MAX_TOKEN => TokenFault::TooLong,
            Ok(_) | Err(_) => TokenFault::Invalid,
        }
    }
}
