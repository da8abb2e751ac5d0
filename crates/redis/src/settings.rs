//! The settings of the Redis store: the addresses of its servers, the credentials, and the
//! time that a decision waits for them.

use std::fmt;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_core::consistency::StoreMode;
use tollgate_core::digest::Secret;
use tollgate_core::time::Span;

use crate::shared::leased::LeaseLength;
use crate::tls::TlsSettings;

/// How to connect to Redis, and how to keep counters there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// The addresses of the servers.
    pub topology: Topology,
    /// The database. It is 0 in a cluster, which has no other one.
    pub database: u32,
    /// The user and the password of the servers.
    pub credentials: Credentials,
    /// The user and the password of the sentinels. None: they have none, or those of the servers.
    pub sentinel_credentials: Option<Credentials>,
    /// Whether TCP connections are encrypted, and which authorities are trusted. Unix sockets are
    /// never encrypted.
    pub tls: Option<TlsSettings>,
    /// The maximum time from a call to its reply that a decision waits for.
    pub timeout: Duration,
    /// The number of connections of each worker to each server.
    pub connections: NonZeroU16,
    /// The servers that limits of single keys are read from. Counters always use the master.
    pub read_from: ReadFrom,
    /// The prefix of all keys, so that several gateways can share one Redis.
    pub prefix: String,
    /// The expected number of clients, which determines the layout of the keys. Redis stores the
    /// number of the first node, and the other nodes use that one.
    pub expected_clients: u64,
    /// The accuracy of counters whose policy does not set it.
    pub mode: StoreMode,
    /// In [`StoreMode::WriteBack`], the maximum time until this node reports counted units to
    /// Redis.
    pub interval: Span,
    /// The length of leases in [`StoreMode::Leased`].
    pub lease: LeaseLength,
    /// The secret with which all nodes digest keys. None: the first node generates it, and Redis
    /// stores it.
    pub secret: Option<Secret>,
}

/// The prefix is part of every key.
const MAX_PREFIX_CHARS: usize = 64;

/// A setting that a store cannot have: what is wrong with it, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFault {
    /// What is wrong.
    pub message: &'static str,
    /// What would be right.
    pub advice: &'static str,
}

impl SettingFault {
    const TIMEOUT: Self = Self {
        message: "the timeout must be from 1 ms to 10 s",
        advice: "a request that would wait longer should be refused instead",
    };
    const PREFIX: Self = Self {
        message: "the prefix must have 1 to 64 letters, digits and signs of -_.:/",
        advice: "like prefix: tollgate",
    };
}

impl RedisSettings {
    /// The range of [`Self::timeout`]. A request that would wait longer should be refused instead.
    pub const TIMEOUTS: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(10);

    /// All settings that a store cannot have. Those of a URL are correct if it could be read.
    pub fn faults(&self) -> Vec<SettingFault> {
        let has_timeout = Self::TIMEOUTS.contains(&Span::from(self.timeout));
        let timeout = (!has_timeout).then_some(SettingFault::TIMEOUT);
        timeout.into_iter().chain(Self::fault_of_prefix(&self.prefix)).collect()
    }

    /// What is wrong with this prefix of keys.
    pub fn fault_of_prefix(prefix: &str) -> Option<SettingFault> {
        // Braces would put all keys of a cluster into one slot.
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        let has_length = (1..=MAX_PREFIX_CHARS).contains(&prefix.len());
        (!has_length || !prefix.chars().all(good)).then_some(SettingFault::PREFIX)
    }

    /// The defaults for servers at `topology`: no password, no TLS, a timeout of 20 ms.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            database: 0,
            credentials: Credentials::default(),
            sentinel_credentials: None,
            tls: None,
            timeout: Duration::from_millis(20),
            connections: NonZeroU16::MIN,
            read_from: ReadFrom::default(),
            prefix: "tollgate".to_owned(),
            expected_clients: 1_000_000,
            mode: StoreMode::default(),
            interval: Span::SECOND,
            lease: LeaseLength::default(),
            secret: None,
        }
    }
}

/// The servers for reads that may return slightly old values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The master.
    #[default]
    Master,
    /// A replica, if the sentinels or the cluster report one. Otherwise the master.
    Replica,
}

/// The addresses of the servers, and how the servers belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Standalone(Address),
    /// One master, whose address the sentinels know.
    Sentinel {
        /// The sentinels, at least one. They are asked in turn.
        sentinels: Vec<Address>,
        /// The name of the master.
        master_name: String,
    },
    /// A Redis Cluster, by the addresses of at least one node. Each node knows the others.
    Cluster(Vec<Address>),
    /// Independent servers, at least one. The counters of a client are on one of them, whatever
    /// the order of the addresses.
    Shards(Vec<Address>),
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// A host name or an IP address, without brackets.
        host: String,
        /// Never 0.
        port: u16,
    },
    /// A Unix domain socket.
    Unix(PathBuf),
}

impl Address {
    /// The TCP port `port` of `host`.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }
}

/// `localhost:6379`, `[::1]:6379`, or the path of a socket.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// How a connection authenticates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The ACL user. None: Redis' `default`.
    pub username: Option<String>,
    /// The password of that user. None: the connection does not authenticate.
    pub password: Option<Password>,
}

impl Credentials {
    /// Whether there is a user, and no password. Then connections would use Redis' `default`.
    pub const fn lack_password(&self) -> bool {
        self.username.is_some() && self.password.is_none()
    }
}

/// A password, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// The password itself, for the server only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Never prints the password.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::PrivateKeyDer;

    use super::*;
    use crate::tls::{Identity, TlsParts};

    #[test]
    fn passwords_keys_and_secrets_are_not_printed() {
        let mut settings = RedisSettings::new(Topology::Standalone(Address::tcp("a", 1)));
        settings.credentials.password = Some(Password::new("hunter2"));
        settings.secret = Some(Secret::from_bytes(*b"0123456789abcdef"));
        let key = Arc::new(PrivateKeyDer::Pkcs8(b"k".to_vec().into()));
        let identity = Identity { chain: Vec::new(), key };
        let parts = TlsParts { identity: Some(identity), ..TlsParts::default() };
        settings.tls = Some(TlsSettings::new(parts));
        let printed = format!("{settings:?}");
        for shown in ["Password(..)", "Identity(..)", "Secret(..)"] {
            assert!(printed.contains(shown), "{printed}");
        }
        assert!(!printed.contains("hunter2"));
    }

    #[test]
    fn an_address_is_written_as_in_a_url() {
        assert_eq!(Address::tcp("::1", 6379).to_string(), "[::1]:6379");
        assert_eq!(Address::tcp("redis", 1).to_string(), "redis:1");
        assert_eq!(Address::Unix("/run/r.sock".into()).to_string(), "/run/r.sock");
    }
}
