//! Reads the configuration directory of envoyproxy/ratelimit, unchanged.
//!
//! Every file below the directory counts, whatever its name, except names that begin with a dot.
//! Links are followed, as Kubernetes mounts files behind links. Each file is about one domain.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::excerpt::Excerpts;
use super::problem::{Problems, Report};
use super::text_file;
use crate::check::rls::{Domains, Level};

/// The most files and directories below the directory.
const MAX_FILES: usize = 10_000;
/// How deep directories may be nested.
const MAX_DEPTH: usize = 16;
/// The most descriptors in all files.
const MAX_DESCRIPTORS: usize = 1_000_000;

/// What a directory contains.
#[derive(Debug, Default)]
pub struct Directory {
    /// The rules. Files with mistakes may be left out.
    pub domains: Domains,
    /// The reports of mistakes and warnings, one for each file that has any.
    pub reports: Vec<(PathBuf, Report)>,
    /// Whether any of the reports has a mistake.
    pub is_faulty: bool,
}

/// The files and directories that are to be read.
#[derive(Debug)]
pub struct Listing {
    /// The directory itself and all that was found below it, in the order of the names. All of
    /// them may change, also if the listing is not complete.
    pub paths: Vec<PathBuf>,
    /// Why the listing is not complete.
    failure: Option<String>,
}

impl Listing {
    /// The directory at `path` and all that is below it.
    pub fn of(path: &Path) -> Self {
        let mut paths = Vec::new();
        let failure = list(path, 0, &mut paths).err();
        Self { paths, failure }
    }
}

/// Reads the files of the listing. `merge`: several files may be about the same domain. `next` is
/// called with each file before it is read.
///
/// # Errors
/// If the directory or a file in it cannot be read, or there are too many.
pub fn read(listing: &Listing, merge: bool, next: impl Fn(&Path)) -> Result<Directory, String> {
    if let Some(failure) = &listing.failure {
        return Err(failure.clone());
    }
    let mut reading = Reading { levels: BTreeMap::new(), merge };
    let mut directory = Directory::default();
    for path in &listing.paths {
        next(path);
        if path.is_dir() {
            continue;
        }
        let name = path.to_string_lossy();
        let text = text_file::read(path).map_err(|error| unreadable(path, &error))?;
        let problems = Problems::default();
        reading.file(&text, &problems);
        directory.is_faulty |= problems.any_errors();
        let report = problems.report(&name, &text, &Excerpts::default());
        if !report.is_empty() {
            directory.reports.push((path.clone(), report));
        }
    }
    directory.domains = Domains::new(reading.levels);
    if directory.domains.len() > MAX_DESCRIPTORS {
        return Err(format!("the files contain more than {MAX_DESCRIPTORS} descriptors"));
    }
    Ok(directory)
}

/// The domains that were read so far.
struct Reading {
    levels: BTreeMap<Box<str>, Level>,
    merge: bool,
}

/// Adds the directory and all that is below it, in the order of the names.
fn list(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let unreadable = |error: io::Error| unreadable(directory, &error);
    found.push(directory.to_owned());
    if found.len() > MAX_FILES || depth > MAX_DEPTH {
        return Err(format!("there are more than {MAX_FILES} files, or they are too deep"));
    }
    let entries = fs::read_dir(directory).map_err(unreadable)?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    let mut paths = paths.map_err(unreadable)?;
    paths.sort();
    for path in paths {
        let is_hidden =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().first() == Some(&b'.'));
        if is_hidden {
            continue;
        }
        if path.is_dir() {
            list(&path, depth + 1, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be read: {error}", path.display())
}
