//! Runs every target over its corpus, and over random variations of it.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

/// The number of inputs that are derived from the corpus of each target.
const CASES: u32 = 500;

/// Bytes with a meaning for at least one target.
const WORDS: &[&str] = &[
    "\r\n",
    "\n",
    ":",
    ";",
    ",",
    "=",
    "/",
    "//",
    "%",
    "%2e",
    "..",
    "\"",
    "\\",
    "[",
    "]",
    "{",
    "}",
    "0",
    "-1",
    "18446744073709551616",
    "\u{e9}",
    "\0",
    "\u{7f}",
    " ",
    "\t",
    "HTTP/1.1",
    "${",
];

/// The files of a target's corpus with their contents.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = fs::read_dir(directory).expect("every target has a corpus");
    let mut files: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("the directory can be read").path();
            let input = fs::read(&path).expect("the file can be read");
            (path, input)
        })
        .collect();
    files.sort();
    files
}

/// A random change of an input.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Cut(Index, usize),
    Insert(Index, &'static str),
    /// The rest of another input.
    Splice(Index, Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<Index>(), 1_usize..20).prop_map(|(at, length)| Change::Cut(at, length)),
        (any::<Index>(), select(WORDS)).prop_map(|(at, word)| Change::Insert(at, word)),
        any::<(Index, Index)>().prop_map(|(at, other)| Change::Splice(at, other)),
    ];
    vec(change, 1..6)
}

fn changed(mut input: Vec<u8>, changes: &[Change], others: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    for change in changes {
        let at = |index: &Index| index.index(input.len() + 1);
        match change {
            Change::Byte(index, byte) => {
                let at = at(index);
                input.splice(at..input.len().min(at + 1), [*byte]);
            }
            Change::Cut(index, length) => {
                let at = at(index);
                input.drain(at..input.len().min(at + length));
            }
            Change::Insert(index, word) => {
                let at = at(index);
                input.splice(at..at, word.bytes());
            }
            Change::Splice(index, other) => {
                let (_, other) = &others[other.index(others.len())];
                input.truncate(at(index));
                input.extend(&other[index.index(other.len() + 1)..]);
            }
        }
    }
    input
}

/// Runs a target over its corpus, and over random variations of it.
fn run(name: &str, target: fn(&[u8])) {
    let files = corpus(name);
    for (path, input) in &files {
        if std::panic::catch_unwind(|| target(input)).is_err() {
            panic!("the target {name} fails on {}", path.display());
        }
    }
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() };
    let inputs = (any::<Index>(), changes());
    let inputs = inputs.prop_map(|(at, changes)| {
        let (_, input) = &files[at.index(files.len())];
        changed(input.clone(), &changes, &files)
    });
    let ran = TestRunner::new(config).run(&inputs, |input| {
        target(&input);
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("the target {name}: {failure}");
    }
}

/// Creates a test for each target, with the target's name.
macro_rules! targets {
    ($($target:ident)*) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),*];
        $(
            #[test]
            fn $target() {
                run(stringify!($target), super::$target);
            }
        )*
    };
}

targets! {
    agents api_keys asks bodies certificate chunks config descriptors event_streams families
    forwarding frames guard head hops hosts import_nginx import_yaml jwt keys leases logs messages meters
    origins passwords paths pointers prices proxied questions redis responses targets verdicts
}

#[test]
fn every_target_has_a_program() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/src/bin");
    let programs = fs::read_dir(programs).expect("it is part of the project");
    let mut names: Vec<_> = programs
        .map(|program| program.expect("the directory can be read").path())
        .map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, TARGETS);
}
