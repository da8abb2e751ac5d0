//! `tollgate key`: makes API keys and their hashes. A secret comes by standard input and goes to
//! standard output, and nowhere else.

mod args;
mod entry;

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use thiserror::Error;
use tollgate_core::api_keys::{KeyDigest, KeyForm, NewKey, PrefixError};

use super::console::say;
use super::whole_file::{Edited, NotWritten};
use crate::config::{api_key_mistakes, api_keys_in};
use args::CreateArgs;
pub use args::{EXAMPLES, KeyArgs, KeyCommand};

/// The longest key that is read.
const MAX_KEY: u64 = 64 * 1024;
/// The mode of a new file: it tells who has keys, and which.
const MODE: u32 = 0o600;

/// Why there is no key or no hash.
#[derive(Debug, Error)]
pub enum Problem {
    /// No keys can have this prefix.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// What was asked for cannot be in a file.
    #[error("no key is made: {0}")]
    Entry(String),
    /// The file has mistakes.
    #[error("{path} has mistakes, and is not changed:\n{mistakes}", path = path.display())]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// The mistakes.
        mistakes: String,
    },
    /// The end of the file is not that of a list of keys.
    #[error(
        "{0} does not end with its list of keys, and is not changed: make the key without --file, and add the entry"
    )]
    Form(PathBuf),
    /// Another program has written the file.
    #[error("{0} was changed in the meantime, and no key is made: run it again")]
    Changed(PathBuf),
    /// The file cannot be read or written.
    #[error("{path} cannot be changed: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Standard input cannot be read.
    #[error("standard input cannot be read: {0}")]
    Input(#[from] io::Error),
    /// There is no key on standard input.
    #[error("there is no key on standard input; write: tollgate key hash < FILE")]
    NoKey,
    /// The entry of a new key is in the file, and its text is lost.
    #[error(
        "{path} has the key {id}, but its text cannot be written: {error}; remove its entry, and make another key",
        path = path.display()
    )]
    NotShown {
        /// The file.
        path: PathBuf,
        /// The key.
        id: String,
        /// Why its text is lost.
        error: io::Error,
    },
    /// The output cannot be written. Nothing has changed.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// What was read is not one key.
    #[error("standard input has more than one line, or a line above 64 KiB; give it one key")]
    ManyLines,
}

impl Problem {
    /// Whether the fault is in the arguments, the input or the file.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Prefix(_)
            | Self::Entry(_)
            | Self::Mistakes { .. }
            | Self::Form(_)
            | Self::File { .. }
            | Self::NoKey
            | Self::ManyLines => true,
            Self::Changed(_) | Self::Input(_) | Self::NotShown { .. } | Self::Output(_) => false,
        }
    }
}

/// Runs a command that is not about a store.
///
/// # Errors
/// If there is no key or no hash, or the output is closed: a secret that is not read is lost.
pub fn run(args: &KeyArgs) -> Result<(), Problem> {
    match &args.command {
        KeyCommand::Create(args) => create(args),
        KeyCommand::Hash => print(&hash()?.to_string()).map_err(Problem::Output),
        KeyCommand::Stored(_) => Ok(()),
    }
}

fn print(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// The hash of the key on standard input. One end of a line is not a part of it.
fn hash() -> Result<KeyDigest, Problem> {
    let input = io::stdin();
    if input.is_terminal() {
        say("type or paste the key, and then Enter");
    }
    let mut key = Vec::new();
    let mut input = input.lock().take(MAX_KEY + 1);
    input.read_until(b'\n', &mut key)?;
    let is_line = key.ends_with(b"\n") || u64::try_from(key.len()).is_ok_and(|it| it <= MAX_KEY);
    let is_alone = io::stdin().is_terminal() || input.fill_buf()?.is_empty();
    if !is_line || !is_alone {
        return Err(Problem::ManyLines);
    }
    let key = key.strip_suffix(b"\n").unwrap_or(&key);
    let key = key.strip_suffix(b"\r").unwrap_or(key);
    if key.is_empty() {
        return Err(Problem::NoKey);
    }
    Ok(KeyDigest::of(key))
}

fn create(args: &CreateArgs) -> Result<(), Problem> {
    let form = KeyForm::new(&args.prefix)?;
    let key = NewKey::generate(&form);
    let entry = entry::entry(args, &key);
    // The entry alone, so that a mistake in the arguments is not told as one of the file.
    let alone = entry::with_entry("", &entry);
    if let Some(mistakes) = api_key_mistakes("the key", &alone, &form) {
        return Err(Problem::Entry(mistakes));
    }
    let Some(path) = &args.file else {
        return print(&format!("{}\n{entry}", key.text)).map_err(Problem::Output);
    };
    let refused = |error| Problem::File { path: path.clone(), error };
    let (file, before) = Edited::read(path).map_err(refused)?;
    if let Some(mistakes) = api_key_mistakes(&path.to_string_lossy(), &before, &form) {
        return Err(Problem::Mistakes { path: path.clone(), mistakes });
    }
    let after = entry::with_entry(&before, &entry);
    if api_keys_in(&after, &form) != api_keys_in(&before, &form).map(|keys| keys + 1) {
        let mistakes = api_key_mistakes(&path.to_string_lossy(), &after, &form);
        return Err(match mistakes.filter(|it| it.contains("there is no team")) {
            Some(mistakes) => Problem::Entry(mistakes),
            None => Problem::Form(path.clone()),
        });
    }
    file.write(&after, MODE).map_err(|error| match error {
        NotWritten::Changed => Problem::Changed(path.clone()),
        NotWritten::Refused(error) => refused(error),
    })?;
    say(&format!(
        "{} has the key {}; this is its text, which is not shown again:",
        path.display(),
        key.id
    ));
    let lost = |error| Problem::NotShown { path: path.clone(), id: key.id.to_string(), error };
    print(&key.text).map_err(lost)
}
