//! From a request and a policy to the key of a counter.
//!
//! A key is the policy's counter of a principal, which is a keyed digest of the
//! values that the policy's key expression names. Every value is preceded by a tag that says what it is, so
//! an address `x` and a header `x` are never the same key. The tags, and the
//! order in which things are digested, are a format: counters in a shared store
//! are lost when they change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderName, HeaderValue};

use super::cidr;
use super::fields::Lack;
use super::value::{Single, Tag};
use super::{ClientSettings, Exempt, KeyExpr, MissingKey, Policy, Preflights, Subject};
use crate::digest::{Digest, Key, Principal, Secret};
use crate::policy::TokenFault;

/// Under which key a policy counts a request, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFor {
    /// Under this one.
    Key(Key),
    /// Not at all: the policy exempts the request, or skips those without the key.
    Exempt,
    /// The request lacks the key, and the policy refuses those.
    Denied,
    /// Backends may read different keys in the request.
    Ambiguous,
    /// The request has a bearer token that cannot be verified yet, and the policy
    /// refuses those without a good one.
    Unverifiable,
    /// The request lacks the bearer token that is or names the key, and the policy
    /// refuses those.
    Unauthorized(TokenFault),
}

impl Subject<'_, '_> {
    /// Under which key `policy` counts this request, if at all.
    pub fn key(&self, policy: &Policy) -> KeyFor {
        let spares_preflights = !matches!(policy.preflights, Preflights::Counted);
        if spares_preflights && self.is_preflight() || self.is_exempt(&policy.exempt) {
            return KeyFor::Exempt;
        }
        let empty = self.secret.digest();
        let key = |digest: Digest| Key {
            principal: Principal::from_bits(digest.finish()),
            counter: policy.counter,
        };
        if self.is_plan_ambiguous(policy) {
            return KeyFor::Ambiguous;
        }
        match (self.with(&policy.key, empty), policy.missing_key) {
            (Ok(digest), _) => KeyFor::Key(key(digest)),
            (Err(Lack::Ambiguous), _) => KeyFor::Ambiguous,
            (Err(Lack::Unverifiable), MissingKey::Deny | MissingKey::Unauthorized) => {
                KeyFor::Unverifiable
            }
            (Err(_), MissingKey::Deny) => KeyFor::Denied,
            (Err(_), MissingKey::Unauthorized) => KeyFor::Unauthorized(self.token_fault()),
            (Err(Lack::Absent), MissingKey::Skip) => KeyFor::Exempt,
            // A token that does not hold here may hold at a backend with another
            // clock, and one that cannot be verified yet may be good. To skip it
            // would let its client out of the limit.
            (Err(Lack::Invalid | Lack::Unverifiable), MissingKey::Skip)
            | (Err(_), MissingKey::Ip) => KeyFor::Key(key(self.with_ip(empty, Tag::StandIn))),
        }
    }

    /// What `key` says of this request, for choosing an endpoint. It is no secret
    /// that a client could guess, and so the same everywhere.
    pub fn affinity(&self, key: &KeyExpr) -> Option<u64> {
        let bits = self.with(key, Secret::from_bytes([0; 16]).digest()).ok()?.finish();
        Some(u64::try_from(bits & u128::from(u64::MAX)).expect("64 bits fit"))
    }

    /// `digest` with what `key` says of this request.
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

    fn is_exempt(&self, exempt: &Exempt) -> bool {
        let has = |(name, wanted): &(HeaderName, HeaderValue)| {
            let mut lines = self.request.headers().get_all(name).iter();
            lines.any(|line| are_equal(&self.secret, line.as_bytes(), wanted.as_bytes()))
        };
        self.method().is_ok_and(|method| exempt.methods.contains(method))
            || exempt.headers.iter().any(has)
            || !exempt.places.is_empty() && self.place().is_one_of(&exempt.places)
            || !exempt.ips.is_empty() && cidr::any_contains(&exempt.ips, self.client_ip())
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

/// Whether two values are the same. A value that exempts is a secret: comparing
/// keyed digests takes a time that tells nothing about where two values differ.
fn are_equal(secret: &Secret, one: &[u8], other: &[u8]) -> bool {
    let digest = |value| {
        let mut digest = secret.digest();
        digest.value(value);
        digest.finish()
    };
    digest(one) == digest(other)
}

/// `digest` with the network in which `address` is.
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
