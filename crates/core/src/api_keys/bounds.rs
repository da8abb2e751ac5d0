//! The bounds of what is kept of a key and of a team.

use std::collections::HashSet;
use std::sync::Arc;

use thiserror::Error;

use super::{KeyLimit, KeyRecord, TeamRecord};
use crate::text::is_printable;

/// The most limits of a key or a team.
pub const MAX_LIMITS: usize = 16;
/// The most labels of a key or a team.
pub const MAX_LABELS: usize = 8;
/// The most secrets of a key.
pub const MAX_DIGESTS: usize = 2;
/// The most bytes of a key's name, and of the name of a policy.
pub const MAX_NAME: usize = 128;
/// The most bytes of the name of a team, a plan or a label.
pub const MAX_TEAM: usize = 64;
/// The most bytes of a label's value.
pub const MAX_VALUE: usize = 128;
/// The most bytes of a record in its stored form.
pub const MAX_STORED: usize = 2048;
/// The words after `api_key:` that are not labels.
const TAKEN: [&str; 4] = ["id", "name", "plan", "team"];

/// What is wrong with one field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct RecordFault {
    /// The field: `name`, `team`, `plan`, `limits`, `labels`, `sha256`, or `record` for all of it.
    pub field: &'static str,
    /// The entry of the field that is wrong, for `limits` and `labels`: its name.
    pub entry: Option<Arc<str>>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub advice: &'static str,
}

impl KeyRecord {
    /// All that exceeds a bound. It does not include [`MAX_STORED`], which
    /// [`to_stored`](Self::to_stored) checks.
    pub fn faults(&self) -> Vec<RecordFault> {
        let mut faults = Vec::new();
        if let Some(name) = &self.name {
            name_faults(name, &mut faults);
        }
        word_faults("team", self.team.as_ref(), &mut faults);
        word_faults("plan", self.plan.as_ref(), &mut faults);
        limit_faults(&self.limits, &mut faults);
        label_faults(&self.labels, &mut faults);
        if !(1..=MAX_DIGESTS).contains(&self.digests.len()) {
            let message = format!("a key has one or two digests, and not {}", self.digests.len());
            let advice = "remove the digest of the oldest secret";
            faults.push(fault("sha256", None, message, advice));
        }
        faults
    }
}

impl TeamRecord {
    /// All that exceeds a bound.
    pub fn faults(&self) -> Vec<RecordFault> {
        let mut faults = Vec::new();
        word_faults("team", Some(&self.name), &mut faults);
        word_faults("plan", self.plan.as_ref(), &mut faults);
        limit_faults(&self.limits, &mut faults);
        label_faults(&self.labels, &mut faults);
        faults
    }
}

fn fault(
    field: &'static str,
    entry: Option<&Arc<str>>,
    message: String,
    advice: &'static str,
) -> RecordFault {
    RecordFault { field, entry: entry.cloned(), message, advice }
}

fn name_faults(name: &str, faults: &mut Vec<RecordFault>) {
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_printable) {
        let message = format!("\"name\" must have 1 to {MAX_NAME} bytes, all of them printable");
        faults.push(fault("name", None, message, "write a shorter name in one line"));
    }
}

/// The name of a team or a plan: it is sent in header fields.
fn word_faults(field: &'static str, word: Option<&Arc<str>>, faults: &mut Vec<RecordFault>) {
    if word.is_some_and(|word| !is_word(word, MAX_TEAM)) {
        let message = format!(
            "\"{field}\" must have 1 to {MAX_TEAM} characters of ASCII, and no blanks around them"
        );
        faults.push(fault(field, None, message, "use letters, digits and -"));
    }
}

fn limit_faults(limits: &[(Arc<str>, KeyLimit)], faults: &mut Vec<RecordFault>) {
    if limits.len() > MAX_LIMITS {
        let message = format!("there are more than {MAX_LIMITS} limits");
        faults.push(fault("limits", None, message, "use a plan for many policies"));
    }
    if let Some(twice) = twice(limits.iter().map(|(policy, _)| policy)) {
        let message = format!("the policy \"{twice}\" has two limits");
        faults.push(fault("limits", Some(twice), message, "remove one of them"));
    }
    for (policy, _) in limits.iter().filter(|(policy, _)| !is_word(policy, MAX_NAME)) {
        let message = "a limit is for a policy by its name".to_owned();
        faults.push(fault("limits", Some(policy), message, "like limits: { per-key: 500/minute }"));
    }
}

fn label_faults(labels: &[(Arc<str>, Arc<str>)], faults: &mut Vec<RecordFault>) {
    if labels.len() > MAX_LABELS {
        let message = format!("there are more than {MAX_LABELS} labels");
        faults.push(fault("labels", None, message, "remove the labels that no policy uses"));
    }
    if let Some(twice) = twice(labels.iter().map(|(name, _)| name)) {
        let message = format!("the label \"{twice}\" is written twice");
        faults.push(fault("labels", Some(twice), message, "remove one of them"));
    }
    for (name, value) in labels {
        if !is_label(name) {
            let message =
                format!("the name of a label has 1 to {MAX_TEAM} letters, digits, -, _ and .");
            faults.push(fault("labels", Some(name), message, "like labels: { env: prod }"));
        } else if TAKEN.contains(&&**name) {
            let message = format!("a label cannot have the name \"{name}\"");
            faults.push(fault("labels", Some(name), message, "choose another name"));
        }
        if !is_word(value, MAX_VALUE) {
            let message = format!(
                "the value of a label must have 1 to {MAX_VALUE} characters of ASCII, and no \
                 blanks around them"
            );
            faults.push(fault("labels", Some(name), message, "write a shorter value"));
        }
    }
}

/// Whether header fields can have this value.
fn is_word(word: &str, max: usize) -> bool {
    let is_good = |char: char| char == ' ' || char.is_ascii_graphic();
    (1..=max).contains(&word.len()) && word.trim() == word && word.chars().all(is_good)
}

/// Whether a label can have this name.
pub(crate) fn is_label(name: &str) -> bool {
    let is_good = |char: u8| char.is_ascii_alphanumeric() || b"-_.".contains(&char);
    (1..=MAX_TEAM).contains(&name.len()) && name.bytes().all(is_good)
}

/// A name that occurs twice.
fn twice<'n>(names: impl Iterator<Item = &'n Arc<str>>) -> Option<&'n Arc<str>> {
    let mut seen = HashSet::new();
    let mut names = names;
    names.find(|name| !seen.insert(&***name))
}
