//! Stands in for verified tokens where the feature `jwt` is off: types without
//! values, so that no settings can ask for a token.

use std::sync::Arc;

use crate::digest::Secret;
use crate::time::Timestamp;

/// How bearer tokens are verified: needs the feature `jwt`.
#[derive(Clone, Debug)]
pub enum JwtSettings {}

/// Where the keys come from that tokens are verified with: needs the feature `jwt`.
#[derive(Clone, Debug)]
pub enum TokenKeys {}

/// Why a token does not hold.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "the feature `jwt` constructs it")]
pub(super) enum Fault {
    Opaque,
    Invalid,
    Unverifiable,
    Ambiguous,
}

/// What a token claims.
#[derive(Debug)]
pub(super) enum Claims {}

#[derive(Debug)]
pub(super) enum TokenVerifier {}

impl JwtSettings {
    pub(super) const fn keys(&self) -> &TokenKeys {
        match *self {}
    }

    pub(super) const fn keys_mut(&mut self) -> &mut TokenKeys {
        match *self {}
    }

    pub(super) const fn claim(&self) -> &str {
        match *self {}
    }
}

impl TokenKeys {
    /// Whether a token can hold now.
    pub const fn can_verify(&self) -> bool {
        match *self {}
    }
}

impl Claims {
    pub(super) const fn get(&self, _name: &str) -> Option<&str> {
        match *self {}
    }
}

impl TokenVerifier {
    pub(super) fn new(settings: JwtSettings, _claims: Vec<Box<str>>, _secret: Secret) -> Self {
        match settings {}
    }

    pub(super) fn verify(&self, _token: &[u8], _now: Timestamp) -> Result<Arc<Claims>, Fault> {
        match *self {}
    }
}
