//! `tollgate override`: sees, sets and unsets the limits of single keys.

use std::io::{self, Write as _};
use std::path::Path;

use thiserror::Error;
use tokio::runtime::Builder;

use super::args::{OverrideArgs, OverrideCommand};
use super::{Failure, load, rate};
use crate::algorithm::QuotaError;
use crate::config::Config;
use crate::digest::{Key, Secret};
use crate::policy::{KeyTextError, KeyTexts, Overridable, Policy};
use crate::store::overrides::{FileError, Override, OverrideError, OverridesFile};
use crate::store::redis;

/// Why an override was neither seen nor changed.
#[derive(Debug, Error)]
pub(super) enum Problem {
    /// The name of no policy.
    #[error("there is no policy \"{name}\"; {}", those(overridable))]
    NoPolicy {
        /// What was written.
        name: String,
        /// Those that there are and have overrides.
        overridable: Vec<String>,
    },
    /// A policy without overrides.
    #[error(
        "the policy \"{0}\" has no overrides; write overrides: true under it and start the gateways again"
    )]
    NotOverridable(String),
    /// No key of this policy.
    #[error(transparent)]
    Key(#[from] KeyTextError),
    /// No limit that the policy's algorithm can count.
    #[error("the policy cannot count this limit: {0}")]
    Limit(#[from] QuotaError),
    /// A rate for what is in flight, or the like.
    #[error(transparent)]
    Kept(#[from] OverrideError),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Redis cannot be reached.
    #[error("Redis cannot be reached: {0}; nothing was changed")]
    Redis(#[from] redis::StoreError),
}

impl Problem {
    /// Whether the fault is in what was typed or configured.
    pub(super) const fn is_usage(&self) -> bool {
        match self {
            Self::NoPolicy { .. } | Self::NotOverridable(_) | Self::Key(_) | Self::Limit(_) => true,
            Self::Kept(_) | Self::File(_) | Self::Redis(_) => false,
        }
    }
}

fn those(names: &[String]) -> String {
    match names {
        [] => "no policy has overrides: write overrides: true under one".to_owned(),
        names => format!("policies with overrides: {}", names.join(", ")),
    }
}

/// Does what was typed, and says what holds now.
pub(super) fn run(args: &OverrideArgs) -> Result<(), Failure> {
    let config = load(&args.config)?.config;
    let runtime = Builder::new_current_thread().enable_all().build_local(Default::default())?;
    let said = runtime.block_on(done(&args.command, &config))?;
    writeln!(io::stdout().lock(), "{said}")?;
    Ok(())
}

/// What the user is told.
async fn done(command: &OverrideCommand, config: &Config) -> Result<String, Problem> {
    let (name, text) = command.subject();
    let (policy, overridable) = find(config, name)?;
    // What is wrong with what was typed is said before anything is opened.
    principal(config, policy, text, Secret::from_bytes([0; 16]))?;
    if let OverrideCommand::Set { limit, .. } = command {
        check(policy, limit.0)?;
    }
    let (place, secret) = Place::open(config).await?;
    let principal = principal(config, policy, text, secret)?;
    let key = Key { principal, counter: overridable.kept_as };
    match command {
        OverrideCommand::Get { .. } => {
            let found = place.get(key).await?;
            Ok(format!("{name} {text}: {}", told(policy, found)))
        }
        OverrideCommand::Set { limit, .. } => {
            place.put(key, Some(limit.0)).await?;
            Ok(format!(
                "{name} {text}: {}, within 2 seconds everywhere",
                told(policy, Some(limit.0))
            ))
        }
        OverrideCommand::Unset { .. } => {
            place.put(key, None).await?;
            Ok(format!("{name} {text}: {}, within 2 seconds everywhere", told(policy, None)))
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
) -> Result<crate::digest::Principal, KeyTextError> {
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

/// What holds for the key.
fn told(policy: &Policy, found: Option<Override>) -> String {
    let own = rate(&policy.algorithm);
    match found {
        None => format!("no override, so the policy's own limit: {own}"),
        Some(Override::Unlimited) => format!("unlimited (the policy's own limit: {own})"),
        Some(Override::Limited { units, window }) => match policy.override_limit(units, window) {
            Ok(limit) => format!("{} (the policy's own limit: {own})", rate(&limit.algorithm)),
            Err(error) => format!(
                "an override that the policy cannot count any more ({error}), so the policy's \
                 own limit: {own}"
            ),
        },
    }
}

/// Where overrides are kept.
enum Place {
    File(OverridesFile),
    Redis(redis::Overrides),
}

impl Place {
    /// The one that the configuration names, and under which secret keys are
    /// digested there.
    async fn open(config: &Config) -> Result<(Self, Secret), Problem> {
        match (&config.store.redis, &config.store.overrides) {
            (Some(settings), _) => {
                let (there, secret) = redis::Overrides::connect(settings).await?;
                Ok((Self::Redis(there), secret))
            }
            (None, path) => {
                let path = path.as_deref().unwrap_or(Path::new("overrides.redb"));
                let file = OverridesFile::open(path)?;
                let secret = file.secret();
                Ok((Self::File(file), secret))
            }
        }
    }

    async fn get(&self, key: Key) -> Result<Option<Override>, OverrideError> {
        match self {
            Self::File(file) => file.get(key),
            Self::Redis(there) => there.get(key).await,
        }
    }

    async fn put(&self, key: Key, what: Option<Override>) -> Result<(), OverrideError> {
        match self {
            Self::File(file) => file.put(key, what),
            Self::Redis(there) => there.put(key, what).await,
        }
    }
}
