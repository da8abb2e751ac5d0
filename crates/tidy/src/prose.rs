//! Documents and comments name clients, nodes and requests, and no vague persons. Phrases that a reader
//! has to read twice have a plain one that replaces them.

use crate::tree::{File, Finding, Tree};

// Written in pieces, so that this file does not violate its own rule.
const VAGUE_WORDS: [&str; 5] = [
    concat!("any", "body"),
    concat!("every", "body"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("who", "ever"),
];
/// Phrases, each with the plain one. The rule applies to all Rust files and documents.
const PHRASES: [(&str, &str); 2] = [
    (concat!("in place", " of"), "instead of"),
    (concat!("of which", " nothing"), "a second sentence"),
];
/// Where the rule on persons applies, in addition to Markdown.
const PLACES: [&str; 10] = [
    ".ci/",
    "bench/",
    "benches/",
    "docker/",
    "examples/",
    "packaging/",
    "scripts/",
    "crates/core/examples/",
    "crates/redis/examples/",
    "crates/tidy/",
];
/// Lines with one of the [`VAGUE_WORDS`].
pub(crate) fn vague_words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| applies_to(file)) {
        for (number, line) in file.lines() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let found = words.find(|word| VAGUE_WORDS.contains(&word.to_lowercase().as_str()));
            findings.extend(found.map(|word| {
                let what = format!("`{word}`: name the client, the node, the request or the user");
                file.finding(number, what)
            }));
        }
    }
    findings
}

/// Lines with one of the [`PHRASES`].
pub(crate) fn phrases(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree.files().filter(|it| it.path.ends_with(".rs") || it.path.ends_with(".md"));
    for file in files {
        for (number, line) in file.lines() {
            let found = PHRASES.iter().find(|(phrase, _)| line.to_lowercase().contains(phrase));
            findings.extend(
                found.map(|(phrase, plain)| {
                    file.finding(number, format!("`{phrase}`: write {plain}"))
                }),
            );
        }
    }
    findings
}

fn applies_to(file: &File) -> bool {
    file.path.ends_with(".md") || PLACES.iter().any(|place| file.path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_in_sources_and_documents() {
        let text = format!("A word {} another.\n", PHRASES[0].0);
        let files = [("docs/a.md", &*text), ("src/a.rs", &*text), ("scripts/a", &*text)];
        let findings: Vec<String> =
            phrases(&Tree::sample(&files)).iter().map(Finding::to_string).collect();
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].ends_with("write instead of"), "{findings:?}");
    }

    #[test]
    fn vague_words_are_found_in_documents_and_scripts() {
        let text = format!("One client. {}\nA test `is_{}s`.\n", VAGUE_WORDS[2], VAGUE_WORDS[2]);
        let capital = format!("# {} waits.\n", VAGUE_WORDS[4].replacen('w', "W", 1));
        let files = [("docs/a.md", &*text), ("src/a.rs", &*text), ("scripts/a", &*capital)];
        let findings: Vec<String> =
            vague_words(&Tree::sample(&files)).iter().map(Finding::to_string).collect();
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("docs/a.md:1: "), "{findings:?}");
        assert!(findings[1].starts_with("scripts/a:1: "), "{findings:?}");
    }
}
