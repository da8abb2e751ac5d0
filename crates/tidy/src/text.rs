//! Rules on the plain text of a file.

use crate::tree::{File, Finding, Tree};

/// The most lines that a Rust file may have.
const MAX_LINES: usize = 500;

// Written in pieces, so that this file does not violate its own rules.
const MARKERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACHINE_PATHS: [&str; 2] = [concat!("/", "work", "/"), concat!("/", "root", "/")];

/// Rust files with more than [`MAX_LINES`].
pub(crate) fn too_long(tree: &Tree) -> Vec<Finding> {
    let judge = |file: &File| {
        let count = file.text.lines().count();
        (count > MAX_LINES).then(|| {
            let what = format!("{count} lines, {MAX_LINES} at most: give one of its jobs a file");
            file.finding(count, what)
        })
    };
    tree.rust().filter_map(judge).collect()
}

/// Rust files that do not open with `//!`.
pub(crate) fn no_opening(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.finding(1, "open with `//!`: what the file is for and what it guarantees"))
        .collect()
}

/// Blanks at the ends of lines, tabs, carriage returns, and last lines without an end.
pub(crate) fn blanks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A golden configuration may be wrong intentionally, for example with a tab.
    for file in tree.files().filter(|file| !file.path.starts_with("tests/config/")) {
        for (number, line) in file.text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(file.finding(number + 1, "remove the blanks at the end of the line"));
            } else if line.contains('\t') {
                findings.push(file.finding(number + 1, "use spaces instead of the tab"));
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            findings.push(file.finding(file.text.lines().count(), "end the last line"));
        }
    }
    findings
}

/// Words that mark unfinished work.
pub(crate) fn markers(tree: &Tree) -> Vec<Finding> {
    each_line(tree, |line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let marker = words.find(|word| MARKERS.contains(word))?;
        Some(format!("`{marker}`: finish it now, or say in plain words what is not done and why"))
    })
}

/// Paths that exist on one machine only.
pub(crate) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    each_line(tree, |line| {
        let path = MACHINE_PATHS.iter().find(|path| line.contains(**path))?;
        Some(format!("`{path}` is on one machine only: use a relative path"))
    })
}

fn each_line(tree: &Tree, judge: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (number, line) in file.lines() {
            findings.extend(judge(line).map(|what| file.finding(number, what)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> usize {
        rule(&Tree::sample(&[(path, text)])).len()
    }

    #[test]
    fn a_rust_file_may_have_as_many_lines_as_the_bound_but_not_one_more() {
        let full = "x\n".repeat(MAX_LINES);
        assert_eq!(count(too_long, "src/a.rs", &full), 0);
        assert_eq!(count(too_long, "src/a.rs", &format!("{full}x\n")), 1);
        assert_eq!(count(too_long, "docs/a.md", &format!("{full}x\n")), 0);
    }

    #[test]
    fn a_rust_file_that_opens_with_code_is_found() {
        assert_eq!(count(no_opening, "src/a.rs", "use b;\n//! Late.\n"), 1);
        assert_eq!(count(no_opening, "src/a.rs", "//! Early.\n"), 0);
    }

    #[test]
    fn blanks_tabs_and_unended_lines_are_found_but_not_in_golden_configurations() {
        assert_eq!(count(blanks, "a.md", "one \ntwo\t\nthree\r\na\tb\nlast"), 5);
        assert_eq!(count(blanks, "tests/config/tab.yaml", "\ta: b \n"), 0);
        assert_eq!(count(blanks, "a.md", "one\n\ntwo\n"), 0);
    }

    #[test]
    fn markers_are_found_as_whole_words_only() {
        for marker in MARKERS {
            assert_eq!(count(markers, "src/a.rs", &format!("// {marker}: later\n")), 1);
            assert_eq!(count(markers, "src/a.rs", &format!("// a{marker} {marker}S\n")), 0);
        }
    }

    #[test]
    fn machine_paths_are_found_in_every_kind_of_file() {
        for path in MACHINE_PATHS {
            assert_eq!(count(machine_paths, "scripts/a", &format!("cd {path}b\n")), 1);
        }
        assert_eq!(count(machine_paths, "scripts/a", "cd /usr/local\n"), 0);
    }
}
