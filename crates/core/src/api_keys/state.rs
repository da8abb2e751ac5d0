//! Whether a key is good at a point in time.

use thiserror::Error;

use super::record::KeyRecord;
use crate::time::Timestamp;

/// The state of a key at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// Requests with the key pass.
    Active,
    /// Its time is over.
    Expired,
    /// It is switched off, and can be switched on again.
    Disabled,
    /// It is withdrawn for ever.
    Revoked,
}

impl KeyState {
    /// The word of the state.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Disabled => "disabled",
            Self::Revoked => "revoked",
        }
    }
}

/// Why a key is not accepted. Only a right secret learns more than [`Unknown`](Self::Unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum KeyRefusal {
    /// There is no such key, or this is not its secret.
    #[error("the API key is not known")]
    Unknown,
    /// The time of the key, or of this secret of it, is over.
    #[error("the API key is expired")]
    Expired,
    /// The key is switched off.
    #[error("the API key is disabled")]
    Disabled,
    /// The key is withdrawn.
    #[error("the API key is revoked")]
    Revoked,
}

impl KeyRecord {
    /// The state of the key at `now`. What was done last in the life of a key comes first.
    pub fn state(&self, now: Timestamp) -> KeyState {
        if self.revoked.is_some_and(|since| since <= now) {
            KeyState::Revoked
        } else if self.disabled {
            KeyState::Disabled
        } else if self.expires.is_some_and(|end| end <= now) {
            KeyState::Expired
        } else {
            KeyState::Active
        }
    }

    /// Whether a text with this digest is accepted as this key at `now`.
    ///
    /// # Errors
    /// If it is not.
    #[cfg(feature = "keys")]
    pub fn admit(&self, digest: &super::KeyDigest, now: Timestamp) -> Result<(), KeyRefusal> {
        // All digests are compared, so that the duration does not tell which one is right.
        let right = self
            .digests
            .iter()
            .fold(None, |right, held| if held.digest.is(digest) { Some(held) } else { right });
        let right = right.ok_or(KeyRefusal::Unknown)?;
        match self.state(now) {
            KeyState::Revoked => Err(KeyRefusal::Revoked),
            KeyState::Disabled => Err(KeyRefusal::Disabled),
            KeyState::Expired => Err(KeyRefusal::Expired),
            KeyState::Active if right.until.is_some_and(|end| end <= now) => {
                Err(KeyRefusal::Expired)
            }
            KeyState::Active => Ok(()),
        }
    }
}
