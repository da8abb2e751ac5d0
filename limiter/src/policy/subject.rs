//! A request together with the client that sends it.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;

use super::cidr::CidrSet;
use super::client_ip::client_ip;
use super::fields::{self, Lack};
use super::geo::{self, Place};
use super::jwt::{Claims, Fault, TokenVerifier};
use super::{
    ClientSettings, ForwardedHeader, KeyExpr, KeyTextError, KeyTexts, TokenFault, TokenKeys,
    UserSource,
};
use crate::digest::{Principal, Secret, SharedSecret};
use crate::request::{Params, PathMatch, PathPattern, RequestView};
use crate::time::Timestamp;

/// How clients are recognised.
#[derive(Debug)]
pub struct Clients {
    pub(super) settings: ClientSettings,
    pub(super) trusted: CidrSet,
    tokens: Option<TokenVerifier>,
    secret: Arc<SharedSecret>,
}

/// What policies may know of the route on which they judge a request.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'r> {
    /// Its name.
    pub name: &'r str,
    /// The pattern that the request's path matches.
    pub path: &'r PathPattern,
    /// How paths are compared with it.
    pub path_match: PathMatch,
}

impl Clients {
    /// Recognises clients by these settings. Of a token, only the claims
    /// that `keys` name are kept. Keys are digested under `secret`, as it is at the time: only
    /// nodes with the same secret make the same keys.
    pub fn new<'k>(
        settings: ClientSettings,
        keys: impl IntoIterator<Item = &'k KeyExpr>,
        secret: Arc<SharedSecret>,
    ) -> Self {
        let tokens = match &settings.user {
            Some(UserSource::Jwt(jwt)) => {
                Some(TokenVerifier::new(jwt.clone(), claims_in(keys), secret.get()))
            }
            Some(UserSource::Header(_)) | None => None,
        };
        Self { trusted: CidrSet::new(&settings.trusted_proxies), settings, tokens, secret }
    }

    /// The principal that policies with the key `key` count under `text`, see
    /// [`KeyTexts::principal`].
    ///
    /// # Errors
    /// If no request can have this key, or it is not written as it should be.
    pub fn principal(
        &self,
        key: &KeyExpr,
        text: &str,
        is_route: &dyn Fn(&str) -> bool,
    ) -> Result<Principal, KeyTextError> {
        let texts = KeyTexts { client: &self.settings, secret: self.secret.get(), is_route };
        texts.principal(key, text)
    }

    /// The settings.
    pub const fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    /// Whether proxies tell each other in `Forwarded` which client they speak for.
    pub fn speaks_forwarded(&self) -> bool {
        self.settings.forwarded_header == ForwardedHeader::Forwarded
    }

    /// Whether any token can be valid.
    pub fn verifies_tokens(&self) -> bool {
        self.settings.token_keys().is_some_and(TokenKeys::can_verify)
    }

    /// Whether what `peer` says about other clients is believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.contains(peer.to_canonical())
    }

    /// Removes the fields in which only trusted proxies may name a client.
    pub fn strip_claims(&self, headers: &mut HeaderMap) {
        if let ForwardedHeader::Single(name) = &self.settings.forwarded_header {
            headers.remove(name);
        }
        if let Some(UserSource::Header(name)) = &self.settings.user {
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
        let (client_ip, place, claims) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        let secret = self.secret.get();
        Subject { clients: self, request, route, secret, now, client_ip, place, claims }
    }
}

/// The claims that `keys` name: all that is kept of a token.
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
    now: Timestamp,
    client_ip: OnceCell<IpAddr>,
    place: OnceCell<Place>,
    claims: OnceCell<Result<Arc<Claims>, Lack>>,
}

impl<'r, 'q> Subject<'r, 'q> {
    /// The parameters that the route finds in the request's path.
    pub fn params(&self) -> Params<'q>
    where
        'r: 'q,
    {
        self.params_of(self.request.path())
    }

    /// The parameters that the route finds in another path.
    pub(super) fn params_of<'p>(&self, path: &'p str) -> Params<'p>
    where
        'r: 'p,
    {
        self.route
            .map_or_else(Params::none, |route| Params::new(route.path, route.path_match, path))
    }

    /// The client's address: the peer, or what trusted proxies say.
    pub fn client_ip(&self) -> IpAddr {
        *self.client_ip.get_or_init(|| {
            client_ip(self.request, &self.clients.trusted, &self.clients.settings.forwarded_header)
        })
    }

    /// The place of the client's address.
    pub(super) fn place(&self) -> &Place {
        self.place.get_or_init(|| geo::place_of(&self.clients.settings.geo, self.client_ip()))
    }

    /// Whether the peer is a proxy that may name the clients that it forwards for.
    pub(super) fn is_from_trusted_peer(&self) -> bool {
        self.request.may_forward() && self.clients.trusted.contains(self.request.peer())
    }

    /// What the request's bearer token claims, if the token is valid now.
    pub(super) fn claims(&self) -> Result<&Claims, Lack> {
        let verified = self.claims.get_or_init(|| {
            let tokens = self.clients.tokens.as_ref().ok_or(Lack::Absent)?;
            let token = fields::bearer(self.request.headers())?;
            tokens.verify(token, self.now).map_err(|fault| match fault {
                // If bearer tokens can be API keys, this is an API key.
                Fault::Opaque if self.clients.settings.api_key.bearer => Lack::Absent,
                Fault::Opaque | Fault::Invalid => Lack::Invalid,
                Fault::Unverifiable => Lack::Unverifiable,
                Fault::Ambiguous => Lack::Ambiguous,
            })
        });
        verified.as_deref().map_err(|lack| *lack)
    }

    /// What is wrong with the request's bearer token, which gives no key.
    pub(super) fn token_fault(&self) -> TokenFault {
        match fields::bearer(self.request.headers()) {
            Err(Lack::Absent) => TokenFault::Missing,
            Ok(_) | Err(_) => TokenFault::Invalid,
        }
    }
}
