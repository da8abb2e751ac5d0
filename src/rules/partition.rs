//! From a request and a policy to the key of a counter.
//!
//! A key is a keyed digest of the policy's identity and of the values that its
//! expression names. Every value is preceded by a tag that says what it is, so
//! an address `x` and a header `x` are never the same key. The tags, and the
//! order in which things are digested, are a format: counters in a shared store
//! are lost when they change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::{HeaderName, HeaderValue, Method};

use super::cidr;
use super::fields::{self, Lack};
use super::{
    ApiKeySettings, ClientSettings, Exempt, KeyExpr, MissingKey, Policy, Subject, UserSource,
};
use crate::algorithm::Algorithm;
use crate::digest::{Digest, Key, Secret};

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

/// What the value behind it is.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Ip = 1,
    ApiKey = 2,
    User = 3,
    Cookie = 4,
    Header = 5,
    Query = 6,
    Jwt = 7,
    Param = 8,
    Path = 9,
    Method = 10,
    Host = 11,
    Route = 12,
    Global = 13,
    All = 14,
    /// The client's address in place of a missing key. Not [`Tag::Ip`]: one who
    /// has an address for a key shares no counter with one who has no key.
    StandIn = 15,
}

impl Subject<'_, '_> {
    /// Under which key `policy` counts this request, if at all.
    pub fn key(&self, policy: &Policy) -> KeyFor {
        if self.is_exempt(&policy.exempt) {
            return KeyFor::Exempt;
        }
        let identity = identity(&self.rules.secret, policy);
        match (self.with(&policy.key, identity), policy.missing_key) {
            (Ok(digest), _) => KeyFor::Key(digest.finish()),
            (Err(_), MissingKey::Deny) => KeyFor::Denied,
            (Err(Lack::Absent), MissingKey::Skip) => KeyFor::Exempt,
            // Skipping what is ambiguous would let a client out of its limit who
            // sends its key twice, to a backend that is content with one of them.
            (Err(Lack::Ambiguous), MissingKey::Skip) | (Err(_), MissingKey::Ip) => {
                KeyFor::Key(self.with_ip(identity, Tag::StandIn).finish())
            }
        }
    }

    /// `digest` with what `key` says of this request.
    fn with(&self, key: &KeyExpr, digest: Digest) -> Result<Digest, Lack> {
        let request = self.request;
        match key {
            KeyExpr::Ip => Ok(self.with_ip(digest, Tag::Ip)),
            KeyExpr::ApiKey => self.with_api_key(digest),
            KeyExpr::User => self.with_user(digest),
            KeyExpr::Cookie(name) => fields::cookie(request.headers, name)
                .map(|value| with_named(digest, Tag::Cookie, name, value)),
            KeyExpr::Header(name) => fields::header(request.headers, name)
                .map(|value| with_named(digest, Tag::Header, name.as_str(), value)),
            KeyExpr::Query(name) => fields::query(request.query, name)
                .map(|value| with_named(digest, Tag::Query, name, &value)),
            KeyExpr::Jwt(claim) => {
                self.claim(claim).map(|value| with_named(digest, Tag::Jwt, claim, value.as_bytes()))
            }
            KeyExpr::Param(name) => self
                .params()
                .get(name)
                .map(|value| with_named(digest, Tag::Param, name, value.as_bytes()))
                .ok_or(Lack::Absent),
            KeyExpr::Path => Ok(with_value(digest, Tag::Path, request.path.as_bytes())),
            KeyExpr::Method => {
                Ok(with_value(digest, Tag::Method, request.method.as_str().as_bytes()))
            }
            KeyExpr::Host if request.host.is_empty() => Err(Lack::Absent),
            KeyExpr::Host => Ok(with_value(digest, Tag::Host, request.host.as_bytes())),
            KeyExpr::Route => Ok(with_value(digest, Tag::Route, self.route().name.as_bytes())),
            KeyExpr::Global => Ok(with_value(digest, Tag::Global, b"")),
            KeyExpr::First(keys) => self.with_first(keys, digest),
            KeyExpr::All(keys) => {
                let start = with_value(digest, Tag::All, b"");
                keys.iter().try_fold(start, |digest, key| self.with(key, digest))
            }
        }
    }

    fn with_first(&self, keys: &[KeyExpr], digest: Digest) -> Result<Digest, Lack> {
        let mut lack = Lack::Absent;
        for key in keys {
            match self.with(key, digest) {
                Ok(digest) => return Ok(digest),
                Err(found) => lack = lack.max(found),
            }
        }
        Err(lack)
    }

    fn with_ip(&self, digest: Digest, tag: Tag) -> Digest {
        match network_of(self.client_ip(), &self.rules.client) {
            IpAddr::V4(v4) => with_value(digest, tag, &v4.octets()),
            IpAddr::V6(v6) => with_value(digest, tag, &v6.octets()),
        }
    }

    /// The same key is the same client, wherever in the request it stands.
    fn with_api_key(&self, digest: Digest) -> Result<Digest, Lack> {
        let ApiKeySettings { headers, bearer, query } = &self.rules.client.api_key;
        let (fields, uri_query) = (self.request.headers, self.request.query);
        let with = |value: &[u8]| with_value(digest, Tag::ApiKey, value);
        for name in headers {
            match fields::header(fields, name) {
                Err(Lack::Absent) => {}
                found => return found.map(with),
            }
        }
        if *bearer {
            match fields::bearer(fields) {
                Err(Lack::Absent) => {}
                found => return found.map(with),
            }
        }
        let name = query.as_deref().ok_or(Lack::Absent)?;
        fields::query(uri_query, name).map(|value| with(&value))
    }

    fn with_user(&self, digest: Digest) -> Result<Digest, Lack> {
        let user = match &self.rules.client.user {
            Some(UserSource::Jwt(settings)) => self.claim(&settings.claim)?.as_bytes(),
            Some(UserSource::Header(name)) if self.rules.trusted.contains(self.request.peer) => {
                fields::header(self.request.headers, name)?
            }
            Some(UserSource::Header(_)) | None => return Err(Lack::Absent),
        };
        Ok(with_value(digest, Tag::User, user))
    }

    fn claim(&self, claim: &str) -> Result<&str, Lack> {
        self.claims().and_then(|claims| claims.get(claim)).ok_or(Lack::Absent)
    }

    fn is_exempt(&self, exempt: &Exempt) -> bool {
        let has = |(name, wanted): &(HeaderName, HeaderValue)| {
            let mut lines = self.request.headers.get_all(name).iter();
            lines.any(|line| are_equal(&self.rules.secret, line.as_bytes(), wanted.as_bytes()))
        };
        self.is_preflight()
            || exempt.methods.contains(self.request.method)
            || exempt.headers.iter().any(has)
            || !exempt.ips.is_empty() && cidr::any_contains(&exempt.ips, self.client_ip())
    }

    /// A browser's question before a request of another origin (Fetch Standard,
    /// section 3.2.2): no person or program decided to send it.
    fn is_preflight(&self) -> bool {
        let headers = self.request.headers;
        self.request.method == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }
}

/// What makes a policy the same policy over reloads: its name, how it counts,
/// and its window. Not its limit, so that a changed limit keeps the counters.
fn identity(secret: &Secret, policy: &Policy) -> Digest {
    let (kind, buckets) = match &policy.algorithm {
        Algorithm::SlidingWindow(_) => (1, 1),
        Algorithm::SubWindows(sub_windows) => (2, sub_windows.buckets()),
        Algorithm::FixedWindow(fixed) if fixed.zone().is_some() => (8, 1),
        Algorithm::FixedWindow(_) => (3, 1),
        Algorithm::TokenBucket(_) => (4, 1),
        Algorithm::SlidingLog(_) => (5, 1),
        Algorithm::LeakyBucket(_) => (6, 1),
        Algorithm::Concurrency(_) => (7, 1),
    };
    let mut digest = secret.digest();
    digest.value(policy.name.as_bytes());
    digest.tag(kind);
    digest.value(&buckets.to_be_bytes());
    digest.value(&policy.algorithm.window().as_micros().to_be_bytes());
    if let Algorithm::FixedWindow(fixed) = &policy.algorithm
        && let Some(zone) = fixed.zone()
    {
        digest.value(zone.as_bytes());
    }
    digest
}

fn with_value(mut digest: Digest, tag: Tag, value: &[u8]) -> Digest {
    digest.tag(tag as u8);
    digest.value(value);
    digest
}

fn with_named(digest: Digest, tag: Tag, name: &str, value: &[u8]) -> Digest {
    let mut digest = with_value(digest, tag, name.as_bytes());
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
