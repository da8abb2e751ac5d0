//! `store`: where the counters live.

use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Compiler;
use crate::config::field::{Field, Spanned};
use crate::config::model::StoreSettings;
use crate::config::raw::{List, RawLease, RawReadFrom, RawRedis, RawRedisTls, RawStore};
use crate::digest::Secret;
use crate::store::leased::LeaseLength;
use crate::store::redis::{
    Identity, Password, ReadFrom, RedisSettings, TlsSettings, Topology, UrlError,
};
use crate::time::Span;

/// From a toy to a hundred gigabytes.
const MAX_KEYS: RangeInclusive<u64> = 1..=2_000_000_000;
/// A request that waits longer is better off refused.
const TIMEOUT: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(10);
/// Below, it is no better than asking each time; above, nodes know too little of each other.
const INTERVAL: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(60);
/// In percent of the window. Below, few requests find a lease; above, nodes hold too much of a limit.
const LEASE_SHARE: RangeInclusive<u8> = 1..=20;
/// Of the longest lease.
const LEASE_LENGTH: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(60);
/// Everybody on earth, and their telephones.
const EXPECTED_CLIENTS: RangeInclusive<u64> = 1..=10_000_000_000;
/// With several workers on several nodes there are many already.
const CONNECTIONS: RangeInclusive<u64> = 1..=16;
/// The prefix is part of every key.
const MAX_PREFIX_CHARS: usize = 64;

impl Compiler<'_> {
    pub(super) fn store(&self, raw: Option<&RawStore>) -> StoreSettings {
        let mut store = StoreSettings::default();
        let Some(raw) = raw else { return store };
        if let Some(memory) = raw.memory.value()
            && let Some(most) = self.count(&memory.max_keys, "max_keys", MAX_KEYS)
        {
            store.max_keys = most;
        }
        store.overrides = self.overrides_file(raw);
        store.redis = raw.redis.given().and_then(|redis| self.redis(redis));
        store
    }

    fn redis(&self, raw: &Spanned<RawRedis>) -> Option<RedisSettings> {
        let servers = self.servers(raw);
        let raw = &raw.value;
        let timeout = self.span(&raw.timeout, "timeout", TIMEOUT).map(Duration::from);
        let interval = self.span(&raw.interval, "interval", INTERVAL);
        let lease = raw.lease.value().map(|lease| self.lease(lease));
        let clients = self.number(&raw.expected_clients, "expected_clients", EXPECTED_CLIENTS);
        let connections = self.number(&raw.connections, "connections", CONNECTIONS);
        let connections = connections.and_then(|it| NonZeroU16::new(u16::try_from(it).ok()?));
        let prefix = raw.prefix.given().map(|prefix| self.key_prefix(prefix));
        let secret = raw.secret.given().and_then(|secret| self.store_secret(secret));
        let tls = raw.tls.given().map(|tls| self.redis_tls(tls));
        let mut settings = servers?;
        if let (Some(given), None) = (raw.tls.given(), &settings.tls) {
            let message = "these settings have no effect: the servers are not reached over TLS";
            self.problems.error(given.span, message, "write rediss:// in place of redis://");
        }
        let user = settings.username.is_some();
        let username = self.beside(&raw.username, "user", user).or(settings.username);
        let password = self.beside(&raw.password, "password", settings.password.is_some());
        settings.username = username;
        settings.password = password.map(Password::new).or(settings.password);
        settings.tls = tls.or(settings.tls);
        settings.timeout = timeout.unwrap_or(settings.timeout);
        settings.interval = interval.unwrap_or(settings.interval);
        settings.lease = lease.unwrap_or(settings.lease);
        settings.expected_clients = clients.unwrap_or(settings.expected_clients);
        settings.read_from = self.read_from(&raw.read_from, &settings.topology);
        settings.connections = connections.unwrap_or(settings.connections);
        settings.prefix = prefix.unwrap_or(settings.prefix);
        settings.mode = raw.mode.value().map_or(settings.mode, |mode| mode.meant());
        settings.secret = secret;
        Some(settings)
    }

    /// Only who knows of replicas can name one.
    fn read_from(&self, field: &Field<RawReadFrom>, topology: &Topology) -> ReadFrom {
        let Some(given) = field.given().filter(|it| it.value == RawReadFrom::Replica) else {
            return ReadFrom::Master;
        };
        let problem = match topology {
            Topology::Sentinel { .. } | Topology::Cluster(_) => return ReadFrom::Replica,
            Topology::Standalone(_) => "of one server no replicas are known",
            Topology::Shards(_) => "of shards no replicas are known",
        };
        let advice = "leave it out, or write a URL of redis+sentinel:// or redis+cluster://";
        self.problems.error(given.span, problem, advice);
        ReadFrom::Master
    }

    fn lease(&self, raw: &RawLease) -> LeaseLength {
        let RawLease { share, length } = raw;
        let usual = LeaseLength::default();
        if let Some(share) = share.given()
            && !LEASE_SHARE.contains(&share.value.0)
        {
            let advice = format!("write 1% to {}%", LEASE_SHARE.end());
            self.problems.error(share.span, "\"share\" is out of range", &advice);
        }
        LeaseLength {
            share_percent: share.value().map_or(usual.share_percent, |share| share.0),
            longest: self.span(length, "length", LEASE_LENGTH).unwrap_or(usual.longest),
        }
    }

    /// The defaults for the servers that are named in one of the two ways.
    fn servers(&self, raw: &Spanned<RawRedis>) -> Option<RedisSettings> {
        let RawRedis { url, shards, .. } = &raw.value;
        if url.is_absent() == shards.is_absent() {
            let message = "Redis is found by one of \"url\" and \"shards\"";
            self.problems.error(raw.span, message, "write exactly one of them");
        }
        self.not_empty(shards, "there are no shards", "write [redis://host1, redis://host2]");
        let shards = self.shards(shards);
        url.given().and_then(|url| self.url(url)).or(shards)
    }

    fn url(&self, url: &Spanned<String>) -> Option<RedisSettings> {
        let parsed = RedisSettings::parse_url(&url.value);
        parsed.map_err(|error| self.url_problem(url, &error)).ok()
    }

    fn shards(&self, raw: &List<String>) -> Option<RedisSettings> {
        let list = raw.given()?;
        let is_good = |url: &&Spanned<String>| {
            let alone = RedisSettings::parse_shards([url.value.as_str()]);
            alone.map_err(|error| self.url_problem(url, &error)).is_ok()
        };
        let good: Vec<&Spanned<String>> = raw.items().filter(is_good).collect();
        if good.is_empty() || good.len() < list.value.len() {
            return None;
        }
        let together = RedisSettings::parse_shards(good.iter().map(|url| url.value.as_str()));
        let problem = |error: UrlError| {
            let is_secret = good.iter().any(|url| url.written.is_some());
            let general = "these servers do not go together".to_owned();
            let message = if is_secret { general } else { error.problem };
            self.problems.error(list.span, &message, error.advice);
        };
        together.map_err(problem).ok()
    }

    fn url_problem(&self, url: &Spanned<String>, error: &UrlError) {
        let message = match &url.written {
            Some(written) => format!("what {written:?} stands for is no URL of Redis"),
            None => error.problem.clone(),
        };
        self.problems.error(url.span, &message, error.advice);
    }

    /// What the section says beside the URL, which must not say it too. An
    /// empty text is nothing, as that of a variable that has no value.
    fn beside(&self, field: &Field<String>, name: &str, is_in_url: bool) -> Option<String> {
        let given = field.given().filter(|given| !given.value.is_empty())?;
        if is_in_url {
            let message = format!("the {name} stands in the URL already");
            self.problems.error(given.span, &message, "write it in one of the two places");
        }
        Some(given.value.clone())
    }

    fn key_prefix(&self, prefix: &Spanned<String>) -> String {
        // Braces would put all keys of a cluster into one slot.
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        let length = prefix.value.len();
        if length == 0 || length > MAX_PREFIX_CHARS || !prefix.value.chars().all(good) {
            let message = "the prefix has 1 to 64 letters, digits and signs of -_.:/";
            self.problems.error(prefix.span, message, "like prefix: tollgate");
        }
        prefix.value.clone()
    }

    fn store_secret(&self, secret: &Spanned<String>) -> Option<Secret> {
        let digits = Some(&secret.value).filter(|text| text.len() == 32);
        let digits = digits.filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let number = digits.and_then(|text| u128::from_str_radix(text, 16).ok());
        if number.is_none() {
            let message = "the secret has 32 hexadecimal digits";
            self.problems.error(secret.span, message, "make one by: openssl rand -hex 16");
        }
        number.map(|number| Secret::from_bytes(number.to_be_bytes()))
    }

    fn redis_tls(&self, raw: &Spanned<RawRedisTls>) -> TlsSettings {
        let RawRedisTls { ca, cert, key } = &raw.value;
        if cert.is_absent() != key.is_absent() {
            let message = "\"cert\" and \"key\" belong together";
            self.problems.error(raw.span, message, "write both of them, or neither");
        }
        let certificates = |path| {
            self.pem_file(path, "no certificate", |pem| {
                let mut found = CertificateDer::pem_slice_iter(pem).peekable();
                found.peek().is_some() && found.all(|certificate| certificate.is_ok())
            })
        };
        let ca = ca.given().and_then(certificates);
        let cert = cert.given().and_then(certificates);
        let key = key.given().and_then(|path| {
            self.pem_file(path, "no private key", |pem| PrivateKeyDer::from_pem_slice(pem).is_ok())
        });
        TlsSettings { ca, identity: cert.zip(key).map(|(cert, key)| Identity { cert, key }) }
    }

    /// The file's bytes, if they are what is wanted.
    pub(super) fn pem_file(
        &self,
        path: &Spanned<String>,
        lack: &str,
        is_good: impl Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let pem = self.file(path)?.into_bytes();
        if !is_good(&pem) {
            let message = format!("the file {:?} holds {lack} in PEM", path.shown());
            self.problems.error(path.span, &message, "");
            return None;
        }
        Some(pem)
    }
}
