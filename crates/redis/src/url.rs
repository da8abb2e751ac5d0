//! URLs of Redis, such as `redis://user:password@host:6379/0`.
//!
//! Each part of a URL has an effect or is an error. Errors never contain a password.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::settings::{Address, Credentials, Password, RedisSettings, Topology};
use super::tls::TlsSettings;

/// A URL that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    /// The problem.
    pub problem: String,
    /// How to correct it.
    pub advice: &'static str,
}

impl UrlError {
    fn new(problem: impl Into<String>, advice: &'static str) -> Self {
        Self { problem: problem.into(), advice }
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.advice)
    }
}

impl std::error::Error for UrlError {}

const SCHEMES: &str = "write redis://host:6379/0, rediss:// for TLS, redis+unix:///path/to/socket, \
                       redis+cluster://host1,host2 or redis+sentinel://host1,host2/master/0";
const HOSTS: &str = "write a host, host:port or [IPv6 address]:port; several with commas between";
const SENTINEL: &str = "write redis+sentinel://host1:26379,host2:26379/name-of-master/0";
const ENCODING: &str = "write signs like @ / : % in a user or password as %40 %2F %3A %25";
const DATABASE: &str = "a database is a number from 0, like redis://host:6379/0";
const SOCKET: &str = "write redis+unix:///path/to/socket?db=0";

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl RedisSettings {
    /// Parses a URL. Parts that it does not have are as in [`RedisSettings::new`].
    ///
    /// `redis://` and `rediss://` (with TLS) name one server, `redis+unix://` a
    /// socket, `redis+cluster://` and `rediss+cluster://` nodes of a cluster,
    /// `redis+sentinel://` and `rediss+sentinel://` sentinels and their name of
    /// the master. A user and a password may come before the first host, and the database at the
    /// end.
    ///
    /// # Errors
    /// If the URL is wrong. The error says what is wrong and how to correct it.
    pub fn parse_url(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| UrlError::new("the URL has no scheme", SCHEMES))?;
        // Schemes and hosts are the same in capitals (RFC 3986, section 6.2.2.1).
        let (tls, kind) = match scheme.to_ascii_lowercase().as_str() {
            "redis" => (false, Kind::Standalone),
            "rediss" => (true, Kind::Standalone),
            "unix" | "redis+unix" => (false, Kind::Unix),
            "redis+cluster" => (false, Kind::Cluster),
            "rediss+cluster" => (true, Kind::Cluster),
            "redis+sentinel" => (false, Kind::Sentinel),
            "rediss+sentinel" => (true, Kind::Sentinel),
            _ => {
                let problem = format!("\"{scheme}\" is not a scheme of Redis");
                return Err(UrlError::new(problem, SCHEMES));
            }
        };
        let parts = Parts::split(rest, kind)?;
        let (topology, database) = kind.place(&parts)?;
        let mut settings = Self::new(topology);
        settings.database = database;
        settings.credentials = parts.credentials;
        settings.tls = tls.then(TlsSettings::default);
        Ok(settings)
    }

    /// Parses the URLs of independent servers. All have the same user, password and database.
    ///
    /// # Errors
    /// If a URL is wrong, or differs from the first one.
    pub fn parse_shards<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Self, UrlError> {
        let mut shards: Option<Self> = None;
        let mut addresses = Vec::new();
        for url in urls {
            let shard = Self::parse_url(url)?;
            let Topology::Standalone(address) = &shard.topology else {
                let problem = "a shard is one server, not a cluster or sentinels";
                return Err(UrlError::new(problem, "write redis://, rediss:// or redis+unix://"));
            };
            if addresses.contains(address) {
                let problem = format!("the shard {address} is named twice");
                return Err(UrlError::new(problem, "name every shard once"));
            }
            if shards.as_ref().is_some_and(|first| !first.let_in_alike(&shard)) {
                let problem = format!("the shard {address} differs from the first");
                let advice = "give all shards the same user, password, database and TLS";
                return Err(UrlError::new(problem, advice));
            }
            addresses.push(address.clone());
            shards.get_or_insert(shard);
        }
        let mut shards =
            shards.ok_or_else(|| UrlError::new("there are no shards", "name at least one"))?;
        shards.topology = Topology::Shards(addresses);
        Ok(shards)
    }

    fn let_in_alike(&self, other: &Self) -> bool {
        (self.database, &self.credentials, &self.tls)
            == (other.database, &other.credentials, &other.tls)
    }
}

/// The meaning of a scheme.
#[derive(Clone, Copy)]
enum Kind {
    Standalone,
    Unix,
    Cluster,
    Sentinel,
}

impl Kind {
    const fn has_several_hosts(self) -> bool {
        matches!(self, Self::Cluster | Self::Sentinel)
    }

    fn place(self, parts: &Parts<'_>) -> Result<(Topology, u32), UrlError> {
        if let (Some(query), false) = (parts.query, matches!(self, Self::Unix)) {
            let problem = format!("\"?{query}\" means nothing in this URL");
            return Err(UrlError::new(problem, DATABASE));
        }
        match self {
            Self::Standalone => {
                let mut hosts = hosts(parts.hosts, REDIS_PORT)?;
                if hosts.len() > 1 {
                    let advice = "write redis+cluster:// for a cluster, redis+sentinel:// for \
                                  sentinels, or a list of URLs for shards";
                    return Err(UrlError::new("a redis:// URL has one host", advice));
                }
                let address = hosts.pop().expect("a list of hosts is never empty");
                Ok((Topology::Standalone(address), database(parts.path)?))
            }
            Self::Unix => socket(parts),
            Self::Cluster if parts.path.is_empty() => {
                Ok((Topology::Cluster(hosts(parts.hosts, REDIS_PORT)?), 0))
            }
            Self::Cluster => {
                let advice = "leave out what follows the hosts";
                Err(UrlError::new("a cluster has no databases to choose from", advice))
            }
            Self::Sentinel => {
                let sentinels = hosts(parts.hosts, SENTINEL_PORT)?;
                let (name, path) = parts.path.split_once('/').unwrap_or((parts.path, ""));
                if name.is_empty() {
                    return Err(UrlError::new("the name of the master is missing", SENTINEL));
                }
                let master_name = decoded(name)?;
                Ok((Topology::Sentinel { sentinels, master_name }, database(path)?))
            }
        }
    }
}

/// `user:password@hosts/path?query`.
struct Parts<'a> {
    credentials: Credentials,
    hosts: &'a str,
    /// Without the slashes at its start and its end.
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn split(rest: &'a str, kind: Kind) -> Result<Self, UrlError> {
        if rest.contains('#') {
            return Err(UrlError::new("the URL has a # in it", "write %23 for a #"));
        }
        // The text before the last @ may be a password with characters that should have been
        // encoded. No error may report it as a host or a path.
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if rest.rfind('@').is_some_and(|at| at > authority.len()) {
            return Err(UrlError::new("the URL has an @ behind its hosts", ENCODING));
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        // The text before the last @ may have hosts in it, each with its own user and password.
        if user.is_some_and(|user| user.contains('@')) && kind.has_several_hosts() {
            let problem = "the URL has more than one @: one user and password are for all hosts";
            return Err(UrlError::new(problem, ENCODING));
        }
        let (username, password) = match user.map(|user| user.split_once(':')) {
            Some(Some((username, password))) => (Some(username), Some(password)),
            Some(None) => (user, None),
            None => (None, None),
        };
        let given = |part: Option<&str>| part.filter(|part| !part.is_empty()).map(decoded);
        let credentials = Credentials {
            username: given(username).transpose()?,
            password: given(password).transpose()?.map(Password::new),
        };
        Ok(Self { credentials, hosts, path: path.strip_suffix('/').unwrap_or(path), query })
    }
}

fn decoded(part: &str) -> Result<String, UrlError> {
    // The error does not repeat this part, because it may be a password.
    percent_decoded(part)
        .ok_or_else(|| UrlError::new("a % in the URL does not begin a sign in UTF-8", ENCODING))
}

/// A part of a URL, in which signs can be written as `%` and two digits (RFC 3986, section 2.1). None
/// if a `%` does not begin such a sign, or the text is not UTF-8.
pub fn percent_decoded(part: &str) -> Option<String> {
    let is_whole = part
        .split('%')
        .skip(1)
        .all(|code| code.len() >= 2 && code.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()));
    percent_decode_str(part).decode_utf8().ok().filter(|_| is_whole).map(Into::into)
}

fn socket(parts: &Parts<'_>) -> Result<(Topology, u32), UrlError> {
    if !parts.hosts.is_empty() {
        let problem = "a Unix socket has no host: its path begins with a third slash";
        return Err(UrlError::new(problem, SOCKET));
    }
    if parts.path.is_empty() {
        return Err(UrlError::new("the path of the socket is missing", SOCKET));
    }
    let number = match parts.query.map(|query| query.strip_prefix("db=")) {
        Some(Some(number)) => database(number)?,
        Some(None) => return Err(UrlError::new("a socket's URL has only db= behind ?", SOCKET)),
        None => 0,
    };
    let path = PathBuf::from(format!("/{}", decoded(parts.path)?));
    Ok((Topology::Standalone(Address::Unix(path)), number))
}

fn database(text: &str) -> Result<u32, UrlError> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| UrlError::new(format!("\"{text}\" is not a database"), DATABASE))
}

fn hosts(text: &str, default_port: u16) -> Result<Vec<Address>, UrlError> {
    text.split(',').map(|host| tcp(host, default_port)).collect()
}

fn tcp(text: &str, default_port: u16) -> Result<Address, UrlError> {
    let invalid = || UrlError::new(format!("\"{text}\" is not a host with a port"), HOSTS);
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, port))) => {
            host.parse::<std::net::Ipv6Addr>().map_err(|_| invalid())?;
            (host, port)
        }
        Some(None) => return Err(invalid()),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(allowed) {
        return Err(invalid());
    }
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|&port| port != 0).ok_or_else(invalid)?
        }
        Some(_) => return Err(invalid()),
        None if port.is_empty() => default_port,
        None => return Err(invalid()),
    };
    Ok(Address::tcp(host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests;
