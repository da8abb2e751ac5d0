//! One rule of an access list.

use std::collections::HashSet;
use std::net::IpAddr;

use http::{HeaderName, HeaderValue, Method};
use ipnet::IpNet;

use crate::digest::Secret;
use crate::policy::cidr::CidrSet;
use crate::policy::conditions::Lines;
use crate::policy::fields::Lack;
use crate::policy::{ClientSettings, GeoCode, KeyExpr, KeyTexts, Subject};

/// What a rule does with the requests that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessEffect {
    /// The list allows them.
    Allow,
    /// The list denies them.
    Deny,
}

/// A rule. It matches a request that meets all of its conditions; a rule without conditions
/// matches every request.
///
/// What is not certain is not decided in favour of the request:
/// - Backends may read a value differently, or its token cannot be verified yet: neither rule
///   decides, and the request is refused.
/// - A token is not valid: a rule that allows does not match. A rule that denies does, because a
///   backend with another clock may accept the token.
///
/// A value that is absent meets no condition, and neither does a place that is not known.
#[derive(Debug)]
pub struct AccessRule {
    /// What it does with requests that it matches.
    pub effect: AccessEffect,
    conditions: Vec<Condition>,
}

/// A condition on a request. One of its values suffices.
#[derive(Debug)]
enum Condition {
    Address(CidrSet),
    Place(Vec<GeoCode>),
    Method(Vec<Method>),
    Header(HeaderName, HeaderValue),
    Value(KeyExpr, HashSet<Box<[u8]>>),
}

/// Whether a rule matches a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    Doubtful(Doubt),
}

/// Why it is not known whether a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Backends may read different values.
    Ambiguous,
    /// The token cannot be verified yet.
    Unverifiable,
}

impl AccessRule {
    /// A rule that matches every request.
    pub const fn new(effect: AccessEffect) -> Self {
        Self { effect, conditions: Vec::new() }
    }

    /// Clients with an address in one of these networks.
    #[must_use]
    pub fn from_networks(self, networks: &[IpNet]) -> Self {
        self.with(Condition::Address(CidrSet::new(networks)))
    }

    /// Clients in one of these places, which are of one kind.
    #[must_use]
    pub fn in_places(self, places: Vec<GeoCode>) -> Self {
        self.with(Condition::Place(places))
    }

    /// Requests with one of these methods.
    #[must_use]
    pub fn with_methods(self, methods: Vec<Method>) -> Self {
        self.with(Condition::Method(methods))
    }

    /// Requests whose field `name` has exactly this value.
    #[must_use]
    pub fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        self.with(Condition::Header(name, value))
    }

    /// Requests in which the word `key` has one of these [exact values](exact_value).
    #[must_use]
    pub fn with_values(self, key: KeyExpr, values: HashSet<Box<[u8]>>) -> Self {
        self.with(Condition::Value(key, values))
    }

    fn with(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// The words whose values it compares.
    pub(super) fn keys(&self) -> impl Iterator<Item = &KeyExpr> {
        self.conditions.iter().filter_map(|condition| match condition {
            Condition::Value(key, _) => Some(key),
            _ => None,
        })
    }

    /// The header fields that it compares, beside those that are keys.
    pub(super) fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.conditions.iter().filter_map(|condition| match condition {
            Condition::Header(name, _) => Some(name),
            _ => None,
        })
    }

    /// The kinds of places that it compares.
    pub(super) fn places(&self) -> impl Iterator<Item = &KeyExpr> {
        self.conditions.iter().filter_map(|condition| match condition {
            Condition::Place(places) => places.first().map(GeoCode::kind_of_key),
            _ => None,
        })
    }

    /// Whether it matches. A condition that is certainly not met decides, whatever the others are.
    pub(super) fn matches(&self, subject: &Subject<'_, '_>) -> Match {
        let mut matches = Match::Yes;
        for condition in &self.conditions {
            match self.met(condition, subject) {
                Match::Yes => {}
                Match::No => return Match::No,
                doubtful @ Match::Doubtful(_) => matches = doubtful,
            }
        }
        matches
    }

    fn met(&self, condition: &Condition, subject: &Subject<'_, '_>) -> Match {
        let met = match condition {
            Condition::Address(networks) => Ok(networks.contains(subject.client_ip())),
            Condition::Place(places) => Ok(subject.is_in_one_of(places)),
            Condition::Method(methods) => subject.has_one_of_methods(methods),
            Condition::Header(name, value) => match subject.lines_with(name, value) {
                Lines::All => Ok(true),
                Lines::None => Ok(false),
                Lines::Some => Err(Lack::Ambiguous),
            },
            Condition::Value(key, values) => {
                subject.single(key).map(|single| values.contains(&*single.value))
            }
        };
        match met {
            Ok(true) => Match::Yes,
            Ok(false) | Err(Lack::Absent) => Match::No,
            Err(Lack::Invalid) if self.effect == AccessEffect::Deny => Match::Yes,
            Err(Lack::Invalid) => Match::No,
            Err(Lack::Unverifiable) => Match::Doubtful(Doubt::Unverifiable),
            Err(Lack::Ambiguous) => Match::Doubtful(Doubt::Ambiguous),
        }
    }
}

/// The value of a word in the exact form that requests have it in, as a person writes it.
///
/// # Errors
/// If no request can have this value: what is written instead.
pub fn exact_value(word: &KeyExpr, text: &str) -> Result<Box<[u8]>, &'static str> {
    if text.is_empty() {
        return Err("no request has an empty value");
    }
    if let KeyExpr::Ip = word {
        let address: IpAddr = text.parse().map_err(|_| "write an address, like 192.0.2.7")?;
        return Ok(address.to_canonical().to_string().into_bytes().into());
    }
    if let KeyExpr::Global = word {
        return Err("every request has the same one: leave it out");
    }
    // The form of a value depends neither on the client nor on a secret.
    let client = ClientSettings::default();
    let secret = Secret::from_bytes([0; 16]);
    let texts = KeyTexts { client: &client, secret, is_route: &|_| true };
    texts.single(word, text).map(|single| single.value.into_owned().into())
}
