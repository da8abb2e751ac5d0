//! The policies of a `gateway.yaml` inside an application, by the library `tollgate-limiter`. An
//! application and gateways that count in one Redis then share their counters.

use std::path::Path;

use tollgate_core::policy::{KeyExpr, Policy};
use tollgate_core::store::overrides::{FileError, OverridesFile, SharedOverrides};
use tollgate_limiter::{BuildError, Clock, Limiter, Parts, Store};
use tracing::warn;

use crate::config::{Config, LoadError, Report, load};

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
/// Some parts need a gateway. A policy whose key is the route, a parameter of its path or a
/// client certificate is left out, with a warning in the log. `elastic` never has room. The
/// `response` of a policy is not used: see the trait `Refuse` of the library.
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

fn limiter(config: Config) -> Result<Limiter, EmbedError> {
    if let Some(source) = &config.key_source {
        return Err(EmbedError::FetchedKeys(source.shown.clone()));
    }
    if let Some(command) = config.store.password_command {
        return Err(EmbedError::PasswordCommand(command.program));
    }
    let (policies, left_out): (Vec<_>, Vec<_>) =
        config.policies.into_iter().partition(|policy| !needs_gateway(policy));
    for policy in left_out {
        warn!(policy = %policy.name, "the policy is left out: only a gateway knows its key");
    }
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
    Ok(Parts { policies, client, store, clock, headers, overrides }.build()?)
}

/// Whether a part of its keys is known to a gateway only.
fn needs_gateway(policy: &Policy) -> bool {
    let mut needs = false;
    for key in policy.keys() {
        key.visit(&mut |key| {
            needs |= matches!(
                key,
                KeyExpr::Route
                    | KeyExpr::Param(_)
                    | KeyExpr::TlsSubject
                    | KeyExpr::ApiKeyPart(_)
                    | KeyExpr::Authorizer(_)
            );
        });
    }
    needs
}

#[cfg(test)]
mod tests;
