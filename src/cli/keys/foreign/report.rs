//! The keys of another program, and what of them is not carried over.

use std::collections::BTreeMap;

use crate::api_keys::ImportedKey;

/// So many keys are named for each reason.
const NAMED: usize = 5;

/// What was read.
#[derive(Debug, Default)]
pub struct Foreign {
    /// The keys.
    pub keys: Vec<ImportedKey>,
    /// What is not carried over.
    pub report: Report,
}

/// What is not carried over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Fields of keys, each with the reason: of which keys, by their numbers from 1.
    fields: BTreeMap<(String, &'static str), Vec<usize>>,
    /// Parts of the input that have no keys, and how many entries each has.
    sections: BTreeMap<String, usize>,
}

impl Report {
    /// A field of a key is not carried over, for this reason.
    pub fn note(&mut self, number: usize, field: &str, why: &'static str) {
        self.fields.entry((field.to_owned(), why)).or_default().push(number);
    }

    /// A part of the input has so many entries, and no keys.
    pub fn note_section(&mut self, section: &str, entries: usize) {
        self.sections.insert(section.to_owned(), entries);
    }

    /// The report in lines.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let fields = self.fields.iter().map(|((field, why), keys)| {
            let numbers: Vec<String> = keys.iter().take(NAMED).map(usize::to_string).collect();
            let more = if keys.len() > NAMED { ", ..." } else { "" };
            let count = keys.len();
            let keys = if count == 1 { "key" } else { "keys" };
            format!("{field} of {count} {keys} ({}{more}): {why}", numbers.join(", "))
        });
        let sections = self.sections.iter().map(|(section, entries)| {
            format!("{section} ({entries}): they are not API keys, and are not read")
        });
        fields.chain(sections)
    }
}
