//! Replaces verified tokens if the feature `jwt` is off. The types have no values, so no
//! settings can demand a token.

use std::sync::Arc;

use crate::digest::Secret;
use crate::time::Timestamp;

/// The settings that verify bearer tokens. They need the feature `jwt`.
#[derive(Clone, Debug)]
pub enum JwtSettings {}

/// The source of the keys that verify tokens. It needs the feature `jwt`.
#[derive(Clone, Debug)]
pub enum TokenKeys {}

/// The reason why a token is not valid.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "the feature `jwt` constructs it")]
pub(super) enum Fault {
    Opaque,
    Invalid,
    Unverifiable,
    Ambiguous,
}

/// The claims of a token.
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
    /// Whether a token can be valid now.
    pub(crate) const fn can_verify(&self) -> bool {
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
