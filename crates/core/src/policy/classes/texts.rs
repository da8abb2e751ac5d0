//! Many texts, searched for in one pass (Aho and Corasick, "Efficient string matching", 1975).

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::set::ClassSet;

/// The texts of all classes.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// None: there are no texts.
    automaton: Option<AhoCorasick>,
    /// The class of each text.
    classes: Vec<usize>,
}

impl Texts {
    /// Texts with the places of their classes. ASCII letters have no case.
    pub(super) fn new<'t>(texts: impl Iterator<Item = (&'t str, usize)>) -> Self {
        let (texts, classes): (Vec<&str>, Vec<usize>) = texts.unzip();
        // Its size is linear in that of the texts, which a table of all steps is not.
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&texts)
            .expect("the texts of a file have fewer than 2^31 bytes");
        Self { automaton: (!texts.is_empty()).then_some(automaton), classes }
    }

    /// The classes of which `value` contains a text.
    pub(super) fn found_in(&self, value: &[u8]) -> ClassSet {
        let mut found = ClassSet::default();
        for text in self.automaton.iter().flat_map(|it| it.find_overlapping_iter(value)) {
            found.add(self.classes[text.pattern().as_usize()]);
        }
        found
    }
}
