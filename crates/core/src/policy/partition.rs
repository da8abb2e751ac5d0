//! Derives the key of a counter from a request and a policy.
//!
//! A key identifies the policy's counter of a principal. A principal is a keyed digest of
//! the values that the policy's key expression names. Each value is preceded by a tag for
//! its kind, so an address `x` and a header `x` never have the same key. The tags, and the
//! order in which the values are digested, are a format: if they change, the counters in a
//! shared store are lost.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderName, HeaderValue};

use super::cidr;
use super::conditions::Lines;
use super::fields::Lack;
use super::value::{Single, Tag};
use super::{ClientSettings, Clients, Exempt, KeyExpr, MissingKey, Policy, Preflights, Subject};
use crate::digest::{Digest, Key, Principal, Secret};
use crate::policy::TokenFault;

/// The key under which a policy counts a request, if it counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFor {
    /// The key of the counter.
    Key(Key),
    /// The policy does not judge the request.
    Exempt(Exemption),
    /// The request lacks the key, and the policy refuses such requests.
    Denied,
    /// Backends may read different keys in the request.
    Ambiguous,
    /// The request has a bearer token that cannot be verified yet, and the policy
    /// refuses requests without a valid one.
    Unverifiable,
    /// The request lacks the bearer token that is the key or names it, and the policy
    /// refuses such requests.
    Unauthorized(TokenFault),
}

/// Why a policy does not judge a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exemption {
    /// The request is a preflight.
    Preflight,
    /// The policy exempts its method.
    Method,
    /// The policy exempts requests with this field, by its index in the policy.
    Header(usize),
    /// The policy exempts the place of the client's address.
    Place,
    /// The policy exempts the class of the client.
    Class,
    /// The policy exempts the client's address.
    Address,
    /// The request lacks the key, and the policy skips such requests.
    NoKey,
}

/// The principal of a request by the key expression that was evaluated last. Policies of a route
/// often have the same key, whose digest is computed once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastPrincipal<'p>(Option<(&'p KeyExpr, Principal)>);

impl Subject<'_, '_> {
    /// The key under which `policy` counts this request, if it counts it.
    pub fn key(&self, policy: &Policy) -> KeyFor {
        self.key_after(policy, &mut LastPrincipal::default())
    }

    /// The same. `last` is of this request: it is kept from one policy to the next.
    pub(crate) fn key_after<'p>(&self, policy: &'p Policy, last: &mut LastPrincipal<'p>) -> KeyFor {
        let spares_preflights = !matches!(policy.preflights, Preflights::Counted);
        if spares_preflights && self.is_preflight() {
            return KeyFor::Exempt(Exemption::Preflight);
        }
        if let Some(exemption) = self.exemption(&policy.exempt) {
            return KeyFor::Exempt(exemption);
        }
        let key = |principal| KeyFor::Key(Key { principal, counter: policy.counter });
        if self.is_plan_ambiguous(policy) || self.is_estimate_ambiguous(policy) {
            return KeyFor::Ambiguous;
        }
        match (self.principal(&policy.key, last), policy.missing_key) {
            (Ok(principal), _) => key(principal),
            (Err(Lack::Ambiguous), _) => KeyFor::Ambiguous,
            (Err(Lack::Unverifiable), MissingKey::Deny | MissingKey::Unauthorized) => {
                KeyFor::Unverifiable
            }
            (Err(_), MissingKey::Deny) => KeyFor::Denied,
            (Err(_), MissingKey::Unauthorized) => KeyFor::Unauthorized(self.token_fault()),
            (Err(Lack::Absent), MissingKey::Skip) => KeyFor::Exempt(Exemption::NoKey),
            // A backend with another clock may accept a token that is not valid here, and a
            // token that cannot be verified yet may be valid. If the policy skipped such a
            // request, its client would evade the limit.
            (Err(Lack::Invalid | Lack::Unverifiable), MissingKey::Skip)
            | (Err(_), MissingKey::Ip) => key(self.network(Tag::StandIn)),
        }
    }

    /// The principal of this request by `key`.
    fn principal<'p>(
        &self,
        key: &'p KeyExpr,
        last: &mut LastPrincipal<'p>,
    ) -> Result<Principal, Lack> {
        match last.0 {
            Some((known, principal)) if known == key => Ok(principal),
            _ => {
                let digest = self.with(key, self.secret.digest())?;
                let principal = Principal::from_bits(digest.finish());
                last.0 = Some((key, principal));
                Ok(principal)
            }
        }
    }

    /// A hash of the value of `key` in this request, for the choice of an endpoint. It is
    /// not secret, and so it is the same on all nodes.
    pub fn affinity(&self, key: &KeyExpr) -> Option<u64> {
        self.public_hash(key, Secret::from_bytes([0; 16]))
    }

    /// A hash of the value of `key` in this request, for the choice of an upstream. It is the same
    /// on all nodes, and does not depend on the choice of the endpoint.
    pub fn split_hash(&self, key: &KeyExpr) -> Option<u64> {
        self.public_hash(key, Secret::from_bytes(*b"tollgate: split "))
    }

    fn public_hash(&self, key: &KeyExpr, secret: Secret) -> Option<u64> {
        let bits = self.with(key, secret.digest()).ok()?.finish();
        Some(u64::try_from(bits & u128::from(u64::MAX)).expect("64 bits fit"))
    }

    /// `digest` with the value of `key` in this request.
    fn with(&self, key: &KeyExpr, digest: Digest) -> Result<Digest, Lack> {
        match key {
            KeyExpr::Ip => Ok(self.with_ip(digest, Tag::Ip)),
            KeyExpr::First(keys) => self.first(keys, |key| self.with(key, digest)),
            KeyExpr::All(keys) => {
                let start = with_value(digest, Tag::All, b"");
                keys.iter().try_fold(start, |digest, key| self.with(key, digest))
            }
            _ => self.single(key).map(|single| with_single(digest, &single)),
        }
    }

    fn with_ip(&self, digest: Digest, tag: Tag) -> Digest {
        with_network(digest, tag, self.client_ip(), &self.clients.settings)
    }

    fn network(&self, tag: Tag) -> Principal {
        Principal::from_bits(self.with_ip(self.secret.digest(), tag).finish())
    }

    /// The client's address as a principal.
    pub fn address(&self) -> Principal {
        self.network(Tag::Ip)
    }

    /// Whether the request has the key of `policy`. If it has none, the client's address can
    /// take its place.
    pub fn has_key(&self, policy: &Policy) -> bool {
        self.with(&policy.key, self.secret.digest()).is_ok()
    }

    fn exemption(&self, exempt: &Exempt) -> Option<Exemption> {
        let has = |(name, wanted): &(HeaderName, HeaderValue)| {
            self.lines_with(name, wanted) != Lines::None
        };
        if self.has_one_of_methods(&exempt.methods) == Ok(true) {
            return Some(Exemption::Method);
        }
        if let Some(index) = exempt.headers.iter().position(has) {
            return Some(Exemption::Header(index));
        }
        if self.is_in_one_of(&exempt.places) {
            return Some(Exemption::Place);
        }
        if !exempt.classes.is_empty()
            && self.class().is_some_and(|class| exempt.classes.iter().any(|it| &**it == class))
        {
            return Some(Exemption::Class);
        }
        let is_exempt = !exempt.ips.is_empty() && cidr::any_contains(&exempt.ips, self.client_ip());
        is_exempt.then_some(Exemption::Address)
    }
}

impl Clients {
    /// The first address of the network that counts as one client with this address.
    pub fn network(&self, address: IpAddr) -> IpAddr {
        network_of(address, self.settings())
    }

    /// The principal of a value that an application passes itself. No request has it.
    pub fn custom(&self, value: &[u8]) -> Principal {
        let digest = with_value(self.secret().digest(), Tag::Custom, value);
        Principal::from_bits(digest.finish())
    }
}

pub(super) fn with_value(mut digest: Digest, tag: Tag, value: &[u8]) -> Digest {
    digest.tag(tag as u8);
    digest.value(value);
    digest
}

pub(super) fn with_single(mut digest: Digest, Single { tag, name, value }: &Single<'_>) -> Digest {
    digest.tag(*tag as u8);
    if let Some(name) = name {
        digest.value(name.as_bytes());
    }
    digest.value(value);
    digest
}

/// `digest` with the network that contains `address`.
pub(super) fn with_network(
    digest: Digest,
    tag: Tag,
    address: IpAddr,
    settings: &ClientSettings,
) -> Digest {
    match network_of(address, settings) {
        IpAddr::V4(v4) => with_value(digest, tag, &v4.octets()),
        IpAddr::V6(v6) => with_value(digest, tag, &v6.octets()),
    }
}

/// The network that counts as one client.
fn network_of(address: IpAddr, settings: &ClientSettings) -> IpAddr {
    let cut = |longest: u8, prefix: u8| u32::from(longest.saturating_sub(prefix));
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(cut(32, settings.ipv4_prefix)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(cut(128, settings.ipv6_prefix)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests;
