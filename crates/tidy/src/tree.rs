//! The files of the project, and the findings of rules.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The root of the project.
pub(crate) fn root() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).expect("it is two folders below the root").to_owned()
}

/// One file.
pub(crate) struct File {
    /// The path from the project's root, with `/` between the parts.
    pub(crate) path: String,
    /// The text of the file; empty if it is not UTF-8.
    pub(crate) text: String,
}

impl File {
    /// Whether the file is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// A finding in line `line`.
    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }
}

/// A violation of a rule: its place, what it is, and how to correct it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

impl Finding {
    /// A fault of the folder at `path`.
    pub(crate) fn at(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 1, what: what.into() }
    }
}

/// All files, ordered by path.
pub(crate) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// All files below `root`, except those of git, cargo and fuzzers.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        read_directory(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// A tree of `(path, text)`, for tests of rules.
    pub(crate) fn sample(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        Self { files: files.iter().map(file).collect() }
    }

    /// All files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The Rust sources.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files().filter(|file| file.is_rust())
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files().find(|file| file.path == path)
    }

    /// Whether `path` is a file, or a directory that holds one.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let within = |file: &File| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        path.is_empty() || self.files().any(within)
    }
}

fn read_directory(directory: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        // The inputs of fuzz targets are arbitrary bytes; dist is a release.
        if name == ".git" || name == "target" || path == "fuzz/corpus" || path == "dist" {
            continue;
        } else if kind.is_dir() {
            read_directory(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
            files.push(File { path, text });
        }
    }
    Ok(())
}
