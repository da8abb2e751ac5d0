//! The configuration: text, to what was written, to what is true.
//!
//! A compiler in five passes. `yaml` makes a tree with places, `quotes` looks for
//! values that YAML has cut, `expand` replaces `${...}`, `de` reads the tree into
//! the raw types of `raw`, and `compile` makes the [`Config`] of them. Each pass goes on behind a mistake,
//! so that the [`Report`] shows all of them at once.

mod de;
mod expand;
mod field;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod geo_file;
mod model;
mod node;
mod planned;
mod problem;
mod quotes;
mod scalar;
mod sections;
mod suggest;
mod surroundings;
mod words;
mod yaml;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

pub use geo_file::{FileStamp, GeoFile};
pub use model::{Config, KeySource, Route, RuntimeSettings, StoreSettings, Written};
pub use problem::Report;
pub use scalar::{Endpoint, KeyLimit, KeyWord, ListenAddress, Rate, ScalarError};
use sections::RawConfig;
use surroundings::Surroundings;

/// A configuration that holds together, and what in it is most likely not meant.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The configuration.
    pub config: Config,
    /// The warnings; most often none.
    pub warnings: Report,
    /// The other files that were read for it: certificates, keys, databases, and whatever
    /// `${file:...}` names.
    pub files: Vec<PathBuf>,
}

/// Why a file gives no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read the configuration {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It has mistakes.
    #[error("{report}")]
    Mistakes {
        /// All of them.
        report: Report,
        /// The other files that it names: the mistakes may be in them.
        files: Vec<PathBuf>,
    },
}

/// Reads and compiles the file at `path`, with the environment of the process.
///
/// # Errors
/// If the file cannot be read or has mistakes.
pub fn load(path: &Path) -> Result<Compiled, LoadError> {
    load_again(path, &[])
}

/// The same, while another configuration is in force with these databases: those
/// of which the files are the same are not read again, and where a file cannot be
/// used, the database that was read from it before stays, with a warning.
///
/// # Errors
/// If the file cannot be read or has mistakes.
pub fn load_again(path: &Path, databases: &[GeoFile]) -> Result<Compiled, LoadError> {
    let unreadable = |error| LoadError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than is allowed shows that it is too much, and no more is read.
    file.take(yaml::MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes > yaml::MAX_BYTES) {
        return Err(unreadable(io::Error::other("it is larger than 8 MiB")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| unreadable(io::Error::new(ErrorKind::InvalidData, "it is no UTF-8 text")))?;
    let name = path.to_string_lossy();
    compiled(&text, &name, &|variable| std::env::var(variable).ok(), databases)
        .map_err(|(report, files)| LoadError::Mistakes { report, files })
}

/// The JSON Schema of the file, for editors (draft 2020-12).
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RawConfig).to_value()
}

impl Config {
    /// Compiles `text`. `name` is the file's: it stands in the report, and
    /// relative paths in the text begin in its directory. Variables are
    /// looked up with `env`.
    ///
    /// # Errors
    /// All mistakes of the text at once.
    pub fn parse(
        text: &str,
        name: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Compiled, Report> {
        compiled(text, name, env, &[]).map_err(|(report, _)| report)
    }
}

/// What [`Config::parse`] gives; beside the mistakes the other files that the
/// text names.
fn compiled(
    text: &str,
    name: &str,
    env: &dyn Fn(&str) -> Option<String>,
    databases: &[GeoFile],
) -> Result<Compiled, (Report, Vec<PathBuf>)> {
    let problems = problem::Problems::default();
    let directory = Path::new(name).parent().unwrap_or(Path::new(""));
    let around = Surroundings { env, directory, files: RefCell::default(), databases };
    let config = yaml::parse(text, &problems).and_then(|mut tree| {
        quotes::check(&mut tree, text, &problems);
        expand::expand(&mut tree, &around, &problems);
        let raw: RawConfig = de::read(&tree, &problems)?;
        raw.compile(&around, &problems)
    });
    let (report, files) = (problems.report(name, text), around.files.into_inner());
    match config {
        Some(config) => Ok(Compiled { config, warnings: report, files }),
        None => Err((report, files)),
    }
}

#[cfg(test)]
mod tests;
