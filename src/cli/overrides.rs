//! `tollgate override`: shows, sets and removes the limits of single keys.

use std::io;
use std::path::Path;

use thiserror::Error;
use tollgate_core::algorithm::QuotaError;
use tollgate_core::digest::{Key, Secret};
use tollgate_core::policy::{KeyTextError, KeyTexts, Overridable, Policy};
use tollgate_core::store::overrides::{FileError, Override, OverridesFile, ReadError};

use super::args::OverrideCommand;
use crate::app::{CommandError, local_runtime, settings_with_password};
use crate::config::{Config, ScalarError};

/// Why an override could not be read or changed.
#[derive(Debug, Error)]
pub enum Problem {
    /// There is no such policy.
    #[error("there is no policy \"{name}\"; {}", overridable_policies(overridable))]
    NoPolicy {
        /// The name on the command line.
        name: String,
        /// The policies with overrides.
        overridable: Vec<String>,
    },
    /// The policy has no overrides.
    #[error(
        "the policy \"{0}\" has no overrides; write overrides: true under it and start the gateways again"
    )]
    NotOverridable(String),
    /// The text is not a key of the policy.
    #[error(transparent)]
    Key(#[from] KeyTextError),
    /// The algorithm of the policy cannot count the limit.
    #[error("the policy cannot count this limit: {0}")]
    Limit(#[from] QuotaError),
    /// The limit is not in the units of the policy.
    #[error("{0}")]
    Unit(#[from] ScalarError),
    /// Redis does not store or return the override.
    #[error(transparent)]
    Kept(#[from] tollgate_redis::OverrideError),
    /// The override cannot be read from the file.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Redis cannot be reached.
    #[error("Redis cannot be reached: {0}; nothing was changed")]
    Redis(#[from] tollgate_redis::StoreError),
    /// There is no password for Redis.
    #[error("there is no password for Redis: {0}; nothing was changed")]
    Password(#[from] CommandError),
    /// The system refuses a runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Problem {
    /// Whether the fault is in the arguments or the configuration.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::NoPolicy { .. } | Self::NotOverridable(_) | Self::Key(_) => true,
            Self::Limit(_) | Self::Unit(_) => true,
            Self::Kept(_) | Self::Read(_) | Self::File(_) | Self::Redis(_) => false,
            Self::Password(_) | Self::Start(_) => false,
        }
    }
}

fn overridable_policies(names: &[String]) -> String {
    match names {
        [] => "no policy has overrides: write overrides: true under one".to_owned(),
        names => format!("policies with overrides: {}", names.join(", ")),
    }
}

/// Runs the command. Returns the limit that then applies to the key, as a text.
pub fn run(command: &OverrideCommand, config: &Config) -> Result<String, Problem> {
    local_runtime().map_err(Problem::Start)?.block_on(apply(command, config))
}

async fn apply(command: &OverrideCommand, config: &Config) -> Result<String, Problem> {
    let (name, text) = command.subject();
    let (policy, overridable) = find(config, name)?;
    // The arguments are checked before the store is opened.
    principal(config, policy, text, Secret::from_bytes([0; 16]))?;
    let new = match command {
        OverrideCommand::Set { limit, .. } => Some(limit.under(policy)?),
        OverrideCommand::Get { .. } | OverrideCommand::Unset { .. } => None,
    };
    if let Some(limit) = new {
        check(policy, limit)?;
    }
    let (storage, secret) = Storage::open(config).await?;
    let principal = principal(config, policy, text, secret)?;
    let key = Key { principal, counter: overridable.kept_as };
    match command {
        OverrideCommand::Get { .. } => {
            let found = storage.get(key).await?;
            Ok(format!("{name} {text}: {}", described(policy, found)))
        }
        OverrideCommand::Set { .. } | OverrideCommand::Unset { .. } => {
            storage.put(key, new).await?;
            Ok(format!("{name} {text}: {}, within 2 seconds everywhere", described(policy, new)))
        }
    }
}

fn find<'c>(config: &'c Config, name: &str) -> Result<(&'c Policy, Overridable), Problem> {
    let Some(policy) = config.policies.iter().find(|policy| &*policy.name == name) else {
        let overridable = config.policies.iter().filter(|policy| policy.overrides.is_some());
        let overridable = overridable.map(|policy| policy.name.to_string()).collect();
        return Err(Problem::NoPolicy { name: name.to_owned(), overridable });
    };
    let overridable = policy.overrides.ok_or_else(|| Problem::NotOverridable(name.to_owned()))?;
    Ok((policy, overridable))
}

fn principal(
    config: &Config,
    policy: &Policy,
    text: &str,
    secret: Secret,
) -> Result<tollgate_core::digest::Principal, KeyTextError> {
    let is_route = |name: &str| config.routes.iter().any(|route| &*route.rule.name == name);
    let texts = KeyTexts { client: &config.client, secret, is_route: &is_route };
    texts.principal(&policy.key, text)
}

fn check(policy: &Policy, limit: Override) -> Result<(), QuotaError> {
    match limit {
        Override::Unlimited => Ok(()),
        Override::Limited { units, window } => policy.override_limit(units, window).map(drop),
    }
}

/// The limit that applies to the key, as a text.
fn described(policy: &Policy, found: Option<Override>) -> String {
    let own = policy.written(&policy.algorithm);
    match found {
        None => format!("no override, so the policy's own limit: {own}"),
        Some(Override::Unlimited) => format!("unlimited (the policy's own limit: {own})"),
        Some(Override::Limited { units, window }) => match policy.override_limit(units, window) {
            Ok(limit) => {
                format!("{} (the policy's own limit: {own})", policy.written(&limit.algorithm))
            }
            Err(error) => format!(
                "an override that the policy cannot count any more ({error}), so the policy's \
                 own limit: {own}"
            ),
        },
    }
}

/// The place where overrides are stored.
enum Storage {
    File(OverridesFile),
    Redis(tollgate_redis::Overrides),
}

impl Storage {
    /// Opens the storage that the configuration names. Also returns the secret with which
    /// its keys are digested.
    async fn open(config: &Config) -> Result<(Self, Secret), Problem> {
        match (&config.store.redis, &config.store.overrides) {
            (Some(_), _) => {
                let (store, printed) = settings_with_password(&config.store).await;
                printed?;
                let settings = store.redis.as_ref().expect("it is only completed");
                let (overrides, secret) = tollgate_redis::Overrides::connect(settings).await?;
                Ok((Self::Redis(overrides), secret))
            }
            (None, path) => {
                let path = path.as_deref().unwrap_or(Path::new("overrides.redb"));
                let file = OverridesFile::open(path)?;
                let secret = file.secret();
                Ok((Self::File(file), secret))
            }
        }
    }

    async fn get(&self, key: Key) -> Result<Option<Override>, Problem> {
        match self {
            Self::File(file) => Ok(file.get(key)?),
            Self::Redis(overrides) => Ok(overrides.get(key).await?),
        }
    }

    async fn put(&self, key: Key, what: Option<Override>) -> Result<(), Problem> {
        match self {
            Self::File(file) => Ok(file.put(key, what)?),
            Self::Redis(overrides) => Ok(overrides.put(key, what).await?),
        }
    }
}
