//! The file with the classes of clients. It is read as a whole, and again only after it changed.

mod entries;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use tollgate_core::policy::ClassTable;

use super::excerpt::Excerpts;
use super::field::List;
use super::held_text::{HeldText, Unusable};
use super::problem::{Problems, Report};
use super::{de, yaml};
use entries::RawClass;

/// The largest file, in MiB.
const MAX_MIB: u64 = 4;

/// The classes of a file, as it was read last.
pub type ClassFile = HeldText<ClassTable>;

/// Reads the file at `path`, which the configuration names `name`.
///
/// # Errors
/// If it cannot be read, or has mistakes.
pub fn read(
    path: PathBuf,
    name: &str,
    known: Option<&ClassFile>,
) -> Result<ClassFile, Unusable<Report>> {
    HeldText::read(path, name, known, MAX_MIB, |text| {
        let problems = Problems::default();
        match compile(text, &problems) {
            Some(table) if !problems.any_errors() => Ok(table),
            _ => Err(problems.report(name, text, &Excerpts::default())),
        }
    })
}

/// The classes of a text, as far as it has no mistakes.
fn compile(text: &str, problems: &Problems) -> Option<ClassTable> {
    let mut tree = yaml::parse_long(text, "write a list of classes, or []", problems)?;
    yaml::check_names(&mut tree, problems);
    let raw: List<RawClass> = de::read(&tree, problems)?;
    Some(entries::compile(&raw, problems))
}
