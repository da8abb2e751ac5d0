//! STUB of the agreed interface; the bodies and the files' layout are the rules' author's.

use std::net::IpAddr;

use super::{ClientSettings, Policy, Route};
use crate::digest::{Key, Secret};
use crate::request::RequestView;
use crate::time::Timestamp;

/// Routes, and how clients are recognised: what a snapshot holds of the rules.
#[derive(Debug)]
pub struct Rules {
    routes: Vec<Route>,
    client: ClientSettings,
    secret: Secret,
}

/// The first route that matches, and the parameters of its path.
#[derive(Debug)]
pub struct Match<'a> {
    /// The route's index in the file.
    pub index: usize,
    /// The path's parameters.
    pub params: Params<'a>,
}

/// Path parameters by name.
#[derive(Debug, Default)]
pub struct Params<'a>(std::marker::PhantomData<&'a str>);

impl Rules {
    /// STUB
    pub fn new(routes: Vec<Route>, client: ClientSettings, secret: Secret) -> Self {
        Self { routes, client, secret }
    }

    /// The first route in file order that matches.
    pub fn select<'r>(&self, request: &'r RequestView<'_>) -> Option<Match<'r>> {
        let _ = (&self.routes, &self.client, &self.secret, request);
        None
    }

    /// Who asks. `now` is for tokens that expire.
    pub fn subject<'r>(
        &'r self,
        request: &'r RequestView<'r>,
        matched: Match<'r>,
        now: Timestamp,
    ) -> Subject<'r> {
        Subject { rules: self, request, matched, now }
    }
}

/// A request together with who asks: what keys are made of. Costly parts are
/// computed when first asked for, and once.
#[derive(Debug)]
pub struct Subject<'r> {
    rules: &'r Rules,
    request: &'r RequestView<'r>,
    matched: Match<'r>,
    now: Timestamp,
}

impl Subject<'_> {
    /// The route that matched.
    pub fn route(&self) -> &Route {
        &self.rules.routes[self.matched.index]
    }

    /// The client's address: the peer, or what trusted proxies say.
    pub fn client_ip(&self) -> IpAddr {
        let _ = self.now;
        self.request.peer
    }

    /// Under which key `policy` counts this request, if at all.
    pub fn key(&self, policy: &Policy) -> KeyFor {
        let _ = policy;
        KeyFor::Exempt
    }
}

/// Under which key a policy counts a request, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFor {
    /// Under this one.
    Key(Key),
    /// Not at all: the policy exempts the request, or skips those without the key.
    Exempt,
    /// The request lacks the key, and the policy refuses those.
    Denied,
}
