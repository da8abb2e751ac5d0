//! The file with the classes of clients. It is read as a whole, and again only after it changed.

mod entries;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_core::policy::ClassTable;

use super::api_keys::Unusable;
use super::excerpt::Excerpts;
use super::field::List;
use super::geo_file::FileStamp;
use super::problem::Problems;
use super::{de, held_text, yaml};
use entries::RawClass;

/// The largest file, in MiB.
const MAX_MIB: u64 = 4;

/// The classes of a file, as it was read last.
#[derive(Clone, Debug)]
pub struct ClassFile {
    path: PathBuf,
    /// The file as the configuration names it.
    pub name: String,
    stamp: FileStamp,
    /// The classes.
    pub table: Arc<ClassTable>,
    /// Whether these are the classes that the file has now. If not, it has mistakes.
    pub is_current: bool,
}

impl ClassFile {
    /// Whether it was read from the file at this path.
    pub fn is_of(&self, path: &Path) -> bool {
        self.path == path
    }

    /// The same classes, after the file could not be read again.
    #[must_use]
    pub fn outdated(self) -> Self {
        Self { is_current: false, ..self }
    }

    /// Reads the file at `path`, which the configuration names `name`. If `known` is the same file,
    /// it is not read again.
    ///
    /// # Errors
    /// If it cannot be read, or has mistakes.
    pub fn read(path: PathBuf, name: &str, known: Option<&Self>) -> Result<Self, Unusable> {
        let before = FileStamp::of(&path);
        let same = known.filter(|it| it.is_current && it.is_of(&path));
        if let Some(same) = same.filter(|it| Some(it.stamp) == before) {
            return Ok(same.clone());
        }
        let (text, stamp) = held_text::read(&path, MAX_MIB).map_err(Unusable::Unreadable)?;
        let problems = Problems::default();
        let table = compile(&text, &problems);
        match table {
            Some(table) if !problems.any_errors() => {
                let (table, name) = (Arc::new(table), name.to_owned());
                Ok(Self { path, name, stamp, table, is_current: true })
            }
            _ => Err(Unusable::Mistakes(problems.report(name, &text, &Excerpts::default()))),
        }
    }
}

/// The classes of a text, as far as it has no mistakes.
fn compile(text: &str, problems: &Problems) -> Option<ClassTable> {
    let mut tree = yaml::parse_long(text, "write a list of classes, or []", problems)?;
    yaml::check_names(&mut tree, problems);
    let raw: List<RawClass> = de::read(&tree, problems)?;
    Some(entries::compile(&raw, problems))
}
