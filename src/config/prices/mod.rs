//! The file with the prices of models. It is read as a whole, and again only after it changed.

pub mod entries;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use tollgate_core::price::PriceTable;

use super::excerpt::Excerpts;
use super::field::{Entries, Field};
use super::held_text::{HeldText, Unusable};
use super::problem::{Problems, Report};
use super::{de, yaml};
use entries::RawPrice;

/// The largest file, in MiB.
const MAX_MIB: u64 = 8;

/// The prices of a file, as it was read last.
pub type PriceFile = HeldText<PriceTable>;

/// Reads the file at `path`, which the configuration names `name`.
///
/// # Errors
/// If it cannot be read, or has mistakes.
pub fn read(
    path: PathBuf,
    name: &str,
    known: Option<&PriceFile>,
) -> Result<PriceFile, Unusable<Report>> {
    HeldText::read(path, name, known, MAX_MIB, |text| {
        let problems = Problems::default();
        match compile(text, &problems) {
            Some(table) if !problems.any_errors() => Ok(table),
            _ => Err(problems.report(name, text, &Excerpts::default())),
        }
    })
}

/// What is wrong with the text of a file of prices.
///
/// # Errors
/// All mistakes.
pub fn check(text: &str) -> Result<(), Report> {
    let problems = Problems::default();
    match compile(text, &problems) {
        Some(_) if !problems.any_errors() => Ok(()),
        _ => Err(problems.report("prices.yaml", text, &Excerpts::default())),
    }
}

/// The prices of a text, as far as it has no mistakes.
fn compile(text: &str, problems: &Problems) -> Option<PriceTable> {
    let mut tree = yaml::parse_long(text, "write the prices of models, or {}", problems)?;
    yaml::check_names(&mut tree, problems);
    let raw: Field<Entries<RawPrice>> = de::read(&tree, problems)?;
    Some(entries::compile(&raw, problems))
}
