//! `tollgate key` and `tollgate team`: API keys in the store of a configuration.

mod args;
mod csv;
mod foreign;
mod import;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use thiserror::Error;
use tollgate_core::api_keys::KeyId;
use tollgate_core::store::keys::{KeyStorage, KeysFile, KeysFileError};
use tollgate_core::time::{Clock, Timestamp};
use tollgate_redis::ControlKeys;

pub use self::args::{StoreCommand, TEAM_EXAMPLES, TeamArgs, pair};

use self::args::{Fields, TeamCommand};
use self::foreign::PolicyNames;
use super::console::say;
use crate::api_keys::{
    CreatedKey, Filter, ImportedKey, KeyError, KeyPatch, Keys, NewKeyForm, Rotation, Seen,
    TeamForm, Teams,
};
use crate::app::{CommandError, local_runtime, settings_with_password};
use crate::config::{self, Config, byte_order_mark};

/// The most MiB of standard input.
const MAX_INPUT_MIB: u64 = 256;
/// How many keys a page of a list has.
const PAGE: usize = 500;

/// Why a command about keys fails.
#[derive(Debug, Error)]
pub enum Problem {
    /// There is no store for keys.
    #[error(
        "this configuration has no store for API keys: add store: {{ redis: ... }}, or store: {{ \
         keys: {{ path: keys.redb }} }}"
    )]
    NoStore,
    /// The gateways look no key up in the store.
    #[error(
        "no gateway looks keys up in the store, because client.keys.store is false: leave it out, or \
         make keys in the file"
    )]
    NotInStore,
    /// The arguments or the input have a mistake.
    #[error("{0}")]
    Input(String),
    /// The key cannot be shown or changed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key is not in the store, but in a file.
    #[error("the key is in the file {0} of client.keys, and not in the store: remove it there")]
    InFile(String),
    /// Some keys are not stored.
    #[error("{0} keys were not stored")]
    Refused(usize),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] KeysFileError),
    /// There is no password for Redis.
    #[error("there is no password for Redis: {0}; nothing was changed")]
    Password(#[from] CommandError),
    /// The text of a key that was made is lost.
    #[error(
        "the key {id} is made, but its text cannot be written: {error}; give it another text with tollgate key rotate {id}"
    )]
    NotShown {
        /// The key.
        id: String,
        /// Why its text is lost.
        error: io::Error,
    },
    /// The system refuses a runtime, the input or the output.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Problem {
    /// Whether the fault is in the arguments, the input or the configuration.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::NoStore
            | Self::NotInStore
            | Self::Input(_)
            | Self::Key(KeyError::Mistakes(_)) => true,
            Self::Key(_) | Self::InFile(_) | Self::Refused(_) | Self::File(_) => false,
            Self::Password(_) | Self::NotShown { .. } | Self::System(_) => false,
        }
    }
}

/// Makes a key in the store.
pub fn create(
    id: Option<&str>,
    form: Result<NewKeyForm, String>,
    config: &Config,
) -> Result<(), Problem> {
    let form = form.map_err(Problem::Input)?;
    local_runtime()?.block_on(async {
        let keys = keys_in(open(config, false).await?, config);
        let (created, _) = keys.create(id, &form, &Teams::All, Clock::System.wall()).await?;
        shown_once(&created)
    })
}

/// Runs a command about keys in the store.
pub fn run(command: &StoreCommand, config: &Config) -> Result<(), Problem> {
    local_runtime()?.block_on(async {
        let restores = matches!(command, StoreCommand::Import { .. });
        let storage = open(config, restores).await?;
        let keys = keys_in(Rc::clone(&storage), config);
        match command {
            StoreCommand::Import { from, weak, rpm, tpm } => {
                let policies = PolicyNames { rpm: rpm.clone(), tpm: tpm.clone() };
                let input = import::read(*from, &input()?, &policies).map_err(Problem::Input)?;
                // Keys move from a file into the store while the file is in use.
                match import::store(input, *weak, &keys.without_file(), &*storage).await? {
                    0 => Ok(()),
                    refused => Err(Problem::Refused(refused)),
                }
            }
            StoreCommand::Export => export(&keys).await,
            StoreCommand::List { team, state, json } => {
                let filter = Filter { team: team.as_deref(), state: state.as_deref() };
                list(&keys, filter, *json).await
            }
            command => one(&keys, command).await,
        }
    })
}

/// Runs `tollgate team`.
pub fn run_team(args: &TeamArgs, config: &Config) -> Result<(), Problem> {
    local_runtime()?.block_on(async {
        let storage = open(config, false).await?;
        let keys = keys_in(storage, config);
        match &args.command {
            TeamCommand::List => {
                for team in keys.teams(&Teams::All).await? {
                    print(&team)?;
                }
                Ok(())
            }
            TeamCommand::Set { name, plan, limits, labels } => {
                let form =
                    TeamForm { plan: plan.clone(), limits: map(limits), labels: map(labels) };
                let (_, after, written) =
                    keys.set_team(name, &form, Some(&Seen::Anything), &Teams::All).await?;
                written.check().map_err(KeyError::from)?;
                print(&after)
            }
        }
    })
}

/// The keys in this storage, under the settings of the configuration.
fn keys_in(storage: Rc<dyn KeyStorage>, config: &Config) -> Keys {
    let keys = Keys::new(storage, config::key_readers());
    keys.under(config.client.keys.as_deref(), &config.policies)
}

/// The store that the configuration names.
async fn open(config: &Config, restores: bool) -> Result<Rc<dyn KeyStorage>, Problem> {
    if config.client.keys.as_ref().is_some_and(|keys| !keys.in_store) {
        return Err(Problem::NotInStore);
    }
    match (&config.store.redis, &config.store.keys) {
        (Some(_), _) => {
            let (store, printed) = settings_with_password(&config.store).await;
            printed?;
            let settings = store.redis.as_ref().expect("it is only completed");
            let keys = ControlKeys::connect(settings).await;
            Ok(Rc::new(if restores { keys.restoring() } else { keys }))
        }
        (None, Some(path)) => Ok(Rc::new(KeysFile::open(path)?)),
        (None, None) => Err(Problem::NoStore),
    }
}

/// A command about one key.
async fn one(keys: &Keys, command: &StoreCommand) -> Result<(), Problem> {
    let all = Teams::All;
    let now = Clock::System.wall();
    match command {
        StoreCommand::Show { id } => print(&keys.show(id, &all, now).await?.0),
        StoreCommand::Set { id, fields, enabled, unset } => {
            let patch = patch(fields, *enabled, unset);
            let (_, after, written) = keys.change(id, &patch, &Seen::Anything, &all, now).await?;
            written.check().map_err(KeyError::from)?;
            print(&after)
        }
        StoreCommand::Rotate { id, overlap } => {
            let rotation = Rotation { overlap: Some(overlap.clone()) };
            let (_, made, _) = keys.rotate(id, &rotation, &Seen::Anything, &all, now).await?;
            shown_once(&made)
        }
        StoreCommand::Revoke { id } => revoke(keys, id, now).await,
        StoreCommand::Find => print(&keys.find(&input()?, &all, now).await?),
        StoreCommand::List { .. } | StoreCommand::Import { .. } | StoreCommand::Export => Ok(()),
    }
}

/// Revokes a key of the store, also one that a file has: so keys move from the store into a file.
async fn revoke(keys: &Keys, id: &str, now: Timestamp) -> Result<(), Problem> {
    let file = id.parse::<KeyId>().ok().and_then(|id| keys.file_with(id));
    let revoked = keys.without_file().revoke(id, &Seen::Anything, &Teams::All, now).await;
    let revoked = revoked.and_then(|(.., written)| Ok(written.check()?));
    match (file, revoked) {
        (None, revoked) => {
            revoked?;
            say(&format!("{id} is revoked, within 2 seconds everywhere"));
            Ok(())
        }
        (Some(file), Err(KeyError::NoKey)) => Err(Problem::InFile(file.to_owned())),
        (Some(file), revoked) => {
            revoked?;
            say(&format!(
                "{id} is revoked in the store; the file {file} of client.keys has it, too, and \
                 wins: remove it there if it must not be accepted"
            ));
            Ok(())
        }
    }
}

async fn list(keys: &Keys, filter: Filter<'_>, json: bool) -> Result<(), Problem> {
    let mut after: Option<String> = None;
    loop {
        let now = Clock::System.wall();
        let page = keys.list(filter, after.as_deref(), PAGE, &Teams::All, now).await?;
        let mut out = io::stdout().lock();
        for key in &page.items {
            let line = serde_json::to_value(key).map_err(io::Error::other)?;
            if json {
                writeln!(out, "{line}")?;
                continue;
            }
            let word = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let words = ["state", "team", "plan", "name"].map(word);
            let [state, team, plan, name] = words;
            writeln!(out, "{}  {state:<8}  {team:<16}  {plan:<12}  {name}", key.id)?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn export(keys: &Keys) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    writeln!(out, "# API keys and teams of a store, with the hashes of the texts.")?;
    // JSON is YAML, and needs no further escapes.
    let teams = keys.teams(&Teams::All).await?;
    if !teams.is_empty() {
        writeln!(out, "teams:")?;
    }
    for team in teams {
        let form = TeamForm { plan: team.plan, limits: team.limits, labels: team.labels };
        let name = serde_json::Value::from(team.name);
        writeln!(out, "  {name}: {}", line(&form)?)?;
    }
    writeln!(out, "keys:")?;
    let mut failure = None;
    keys.export(|key: ImportedKey| {
        if let Err(error) = line(&key).and_then(|key| writeln!(out, "- {key}")) {
            failure.get_or_insert(error);
        }
        Ok(())
    })
    .await?;
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// A value on one line.
fn line(value: &impl serde::Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::other)
}

/// Prints a value in several lines.
fn print(value: &impl serde::Serialize) -> Result<(), Problem> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Prints the text of a key to standard output, and its id beside it.
fn shown_once(made: &CreatedKey) -> Result<(), Problem> {
    writeln!(io::stdout().lock(), "{}", made.key)
        .map_err(|error| Problem::NotShown { id: made.shown.id.to_string(), error })?;
    say(&format!("the id is {}; the text is shown only now", made.shown.id));
    if let Some(warning) = &made.warning {
        say(warning);
    }
    Ok(())
}

/// The text on standard input.
fn input() -> Result<String, Problem> {
    text_within(io::stdin().lock(), MAX_INPUT_MIB)
}

/// The whole text, of at most this many MiB, without a byte order mark. A part of it is never taken for
/// the whole: the keys behind it would be unknown.
fn text_within(input: impl Read, most_mib: u64) -> Result<String, Problem> {
    let most_bytes = most_mib << 20;
    let mut bytes = Vec::new();
    // One more byte than allowed is enough to see that the text is too large.
    input.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).map_or(true, |bytes| bytes > most_bytes) {
        let why = format!("standard input is larger than {most_mib} MiB: give it in parts");
        return Err(Problem::Input(why));
    }
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "standard input is not UTF-8 text");
    let mut text = String::from_utf8(bytes).map_err(not_text)?;
    byte_order_mark::remove(&mut text);
    Ok(text)
}

fn map(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    pairs.iter().cloned().collect()
}

fn patch(fields: &Fields, enabled: bool, unset: &[String]) -> KeyPatch {
    let removes = |name: &str| unset.iter().any(|it| it == name);
    let text = |name: &str, value: &Option<String>| match value {
        Some(value) => Some(Some(value.clone())),
        None => removes(name).then_some(None),
    };
    let pairs = |name: &str, pairs: &[(String, String)]| match pairs {
        [] => removes(name).then_some(None),
        pairs => Some(Some(map(pairs))),
    };
    KeyPatch {
        name: text("name", &fields.name),
        team: text("team", &fields.team),
        plan: text("plan", &fields.plan),
        expires: text("expires", &fields.expires),
        disabled: (fields.disabled || enabled).then_some(Some(fields.disabled)),
        limits: pairs("limits", &fields.limits),
        labels: pairs("labels", &fields.labels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_above_the_bound_is_refused_and_not_cut() {
        let text = "k".repeat(1 << 20);
        assert_eq!(text_within(text.as_bytes(), 1).unwrap(), text);
        let error = text_within(format!("{text}\n").as_bytes(), 1).unwrap_err();
        assert!(error.is_usage());
        assert_eq!(error.to_string(), "standard input is larger than 1 MiB: give it in parts");
        // The bound may be inside of a character.
        let error = text_within(format!("{}é", &text[1..]).as_bytes(), 1).unwrap_err();
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
        let error = text_within(&b"\xff"[..], 1).unwrap_err();
        assert_eq!(error.to_string(), "standard input is not UTF-8 text");
    }
}
