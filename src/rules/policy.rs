//! A policy: one limit, on whom, how much, and what then.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};
use ipnet::IpNet;

use super::KeyExpr;
use crate::algorithm::Algorithm;
use crate::message::Template;

/// One limit.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, as clients and logs see it.
    pub name: Arc<str>,
    /// On whom.
    pub key: KeyExpr,
    /// What to do with a request that has no such key.
    pub missing_key: MissingKey,
    /// How much, and how it is counted.
    pub algorithm: Algorithm,
    /// Which requests it leaves alone.
    pub exempt: Exempt,
    /// What a refused client is sent instead of the default answer.
    pub response: Option<Template>,
}

/// What to do with a request that lacks the key of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// The client's address stands in.
    #[default]
    Ip,
    /// The policy does not judge the request.
    Skip,
    /// The request is refused.
    Deny,
}

/// Requests that a policy leaves alone: any one condition suffices. Preflights
/// are always left alone (Fetch Standard, section 3.2.2).
#[derive(Clone, Debug, Default)]
pub struct Exempt {
    /// Clients by address.
    pub ips: Vec<IpNet>,
    /// Methods.
    pub methods: Vec<Method>,
    /// Header fields with exactly this value on one of their lines. They act as
    /// secrets, and are compared as such.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}
