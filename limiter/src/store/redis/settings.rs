//! What the Redis store is told: where its servers are, how to be let in, and
//! how long to wait for them.

use std::fmt;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use crate::consistency::StoreMode;
use crate::digest::Secret;
use crate::store::shared::leased::LeaseLength;
use crate::time::Span;

/// How to reach Redis, and how counters are kept in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Where the servers are.
    pub topology: Topology,
    /// The database; 0 in a cluster, which has no other.
    pub database: u32,
    /// The ACL user; none stands for Redis' `default`.
    pub username: Option<String>,
    /// The password of that user.
    pub password: Option<Password>,
    /// Whether TCP connections are encrypted, and whom they trust. Unix
    /// sockets never are.
    pub tls: Option<TlsSettings>,
    /// How long a decision may wait for Redis, from its call to its answer.
    pub timeout: Duration,
    /// How many connections each worker opens to each server.
    pub connections: NonZeroU16,
    /// Where limits of single keys are read. Counters are always the master's.
    pub read_from: ReadFrom,
    /// What the names of all keys begin with, so that several gateways can
    /// share one Redis.
    pub prefix: String,
    /// How many clients to lay the keys out for. Redis remembers the first
    /// node's figure: others use that one.
    pub expected_clients: u64,
    /// How exact the counters are where a policy does not say.
    pub mode: StoreMode,
    /// How long what was counted here may wait in [`StoreMode::WriteBack`] before
    /// Redis is told of it.
    pub interval: Span,
    /// How long leases last in [`StoreMode::Leased`].
    pub lease: LeaseLength,
    /// The secret under which all nodes digest what they count by. None: made
    /// by the first node and kept in Redis.
    pub secret: Option<Secret>,
}

impl RedisSettings {
    /// The defaults for servers at `topology`: no password, no TLS, 20 ms.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            database: 0,
            username: None,
            password: None,
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

/// Which servers may answer what need not be the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The master.
    #[default]
    Master,
    /// A replica, where the sentinels or the cluster know one; else the master.
    Replica,
}

/// Where the servers are, and what they are to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Standalone(Address),
    /// One master, which the sentinels know.
    Sentinel {
        /// At least one; asked in turn.
        sentinels: Vec<Address>,
        /// What the sentinels call the master.
        master_name: String,
    },
    /// Redis Cluster: at least one of its nodes, which tells of the others.
    Cluster(Vec<Address>),
    /// Servers that do not know of each other: at least one. A client's
    /// counters live on one of them, whatever the order in which they are written.
    Shards(Vec<Address>),
}

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// A name or an IP address, without brackets.
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

/// How servers are trusted over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The authorities, as PEM. None: those that the system trusts.
    pub ca: Option<Vec<u8>>,
    /// Who we are, where servers ask for it.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The chain of certificates, as PEM, our own first.
    pub cert: Vec<u8>,
    /// Its private key, as PEM.
    pub key: Vec<u8>,
}

/// Never the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// A password, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes it in.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// The password itself, for the server alone.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Never the password itself.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_password_nor_key_nor_secret_is_printed() {
        let mut settings = RedisSettings::new(Topology::Standalone(Address::tcp("a", 1)));
        settings.password = Some(Password::new("hunter2"));
        settings.secret = Some(Secret::from_bytes(*b"0123456789abcdef"));
        let identity = Identity { cert: b"c".to_vec(), key: b"k".to_vec() };
        settings.tls = Some(TlsSettings { ca: None, identity: Some(identity) });
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
