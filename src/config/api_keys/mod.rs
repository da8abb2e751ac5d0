//! The file with API keys and teams. It is read as a whole, and again only after it changed.
//!
//! No message about it shows a value from a place where a key or a digest may stand.

mod entries;
mod limits;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_core::api_keys::{KeyForm, KeyTable};

use super::excerpt::Excerpts;
use super::geo_file::FileStamp;
use super::problem::{Problems, Report, Reported};
use super::{de, held_text, yaml};
use entries::RawKeyFile;
pub use limits::WrittenLimit;

/// The largest file, in MiB. A key with all its fields has about 300 bytes.
const MAX_MIB: u64 = 64;

/// The keys of a file, as it was read last.
#[derive(Clone, Debug)]
pub struct ApiKeyFile {
    path: PathBuf,
    /// The file as the configuration names it.
    pub name: String,
    stamp: FileStamp,
    /// The form of its keys.
    form: KeyForm,
    /// The keys.
    pub table: Arc<KeyTable>,
    /// Their limits, which their policies must count.
    pub limits: Arc<[WrittenLimit]>,
    /// Whether these are the keys that the file has now. If not, it has mistakes.
    pub is_current: bool,
}

/// Why a file gives no keys.
pub type Unusable = held_text::Unusable<Report>;

/// A file that was read, with its warnings.
pub struct Reading {
    /// The keys.
    pub file: ApiKeyFile,
    /// What is most likely not intended. None: the file was not read again.
    pub warnings: Option<Report>,
}

impl ApiKeyFile {
    /// Whether it was read from the file at this path, for keys of this form.
    pub fn is_of(&self, path: &Path, form: &KeyForm) -> bool {
        self.path == path && self.form == *form
    }

    /// The same keys, after the file could not be read again.
    #[must_use]
    pub fn outdated(self) -> Self {
        Self { is_current: false, ..self }
    }

    /// Reads the file at `path`, which the configuration names `name`. If `known` is the same file,
    /// it is not read again.
    ///
    /// # Errors
    /// If it cannot be read, or has mistakes.
    pub fn read(
        path: PathBuf,
        name: &str,
        form: &KeyForm,
        known: Option<&Self>,
    ) -> Result<Reading, Unusable> {
        let before = FileStamp::of(&path);
        let same = known.filter(|it| it.is_current && it.is_of(&path, form));
        if let Some(same) = same.filter(|it| Some(it.stamp) == before) {
            return Ok(Reading { file: same.clone(), warnings: None });
        }
        let (text, stamp) = held_text::read(&path, MAX_MIB).map_err(Unusable::Unreadable)?;
        let problems = Problems::default();
        let compiled = compile(&text, form, &problems);
        let is_broken = problems.any_errors();
        let report = problems.report(name, &text, &Excerpts::default());
        match compiled {
            Some((table, limits)) if !is_broken => {
                let table = Arc::new(table);
                let form = form.clone();
                let name = name.to_owned();
                let limits = limits.into();
                let file = Self { path, name, stamp, form, table, limits, is_current: true };
                Ok(Reading { file, warnings: Some(report) })
            }
            _ => Err(Unusable::Mistakes(report)),
        }
    }
}

/// The mistakes in a text, one a line, if there are any.
pub fn mistakes(name: &str, text: &str, form: &KeyForm) -> Option<String> {
    let problems = Problems::default();
    let table = compile(text, form, &problems);
    let is_broken = problems.any_errors() || table.is_none();
    let report = problems.report(name, text, &Excerpts::default());
    let line = |it: Reported<'_>| {
        let advice = if it.advice.is_empty() { "" } else { "; " };
        format!("{name}:{}:{}: {}{advice}{}", it.line, it.column, it.message, it.advice)
    };
    is_broken.then(|| report.problems().map(line).collect::<Vec<_>>().join("\n"))
}

/// The number of keys in a text. None: it has mistakes.
pub fn number_in(text: &str, form: &KeyForm) -> Option<usize> {
    let problems = Problems::default();
    let (table, _) = compile(text, form, &problems)?;
    (!problems.any_errors()).then(|| table.len())
}

/// The keys of a text, as far as it has no mistakes, and their limits.
pub fn compile(
    text: &str,
    form: &KeyForm,
    problems: &Problems,
) -> Option<(KeyTable, Vec<WrittenLimit>)> {
    if text.trim().is_empty() {
        return Some(Default::default());
    }
    let mut tree = yaml::parse_long(text, "write keys: []", problems)?;
    yaml::check_names(&mut tree, problems);
    let raw: RawKeyFile = de::read(&tree, problems)?;
    Some(raw.compile(form, problems))
}
