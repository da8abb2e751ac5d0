//! `store.redis`: the servers that several nodes share.

use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::consistency::StoreMode;
use tollgate_core::digest::Secret;
use tollgate_core::time::Span;
use tollgate_redis::shared::leased::LeaseLength;
use tollgate_redis::{
    Credentials, Identity, Password, ReadFrom, RedisSettings, TlsParts, TlsSettings, Topology,
    UrlError,
};

use crate::config::field::{Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{Percent, Period, ServerNameText};
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};

/// A shorter interval is no better than asking each time. With a longer one, nodes know too
/// little of each other.
const INTERVAL: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(60);
/// In percent of the window. With a smaller share, few requests find a lease. With a larger one,
/// nodes hold too much of a limit.
const LEASE_SHARE: RangeInclusive<u8> = 1..=20;
/// For the longest lease.
const LEASE_LENGTH: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(60);
/// Up to more than one client for each person on earth.
const EXPECTED_CLIENTS: RangeInclusive<u64> = 1..=10_000_000_000;
/// Several workers on several nodes open many connections already.
const CONNECTIONS: RangeInclusive<u64> = 1..=16;

/// The Redis servers that several nodes share: exactly one of `url` and `shards`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "redis", default)]
#[schemars(deny_unknown_fields)]
pub struct RawRedis {
    /// One server, a cluster, or the Sentinels that know the master: redis://host:6379/0, rediss://
    /// for TLS, redis+unix:///path/to/socket, redis+cluster://host1,host2,
    /// redis+sentinel://host1,host2/master.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"redis://127.0.0.1:6379/0")]
    url: Field<String>,
    /// Several servers that are independent of each other. Each key belongs to one of them.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["redis://10.0.0.1", "redis://10.0.0.2"])]
    shards: List<String>,
    /// The ACL user.
    #[schemars(extend("x-default" = "the default user of Redis"))]
    #[schemars(example = &"tollgate")]
    username: Field<String>,
    /// The password of that user.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"${REDIS_PASSWORD}")]
    password: Field<String>,
    /// A program and its arguments, which print the password of that user, such as a token that is
    /// valid for some minutes. It runs without a shell, in the directory of this file, for at most
    /// 10 seconds.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["/usr/local/bin/redis-token", "--user", "tollgate"])]
    pub password_command: List<String>,
    /// How long a password of that program is valid, from 10s to 24h. The program runs again one
    /// minute before the end, or after half of the time if it is shorter than two minutes. It also
    /// runs again if Redis does not accept the password.
    #[schemars(extend("default" = "15m"))]
    #[schemars(example = &"55m")]
    pub password_lifetime: Field<Period>,
    /// The user and the password of the Sentinels.
    #[schemars(extend(
        "x-default" = "none, or those of the servers if the Sentinels require a password"
    ))]
    sentinel: Field<RawSentinel>,
    /// The certificates for TLS. The scheme of the URL says whether TLS is used.
    #[schemars(extend(
        "x-default" = "the authorities that the system trusts, and no certificate for the gateway"
    ))]
    tls: Field<RawRedisTls>,
    /// How exact the counters are of policies that have no `store_mode`.
    #[schemars(extend("default" = "exact"))]
    mode: Field<Word<StoreMode>>,
    /// The longest time that a decision waits for Redis, up to 10s.
    #[schemars(extend("default" = "20ms"))]
    #[schemars(example = &"50ms")]
    timeout: Field<Period>,
    /// In the mode write_back, how long counts may wait before they are sent to Redis, from 10ms to
    /// 60s.
    #[schemars(extend("default" = "1s"))]
    #[schemars(example = &"250ms")]
    interval: Field<Period>,
    /// How many connections each worker opens to each server, from 1 to 16. All commands for one
    /// key use the same connection.
    #[schemars(extend("default" = 1))]
    #[schemars(example = 4)]
    #[schemars(range(min = *CONNECTIONS.start(), max = *CONNECTIONS.end()))]
    connections: Field<u64>,
    /// The server from which the limits of single keys are read, if Sentinels or a cluster know
    /// replicas. Counters are always read from the master.
    #[schemars(extend("default" = "master"))]
    read_from: Field<Word<ReadFrom>>,
    /// In the mode leased, how long units are leased.
    lease: Field<RawLease>,
    /// The beginning of the names of all keys.
    #[schemars(extend("default" = "tollgate"))]
    #[schemars(example = &"limits")]
    prefix: Field<String>,
    /// The number of clients that the layout of the keys is made for.
    #[schemars(extend("default" = 1000000))]
    #[schemars(example = 5_000_000)]
    #[schemars(range(min = *EXPECTED_CLIENTS.start(), max = *EXPECTED_CLIENTS.end()))]
    expected_clients: Field<u64>,
    /// The secret with which all nodes digest their keys, as 32 hexadecimal digits.
    #[schemars(extend("x-default" = "the first node makes a secret and keeps it in Redis"))]
    #[schemars(example = &"${TOLLGATE_SECRET}")]
    secret: Field<String>,
}

words! {
    /// The servers that may answer if the answer need not be the newest.
    ReadFrom as "read_from" {
        /// The master.
        "master" => ReadFrom::Master,
        /// A replica, or the master while it has no replica.
        "replica" => ReadFrom::Replica,
    }
}

words! {
    /// How exact the counters are that several nodes share.
    StoreMode as "store_mode" {
        /// Every admitted request is counted in the store before it is forwarded.
        "exact" => StoreMode::Exact,
        /// Each node takes some units in advance and spends them without asking the store.
        "leased" => StoreMode::Leased,
        /// Each node counts on its own, and sends its counts to the store from time to time.
        "write_back" => StoreMode::WriteBack,
    }
}

/// How long a node may spend units that it took in advance: for a share of the window, but no
/// longer than a fixed time.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "lease", default)]
#[schemars(deny_unknown_fields)]
struct RawLease {
    /// The share of the window, from 1% to 20%. With the algorithm token_bucket, the same share of
    /// the limit may be admitted beyond the limit.
    #[schemars(extend("default" = "2%"))]
    #[schemars(example = &"5%")]
    share: Field<Percent>,
    /// The longest time that a lease lasts, from 10ms to 60s.
    #[schemars(extend("default" = "10s"))]
    #[schemars(example = &"2s")]
    length: Field<Period>,
}

/// How the gateway authenticates to the Sentinels.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "sentinel", default)]
#[schemars(deny_unknown_fields)]
struct RawSentinel {
    /// The ACL user of the Sentinels.
    #[schemars(extend("x-default" = "their default user"))]
    #[schemars(example = &"tollgate")]
    username: Field<String>,
    /// The password of that user.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"${SENTINEL_PASSWORD}")]
    password: Field<String>,
}

/// The certificates for TLS with Redis. Paths name files in PEM format.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "tls", default)]
#[schemars(rename = "tls of redis", deny_unknown_fields)]
struct RawRedisTls {
    /// The authorities that may have signed the certificates of the servers.
    #[schemars(extend("x-default" = "the authorities that the system trusts"))]
    #[schemars(example = &"certs/ca.pem")]
    ca: Field<String>,
    /// The certificate of the gateway, for servers that ask for one.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"certs/client.pem")]
    cert: Field<String>,
    /// The private key of that certificate.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"certs/client.key")]
    key: Field<String>,
    /// The name that the certificates of the servers must be for. In a cluster it may also be the
    /// host of the URL, if another node is known by its address only.
    #[schemars(extend("x-default" = "the host of each server"))]
    server_name: Field<ServerNameText>,
}

impl RawRedis {
    /// The settings of the section, which is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<RedisSettings> {
        let servers = self.servers(span, cx);
        let timeout =
            cx.duration(&self.timeout, "timeout", RedisSettings::TIMEOUTS).map(Duration::from);
        let interval = cx.duration(&self.interval, "interval", INTERVAL);
        let lease = self.lease.value().map(|lease| lease.compile(cx));
        let clients = cx.number(&self.expected_clients, "expected_clients", EXPECTED_CLIENTS);
        let connections = cx.number(&self.connections, "connections", CONNECTIONS);
        let connections = connections.and_then(NonZeroU16::new);
        let prefix = self.prefix.given().map(|prefix| key_prefix(prefix, cx));
        let secret = self.secret.given().and_then(|secret| key_secret(secret, cx));
        let tls = self.tls.given().map(|tls| tls.value.compile(tls.span, cx));
        let mut settings = servers?;
        if let (Some(given), None) = (self.tls.given(), &settings.tls) {
            let message = "these settings have no effect: the servers are not reached over TLS";
            cx.error(given.span, message, "write rediss:// instead of redis://");
        }
        let Credentials { username, password } = &mut settings.credentials;
        let other_user = beside_url(&self.username, "user", username.is_some(), cx);
        let other_password = beside_url(&self.password, "password", password.is_some(), cx);
        *username = other_user.or(username.take());
        *password = other_password.map(Password::new).or(password.take());
        if let (Some(given), true) = (self.password_command.given(), password.is_some()) {
            let message = "\"password_command\" cannot be combined with a password";
            cx.error(given.span, message, "write one of them");
        }
        self.check_user(&settings.credentials, cx);
        settings.sentinel_credentials = self.sentinel(&settings.topology, cx);
        settings.tls = tls.or(settings.tls);
        settings.timeout = timeout.unwrap_or(settings.timeout);
        settings.interval = interval.unwrap_or(settings.interval);
        settings.lease = lease.unwrap_or(settings.lease);
        settings.expected_clients = clients.unwrap_or(settings.expected_clients);
        settings.read_from = self.read_from(&settings.topology, cx);
        settings.connections = connections.unwrap_or(settings.connections);
        settings.prefix = prefix.unwrap_or(settings.prefix);
        settings.mode = self.mode.word().unwrap_or(settings.mode);
        settings.secret = secret;
        Some(settings)
    }

    /// A user needs a password: without one, connections would use the default user of Redis.
    fn check_user(&self, credentials: &Credentials, cx: &Context<'_>) {
        if !credentials.lack_password() || self.password_command.given().is_some() {
            return;
        }
        let written = self.username.given().filter(|it| !it.value.is_empty()).map(|it| it.span);
        let in_url = self.url.given().map(|it| it.span).or(self.shards.given().map(|it| it.span));
        let Some(span) = written.or(in_url) else { return };
        // What is written as the user of a URL may be a password.
        let advice = "write \"password\" or \"password_command\" (an empty password counts as \
                      absent), or leave the user out; a password alone is redis://:password@host";
        cx.error(span, "the user of Redis has no password", advice);
    }

    /// The credentials of the Sentinels, which only one topology has.
    fn sentinel(&self, topology: &Topology, cx: &Context<'_>) -> Option<Credentials> {
        let given = self.sentinel.given()?;
        if !matches!(topology, Topology::Sentinel { .. }) {
            let message = "these settings have no effect: the URL names no Sentinels";
            cx.error(given.span, message, "write redis+sentinel://, or leave them out");
        }
        let RawSentinel { username, password } = &given.value;
        let text = |field: &Field<String>| field.value().filter(|it| !it.is_empty()).cloned();
        let password = text(password).map(Password::new);
        let credentials = Credentials { username: text(username), password };
        if credentials.lack_password() {
            let advice = "write sentinel: { username: ..., password: ... }; an empty password \
                          counts as absent";
            cx.error(given.span, "the user of the Sentinels has no password", advice);
        }
        Some(credentials)
    }

    /// Replicas can be read only in topologies that know replicas.
    fn read_from(&self, topology: &Topology, cx: &Context<'_>) -> ReadFrom {
        let Some(given) = self.read_from.given().filter(|it| it.value.0 == ReadFrom::Replica)
        else {
            return ReadFrom::Master;
        };
        let problem = match topology {
            Topology::Sentinel { .. } | Topology::Cluster(_) => return ReadFrom::Replica,
            Topology::Standalone(_) => "the replicas of a single server are not known",
            Topology::Shards(_) => "the replicas of shards are not known",
        };
        let advice = "leave it out, or write a URL of redis+sentinel:// or redis+cluster://";
        cx.error(given.span, problem, advice);
        ReadFrom::Master
    }

    /// The default settings for the servers, which are named in one of two ways.
    fn servers(&self, span: TextSpan, cx: &Context<'_>) -> Option<RedisSettings> {
        let Self { url, shards, .. } = self;
        if url.is_absent() == shards.is_absent() {
            let message = "Redis needs one of \"url\" and \"shards\"";
            cx.error(span, message, "write exactly one of them");
        }
        cx.not_empty(shards, "there are no shards", "write [redis://host1, redis://host2]");
        let shards = shards_of(shards, cx);
        let parsed = url.given().and_then(|url| {
            let parsed = RedisSettings::parse_url(&url.value);
            parsed.map_err(|error| url_problem(url, &error, cx)).ok()
        });
        parsed.or(shards)
    }
}

impl RawLease {
    fn compile(&self, cx: &Context<'_>) -> LeaseLength {
        let Self { share, length } = self;
        let usual = LeaseLength::default();
        if let Some(share) = share.given()
            && !LEASE_SHARE.contains(&share.value.0)
        {
            let advice = format!("write 1% to {}%", LEASE_SHARE.end());
            cx.error(share.span, "\"share\" is out of range", &advice);
        }
        LeaseLength {
            share_percent: share.value().map_or(usual.share_percent, |share| share.0),
            longest: cx.duration(length, "length", LEASE_LENGTH).unwrap_or(usual.longest),
        }
    }
}

impl RawRedisTls {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> TlsSettings {
        let Self { ca, cert, key, server_name } = self;
        if cert.is_absent() != key.is_absent() {
            let message = "\"cert\" and \"key\" belong together";
            cx.error(span, message, "write both of them, or neither");
        }
        let ca = ca.given().and_then(|path| cx.authorities_file(path));
        let chain = cert.given().and_then(|path| cx.chain_file(path));
        let key = key.given().and_then(|path| cx.private_key_file(path));
        let identity = chain.zip(key).map(|(chain, key)| Identity { chain, key });
        let problem = identity.as_ref().and_then(|it| it.check().err());
        if let (Some(error), Some(path)) = (problem, self.key.given()) {
            let why = match error {
                rustls::Error::InconsistentKeys(_) => {
                    "the key does not belong to the certificate".to_owned()
                }
                error => format!("certificate and key cannot be used together: {error}"),
            };
            cx.unusable(path, &why, "name the key of \"cert\"");
        }
        let server_name = server_name.value().map(|name| name.0.clone());
        TlsSettings::new(TlsParts { ca, identity, server_name })
    }
}

fn shards_of(raw: &List<String>, cx: &Context<'_>) -> Option<RedisSettings> {
    let list = raw.given()?;
    let is_good = |url: &&Spanned<String>| {
        let alone = RedisSettings::parse_shards([url.value.as_str()]);
        alone.map_err(|error| url_problem(url, &error, cx)).is_ok()
    };
    let good: Vec<&Spanned<String>> = raw.items().filter(is_good).collect();
    if good.is_empty() || good.len() < list.value.len() {
        return None;
    }
    let together = RedisSettings::parse_shards(good.iter().map(|url| url.value.as_str()));
    let problem = |error: UrlError| {
        let is_secret = good.iter().any(|url| url.written.is_some());
        let general = "these servers cannot be used together".to_owned();
        let message = if is_secret { general } else { error.problem };
        cx.error(list.span, &message, error.advice);
    };
    together.map_err(problem).ok()
}

fn url_problem(url: &Spanned<String>, error: &UrlError, cx: &Context<'_>) {
    let message = match &url.written {
        Some(written) => format!("the value of {written:?} is not a URL of Redis"),
        None => error.problem.clone(),
    };
    cx.error(url.span, &message, error.advice);
}

/// A field that the URL may contain too, but only one of them may be given. An empty text counts
/// as absent, because a variable without a value gives it.
fn beside_url(
    field: &Field<String>,
    name: &str,
    is_in_url: bool,
    cx: &Context<'_>,
) -> Option<String> {
    let given = field.given().filter(|given| !given.value.is_empty())?;
    if is_in_url {
        let message = format!("the URL contains the {name} already");
        cx.error(given.span, &message, "write it in one of the two places");
    }
    Some(given.value.clone())
}

fn key_prefix(prefix: &Spanned<String>, cx: &Context<'_>) -> String {
    if let Some(fault) = RedisSettings::fault_of_prefix(&prefix.value) {
        cx.error(prefix.span, fault.message, fault.advice);
    }
    prefix.value.clone()
}

fn key_secret(secret: &Spanned<String>, cx: &Context<'_>) -> Option<Secret> {
    let digits = Some(&secret.value).filter(|text| text.len() == 32);
    let digits = digits.filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let number = digits.and_then(|text| u128::from_str_radix(text, 16).ok());
    if number.is_none() {
        let message = "the secret must have 32 hexadecimal digits";
        cx.error(secret.span, message, "make one with: openssl rand -hex 16");
    }
    number.map(|number| Secret::from_bytes(number.to_be_bytes()))
}
