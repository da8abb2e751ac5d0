//! The form of the tables: one row for each construct of a kind.

use crate::files::Place;
use crate::node::Node;
use crate::notes::Notes;
use crate::report::Loss;

/// What becomes of a construct.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// Code reads it, and says what it is here.
    Read,
    /// It is not needed here, for this reason.
    Needless(&'static str),
    /// It is not here. This is what to do.
    Lost(Loss, &'static str),
}

/// A construct.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name. A `*` at the end matches any text that follows.
    pub name: &'static str,
    /// What becomes of it.
    pub fate: Fate,
}

/// A construct that code reads.
pub const fn read(name: &'static str) -> Row {
    Row { name, fate: Fate::Read }
}

/// A construct that is not needed here.
pub const fn needless(name: &'static str, why: &'static str) -> Row {
    Row { name, fate: Fate::Needless(why) }
}

/// A construct that is not here, and protects nothing.
pub const fn harmless(name: &'static str, instead: &'static str) -> Row {
    Row { name, fate: Fate::Lost(Loss::Harmless, instead) }
}

/// A limit, an access rule or a route that is not here.
pub const fn severe(name: &'static str, instead: &'static str) -> Row {
    Row { name, fate: Fate::Lost(Loss::Severe, instead) }
}

/// The fate of a construct. One without a row may be an access rule.
pub fn fate(table: &[Row], name: &str) -> Fate {
    let fits = |row: &&Row| match row.name.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => row.name == name,
    };
    let row = table.iter().find(|row| row.name == name).or_else(|| table.iter().find(fits));
    row.map_or(
        Fate::Lost(Loss::Severe, "it is not known: see what it does, and accept its loss"),
        |row| row.fate,
    )
}

/// Says what becomes of a construct, unless code reads it. Returns whether code reads it.
pub fn survey(table: &[Row], name: &str, place: Place, notes: &mut Notes) -> bool {
    match fate(table, name) {
        Fate::Read => return true,
        Fate::Needless(why) => notes.needless(name, place, why),
        Fate::Lost(loss, instead) => notes.not_taken(name, place, loss, instead),
    }
    false
}

/// Says what becomes of each field of a node, unless code reads it.
pub fn survey_fields(table: &[Row], node: &Node, notes: &mut Notes) {
    for (name, value) in node.fields() {
        survey(table, name, value.place, notes);
    }
}

/// Whether each name of a table is there once.
#[cfg(test)]
pub fn has_each_name_once(table: &[Row]) -> bool {
    let mut names: Vec<&str> = table.iter().map(|row| row.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    names.len() == all
}
