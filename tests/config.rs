//! Mistakes in a configuration, and the exact report that each of them gets.
//!
//! `tests/config/NAME.yaml` is compiled and its report compared with
//! `NAME.report`. With `UPDATE_GOLDEN=1` in the environment the reports are
//! written anew; read the difference before you commit it.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate::config::Config;

/// What the variable `SECRET` holds: it must never be seen in a report.
const SECRET: &str = "hunter2-is-not-a-good-secret-at-all";

fn env(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some(SECRET.to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

/// What a user sees: the mistakes, or the warnings if there are none.
fn report(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let report = match Config::parse(&text, "gateway.yaml", &env) {
        Ok(compiled) => compiled.warnings,
        Err(report) => report,
    };
    if report.is_empty() { String::new() } else { format!("{report}\n") }
}

#[test]
fn every_mistake_gets_its_exact_report() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for path in files() {
        let actual = report(&path);
        let golden = path.with_extension("report");
        if update {
            fs::write(&golden, &actual).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if actual != expected {
            wrong.push(format!("{}\nexpected:\n{expected}\nactual:\n{actual}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 accepts them all", wrong.join("\n"));
}

#[test]
fn every_golden_file_has_something_to_report() {
    let files = files();
    assert!(files.len() >= 40, "only {} files", files.len());
    for path in files {
        assert!(!report(&path).is_empty(), "{} has no mistake", path.display());
    }
}

#[test]
fn no_report_shows_what_a_reference_stands_for() {
    for path in files() {
        let report = report(&path);
        assert!(!report.contains("hunter2"), "{}:\n{report}", path.display());
    }
}

#[test]
fn the_shipped_configuration_compiles_without_warnings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway.yaml");
    let text = fs::read_to_string(path).unwrap();
    let compiled = Config::parse(&text, "gateway.yaml", &|_| None).unwrap();
    assert!(compiled.warnings.is_empty(), "{}", compiled.warnings);
    assert!(text.lines().count() < 60);
}
