//! The policies of a `gateway.yaml` inside an application, by the library `tollgate-limiter`. An
//! application and gateways that count in one Redis then share their counters.

use std::path::Path;

use tollgate_core::api_keys::{KeyForm, PrefixError};
use tollgate_core::policy::{Cost, KeyExpr, Policy, Reservation, Unit};
use tollgate_core::store::keys::SharedKeys;
use tollgate_core::store::overrides::{FileError, OverridesFile, SharedOverrides};
use tollgate_limiter::{BuildError, Clock, KeySource, Keys, Limiter, Parts, Store};
use tracing::warn;

use crate::config::{ApiKeyFile, Config, LoadError, Report, UnusableKeys, load};

/// Why a configuration gives no limiter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The text has mistakes.
    #[error("{0}")]
    Mistakes(Report),
    /// The file cannot be read, or has mistakes.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The keys that verify tokens are fetched, which only a gateway does.
    #[error(
        "the keys for tokens are fetched from {0}, which only a gateway does: write a file in \
         client.user.jwt.jwks"
    )]
    FetchedKeys(String),
    /// The password of Redis comes from a program, which only a gateway runs.
    #[error(
        "the password of Redis comes from the program {0:?}, which only a gateway runs: write \
         password instead of store.redis.password_command"
    )]
    PasswordCommand(String),
    /// The file with the limits of single keys cannot be used.
    #[error(transparent)]
    Overrides(#[from] FileError),
    /// A thread of the limiter cannot be started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A thread for the limits of single keys cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A limiter with the policies, the client, the store and the response fields of the text of a
/// `gateway.yaml`. Relative paths in it begin in the working directory. Variables come from the
/// environment of the process.
///
/// Some parts need a gateway. These policies are left out, with a warning in the log: those whose
/// key is the route, a parameter of its path, a client certificate, a field of an authorizer or a
/// value in the body; those by the user if users have passwords (`client.user.basic`); those with a
/// cost by `messages` or `body_bytes`; and those in money if the model is named in the body. Other
/// settings have less effect, with a warning: `elastic`, `penalty.delay`, `warn`, `ask_usage`, and a
/// `reserve` that is an estimate. The `response` of a policy is not used: see the trait `Refuse` of
/// the library.
///
/// ```
/// let text = r#"
/// listeners: [{ address: 127.0.0.1:8080 }]
/// upstreams: { app: { endpoints: ["http://127.0.0.1:9000"] } }
/// policies: { per-client: { key: ip, limit: 100/minute } }
/// routes: [{ path: /*, upstream: app, policies: [per-client] }]
/// "#;
/// let limiter = tollgate::embedded::from_yaml(text)?;
/// assert!(limiter.policy("per-client").is_ok());
/// # Ok::<_, tollgate::embedded::EmbedError>(())
/// ```
///
/// # Errors
/// If the text has mistakes, or the limiter cannot be built.
pub fn from_yaml(text: &str) -> Result<Limiter, EmbedError> {
    let parsed = Config::parse(text, "gateway.yaml", &|variable| std::env::var(variable).ok());
    limiter(parsed.map_err(EmbedError::Mistakes)?.config)
}

/// The same for a file. Relative paths in it begin in its directory.
///
/// ```no_run
/// let limiter = tollgate::embedded::from_file("gateway.yaml")?;
/// # Ok::<_, tollgate::embedded::EmbedError>(())
/// ```
///
/// # Errors
/// If the file cannot be read or has mistakes, or the limiter cannot be built.
pub fn from_file(path: impl AsRef<Path>) -> Result<Limiter, EmbedError> {
    limiter(load(path.as_ref())?.config)
}

/// Why a file gives no API keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The prefix cannot be that of keys.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// The file cannot be used. The reason is the end of a sentence about it.
    #[error("the file with API keys cannot be used: {0}")]
    Unreadable(String),
    /// The file has mistakes.
    #[error("{0}")]
    Mistakes(Report),
}

/// The API keys in a file of a gateway, for `Client::keys` of the library. Their texts begin with
/// `prefix`, which is `tg` unless the gateway's `client.keys.prefix` is another one. The file is read
/// once. When it has changed, read it again and [replace](tollgate_limiter::ReplaceableKeys::replace) the keys.
///
/// ```no_run
/// use tollgate_limiter::{Client, Limiter};
///
/// let keys = tollgate::embedded::keys("keys.yaml", "tg")?;
/// let limiter = Limiter::builder().client(Client::new().keys(keys)).build()?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file cannot be read or has mistakes.
pub fn keys(path: impl AsRef<Path>, prefix: &str) -> Result<Keys, KeysError> {
    let path = path.as_ref();
    let form = KeyForm::new(prefix)?;
    let read = ApiKeyFile::read(path.to_owned(), &path.display().to_string(), &form, None);
    let reading = read.map_err(|unusable| match unusable {
        UnusableKeys::Unreadable(why) => KeysError::Unreadable(why),
        UnusableKeys::Mistakes(report) => KeysError::Mistakes(report),
    })?;
    Ok(Keys::of_table(prefix, reading.file.table))
}

fn limiter(config: Config) -> Result<Limiter, EmbedError> {
    if let Some(source) = config.key_source.iter().chain(&config.agent_sources).next() {
        return Err(EmbedError::FetchedKeys(source.shown.clone()));
    }
    if let Some(command) = config.store.password_command {
        return Err(EmbedError::PasswordCommand(command.program));
    }
    let keys = match (config.looks_keys_up(), &config.store.redis) {
        (true, Some(_)) => KeySource::Redis(SharedKeys::in_store(config.keys_on_failure)),
        (true, None) => {
            warn!("API keys in store.keys are not known here: only those of client.keys.file are");
            KeySource::Settings
        }
        (false, _) => KeySource::Settings,
    };
    let mut policies = config.policies;
    let has_passwords = config.client.passwords().is_some();
    policies.retain(|policy| match needs_gateway(policy, has_passwords) {
        Some(cause) => {
            warn!(policy = %policy.name, "the policy is left out: {cause}");
            false
        }
        None => {
            for note in without_effect(policy) {
                warn!(policy = %policy.name, "{note}");
            }
            true
        }
    });
    let has_overrides = policies.iter().any(|policy| policy.overrides.is_some());
    let overrides = match config.store.overrides.filter(|_| has_overrides) {
        Some(path) => {
            let file = OverridesFile::open(&path)?;
            let secret = file.secret();
            Some((SharedOverrides::in_file(file)?, secret))
        }
        None => None,
    };
    let store = Store::of_settings(config.store.max_keys, config.store.redis);
    let client = config.client;
    let headers = config.headers;
    let clock = Clock::system();
    Ok(Parts { policies, client, keys, store, clock, headers, overrides }.build()?)
}

/// Why only a gateway can apply the policy. None: an application can apply it. `has_passwords`: users
/// have passwords, which only a gateway checks.
fn needs_gateway(policy: &Policy, has_passwords: bool) -> Option<&'static str> {
    let mut is_known = true;
    for key in policy.keys() {
        key.visit(&mut |key| {
            is_known &= !matches!(
                key,
                KeyExpr::Route
                    | KeyExpr::Param(_)
                    | KeyExpr::TlsSubject
                    | KeyExpr::Authorizer(_)
                    | KeyExpr::Body(_)
            );
        });
    }
    if !is_known {
        return Some("only a gateway knows its key");
    }
    if has_passwords && policy.keys().any(KeyExpr::has_user) {
        return Some(
            "only a gateway checks the passwords of client.user.basic, and it counts by the user",
        );
    }
    // A price needs the model. An estimate of tokens needs no more than the length of the body.
    let is_priced_by_body = matches!(policy.unit(), Unit::Money(_))
        && policy.cost.reservation().and_then(Reservation::model).is_some_and(KeyExpr::needs_body);
    let reads_body = matches!(policy.cost, Cost::Body { .. } | Cost::Calls) || is_priced_by_body;
    reads_body.then_some("only a gateway reads the bodies of requests, on which its cost depends")
}

/// What an application does not do for a policy that it applies.
fn without_effect(policy: &Policy) -> impl Iterator<Item = &'static str> {
    let is_estimated = policy.cost.reservation().is_some();
    let delays_banned = policy.penalty.as_ref().is_some_and(|penalty| !penalty.delay.is_zero());
    let notes = [
        (
            is_estimated,
            "the reserved units are estimated by the Content-Length of a request alone, because \
             only a gateway reads the bodies of requests",
        ),
        (
            policy.asks_usage,
            "ask_usage has no effect: only a gateway changes requests, so answers that do not \
             state their tokens do not settle their cost",
        ),
        (delays_banned, "penalty.delay has no effect: only a gateway holds refusals back"),
        (policy.warn.is_some(), "warn has no effect: only a gateway reports shares of a limit"),
        (policy.elastic.is_some(), "elastic has no effect: only a gateway knows its upstreams"),
    ];
    notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note)
}

#[cfg(test)]
mod tests;
