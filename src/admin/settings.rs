//! The settings of the admin listener.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use tollgate_core::time::Timestamp;

use crate::api_keys::Teams;
use crate::server::{ListenAddress, ListenerSettings};

/// The admin listener, and what its clients may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where it listens, with its bounds.
    pub listener: ListenerSettings,
    /// Names that requests may have in `Host`, in lower case, besides the loopback and the
    /// address of the listener.
    pub hosts: Vec<String>,
    /// The tokens, each with a name of its own.
    pub tokens: Vec<TokenSettings>,
    /// The clients with certificates.
    pub clients: Vec<ClientSettings>,
    /// The users whose processes may use a Unix socket, besides root and the gateway's own.
    pub uids: Vec<u32>,
    /// A second listener, for health checks without a token.
    pub probe: Option<ProbeSettings>,
    /// Whether calls may write the configuration file.
    pub write_config: bool,
    /// Whether whole keys are kept, and shown to operators that ask for them.
    pub reveal_keys: bool,
    /// Whether there is only the listener for health checks, whose address `listener` has too.
    pub is_probe_alone: bool,
    /// Whether no file has them: they are for the terminal that has started the process.
    pub is_temporary: bool,
}

/// What a credential allows. Each role but the first includes those before it, without the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// To make and change API keys, and nothing else.
    Keys,
    /// To read the metrics.
    Metrics,
    /// To read everything.
    Read,
    /// To change something.
    Operate,
}

impl Role {
    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Metrics => "metrics",
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }

    /// Whether a caller with this role may make a call that needs `needed`. Calls about API keys
    /// are also for operators, and those that change nothing for readers.
    pub fn may(self, needed: Self, is_change: bool) -> bool {
        match (needed, is_change) {
            (Self::Keys, true) => matches!(self, Self::Keys | Self::Operate),
            (Self::Keys, false) => self != Self::Metrics,
            _ => self >= needed,
        }
    }
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// The name by which the audit log knows its owner.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The teams whose API keys it may see and change.
    pub teams: Teams,
    /// The digest by which it is compared.
    pub digest: TokenDigest,
    /// The time from which on it is not valid.
    pub expires: Option<Timestamp>,
}

/// A client with a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// The subject of its certificate.
    pub subject: String,
    /// What it may do.
    pub role: Role,
}

/// The listener for health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// Where it listens.
    pub address: ListenAddress,
    /// Whether it also serves the metrics.
    pub metrics: bool,
}

/// The digest of a token (SHA-256). The token itself is not kept.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of `token`.
    pub fn of(token: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token).as_ref());
        Self(bytes)
    }

    /// The digest itself.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Never the digest itself: a short token could be found by it.
impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_never_printed_and_differs_by_the_token() {
        let [one, other] = [b"0123456789abcdef", b"0123456789abcdeF"].map(|it| TokenDigest::of(it));
        assert_eq!(format!("{one:?}"), "TokenDigest(..)");
        assert_ne!(one, other);
    }

    #[test]
    fn roles_include_each_other_in_their_order() {
        assert!(Role::Metrics < Role::Read && Role::Read < Role::Operate);
        for (role, changes, reads) in [
            (Role::Keys, true, true),
            (Role::Metrics, false, false),
            (Role::Read, false, true),
            (Role::Operate, true, true),
        ] {
            let may = (role.may(Role::Keys, true), role.may(Role::Keys, false));
            assert_eq!(may, (changes, reads), "{role:?}");
            assert!(!Role::Keys.may(role, false) || role == Role::Keys, "{role:?}");
        }
    }
}
