//! Finds files and items with names that say nothing.

use crate::code;
use crate::tree::{File, Finding, Tree};

const EMPTY_WORDS: [&str; 6] = ["util", "utils", "helper", "helpers", "manager", "managers"];
const DECLARATIONS: [&str; 8] = ["mod", "struct", "enum", "trait", "fn", "type", "const", "static"];

/// Files and declarations with one of the [`EMPTY_WORDS`] in their names.
pub(crate) fn empty_words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        findings.extend(file.path.split(['/', '.']).find_map(|part| judge(file, 1, part)));
    }
    for file in tree.rust() {
        for (number, line) in (1..).zip(code::only(&file.text).lines()) {
            findings.extend(declared(line).find_map(|name| judge(file, number, name)));
        }
    }
    findings
}

fn judge(file: &File, line: usize, name: &str) -> Option<Finding> {
    let word = words(name).into_iter().find(|word| EMPTY_WORDS.contains(&word.as_str()))?;
    let what = format!("`{word}` in `{name}` says nothing: name it after what it does or holds");
    Some(file.finding(line, what))
}

/// The names that `line` declares.
fn declared(line: &str) -> impl Iterator<Item = &str> {
    let names = line.split(|c| !code::is_name(c)).filter(|name| !name.is_empty());
    let pairs = names.clone().zip(names.skip(1));
    pairs.filter(|(keyword, _)| DECLARATIONS.contains(keyword)).map(|(_, name)| name)
}

/// The words of a name: `KeyManager` and `key_manager` are both `key` and `manager`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c.is_uppercase() || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        empty_words(&Tree::sample(&[(path, text)])).len()
    }

    #[test]
    fn files_and_directories_are_judged_by_their_names() {
        assert_eq!(count("src/utils.rs", ""), 1);
        assert_eq!(count("tests/it/test_helpers/mod.rs", ""), 1);
        assert_eq!(count("src/utilisation.rs", ""), 0);
    }

    #[test]
    fn declarations_are_judged_but_uses_of_foreign_names_are_not() {
        assert_eq!(count("src/a.rs", "pub struct KeyManager;\nfn read_helper() {}\n"), 2);
        assert_eq!(count("src/a.rs", "use redis::aio::ConnectionManager; // the manager\n"), 0);
    }
}
