//! Bearer tokens as keys see them. The feature `jwt` verifies them.

use std::fmt;
use std::sync::Arc;

use crate::time::Timestamp;

/// Verifies bearer tokens.
pub trait VerifyToken: fmt::Debug + Send + Sync {
    /// Whether any token can be valid now.
    fn can_verify(&self) -> bool;

    /// The claims of a token that is valid at `now`.
    ///
    /// # Errors
    /// The reason why the token is not valid.
    fn verify(&self, token: &[u8], now: Timestamp) -> Result<Arc<Claims>, Fault>;
}

/// Why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No backend accepts it as a signed token.
    Opaque,
    /// It is a signed token that is forged, expired or not yet valid.
    Invalid,
    /// It is a signed token, and the keys that verify it have not been fetched yet.
    Unverifiable,
    /// Its encoding is not the canonical one, and lenient backends may accept it.
    Ambiguous,
}

/// The claims of a verified token that keys use.
pub struct Claims {
    /// Sorted.
    pub(super) names: Arc<[Box<str>]>,
    /// The values, in the order of `names`.
    pub(super) values: Box<[Option<Box<str>>]>,
    /// When the validity begins: `nbf` minus the leeway.
    pub(super) begins: Timestamp,
    /// When the validity ends: `exp` plus the leeway.
    pub(super) ends: Option<Timestamp>,
}

/// Does not print the values, because they identify the user.
impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims")
            .field("begins", &self.begins)
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

impl Claims {
    /// Whether the token is valid at `now` (RFC 7519, sections 4.1.4 and 4.1.5).
    ///
    /// A token may have no expiry, because it only identifies the user. A backend can require
    /// an expiry itself.
    pub fn hold_at(&self, now: Timestamp) -> bool {
        self.begins <= now && self.ends.is_none_or(|ends| now < ends)
    }

    /// The value of a claim.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.names.binary_search_by(|known| (**known).cmp(name)).ok()?;
        self.values[at].as_deref()
    }
}
