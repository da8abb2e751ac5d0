//! The configuration: a compiler from the text of `gateway.yaml` to settings.
//!
//! It has seven passes. `yaml` parses the text into a tree of nodes with their positions.
//! `short_forms` replaces short forms of sections by the long ones. `secret_places` marks what may be secret, so that no report shows it. `quotes` finds values that
//! YAML ends too early because they are not in quotes. `expand` replaces `${...}`. `de` reads the
//! tree into the types of `sections`, which mirror the file. These types compile to a [`Config`].
//! Each pass continues after a mistake, so that the [`Report`] shows all mistakes at once.
//! `effective` goes the other way: it shows what is true of a file, with all defaults.

mod admin_access;
mod api_keys;
pub(crate) mod byte_order_mark;
mod classes;
mod de;
mod definitions;
mod document;
mod edit;
mod effective;
mod excerpt;
mod expand;
mod field;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod geo_file;
mod given;
mod held_files;
mod held_text;
mod key_forms;
mod kind;
mod model;
mod neighbours;
mod node;
mod password_file;
mod prices;
mod problem;
mod progress;
mod quotes;
mod ratelimit;
mod regular_file;
mod restart;
mod scalar;
mod secrecy;
mod secret_places;
mod sections;
mod shared_sections;
mod short_forms;
mod shown;
mod suggest;
mod surroundings;
mod text_file;
mod words;
mod yaml;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use admin_access::admin_access;
pub use api_keys::ApiKeyFile;
pub(crate) use api_keys::{
    Unusable as UnusableKeys, mistakes as api_key_mistakes, number_in as api_keys_in,
};
pub(crate) use document::{Document, masked};
pub(crate) use edit::{NotInPlace, edited};
pub(crate) use effective::Effective;
use excerpt::Excerpts;
pub use geo_file::{FileStamp, GeoFile};
pub(crate) use given::Variables;
pub(crate) use held_files::{HeldFiles, NO_FILES};
pub(crate) use key_forms::{foreign_document, imported_keys, key_readers};
pub(crate) use model::AdminAccess;
pub use model::{
    Config, KeySource, PasswordCommand, Route, RuntimeSettings, Signed, StoreSettings, Written,
};
pub use password_file::PasswordFile;
pub(crate) use prices::check as check_prices;
pub use problem::{Report, Reported};
pub(crate) use progress::Progress;
pub(crate) use regular_file::{check as check_regular, open as open_regular};
pub use scalar::{Date, Endpoint, KeyLimit, ListenAddress, LoneKey, Rate, ScalarError};
use sections::RawConfig;
pub(crate) use sections::{private_key, temporary_admin};
pub use surroundings::NamedFile;
use surroundings::Surroundings;
pub(crate) use text_file::read;

/// A configuration without mistakes, and warnings of what is most likely not intended.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The configuration.
    pub config: Config,
    /// The warnings. Usually there are none.
    pub warnings: Report,
    /// The other files that were read: certificates, keys, databases, and the files in
    /// `${file:...}`.
    pub(crate) files: Vec<NamedFile>,
    /// The file as it may be shown.
    pub(crate) document: Document,
    /// The stamp of the file before it was read, if [`load`] has read it from a regular file.
    pub(crate) stamp: Option<FileStamp>,
}

/// Why a file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

/// The mistakes of a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{report}")]
pub struct Mistakes {
    /// All mistakes.
    pub report: Report,
    /// The other files that the configuration names. The mistakes may be in them.
    pub files: Vec<NamedFile>,
}

/// Reads and compiles the file at `path`, with the environment of the process. `path` is given by
/// the user of the process, and may be a pipe, such as `/dev/stdin`. Files that the text names are
/// regular files.
///
/// # Errors
/// If the file cannot be read or has mistakes.
pub fn load(path: &Path) -> Result<Compiled, LoadError> {
    let read = text_file::read_any(path).map_err(|error| unreadable(path, error))?;
    let compiled = load_text(&read.text, path, &NO_FILES, &Progress::default())?;
    Ok(Compiled { stamp: read.stamp, ..compiled })
}

/// Reads and compiles the file while a configuration with these files is in use. A file that has
/// not changed is not read again. If a file cannot be used, what was read from it before stays in
/// use, with a warning.
///
/// # Errors
/// If the file cannot be read or has mistakes.
pub(crate) fn load_again(
    path: &Path,
    held: &HeldFiles,
    progress: &Progress,
) -> Result<Compiled, LoadError> {
    progress.at(path);
    let text = read(path).map_err(|error| unreadable(path, error))?;
    Ok(load_text(&text, path, held, progress)?)
}

fn unreadable(path: &Path, error: io::Error) -> LoadError {
    LoadError::Unreadable { path: path.to_owned(), error }
}

/// Compiles `text` as if it was in the file at `path`, while a configuration with these files is in
/// use.
///
/// # Errors
/// If the text has mistakes.
pub(crate) fn load_text(
    text: &str,
    path: &Path,
    held: &HeldFiles,
    progress: &Progress,
) -> Result<Compiled, Mistakes> {
    let name = path.to_string_lossy();
    let env = |variable: &str| std::env::var(variable).ok();
    compiled(text, &name, &env, held, progress)
}

/// What of a configuration needs a restart: the paths, those below them that do not, and a digest of
/// their values. `tollgate check --json` prints it.
pub(crate) fn needs_restart(document: &Document) -> serde_json::Value {
    serde_json::json!({
        "settings": restart::SETTINGS,
        "except": restart::EXCEPT,
        "digest": restart::digest(&document.written),
    })
}

/// Compiles `text`, which is in no file and which messages call `name`, with these variables besides
/// the environment of the process, while a configuration with these files is in use. Relative paths
/// begin in the directory of the process.
///
/// # Errors
/// If the text has mistakes.
pub(crate) fn load_given(
    text: &str,
    name: &str,
    variables: &Variables,
    held: &HeldFiles,
    progress: &Progress,
) -> Result<Compiled, Mistakes> {
    compiled(text, name, &|variable: &str| variables.get(variable), held, progress)
}

/// The JSON Schema of the file, for editors (draft 2020-12).
pub fn schema() -> serde_json::Value {
    kind::SCHEMA.clone()
}

impl Config {
    /// Compiles `text`. `name` is the path of the file: it appears in the report, and relative
    /// paths in the text begin in its directory. `env` gives the values of variables.
    ///
    /// # Errors
    /// A report of all mistakes in the text.
    pub fn parse(
        text: &str,
        name: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Compiled, Report> {
        compiled(text, name, env, &NO_FILES, &Progress::default()).map_err(|it| it.report)
    }
}

/// Compiles `text`, see [`Config::parse`]. The error also contains the other files that the text
/// names.
fn compiled(
    text: &str,
    name: &str,
    env: &dyn Fn(&str) -> Option<String>,
    held: &HeldFiles,
    progress: &Progress,
) -> Result<Compiled, Mistakes> {
    let problems = problem::Problems::default();
    let around = Surroundings::new(name, env, held, progress);
    let mut excerpts = Excerpts::of_names(&kind::NAMES);
    let compiled = yaml::parse(text, &problems).and_then(|mut tree| {
        short_forms::expand(&mut tree, &problems);
        secret_places::mark(&mut tree);
        let written = shown::shown(&tree);
        quotes::check(&mut tree, text, &problems);
        excerpts = std::mem::take(&mut excerpts).with_values(&tree);
        yaml::check_names(&mut tree, &problems);
        expand::expand(&mut tree, &around, &problems);
        let raw: RawConfig = de::read(&tree, &problems)?;
        let config = raw.compile(&around, &problems)?;
        let document = Document::new(text, written, &tree);
        let definitions = definitions::definitions(&tree, &document, raw, &config);
        Some((Config { definitions: Arc::new(definitions), ..config }, document))
    });
    let report = problems.report(name, text, &excerpts);
    let files = around.files.into_inner();
    match compiled {
        Some((config, document)) => {
            Ok(Compiled { config, warnings: report, files, document, stamp: None })
        }
        None => Err(Mistakes { report, files }),
    }
}

#[cfg(test)]
mod tests;
