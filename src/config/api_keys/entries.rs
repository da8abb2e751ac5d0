//! What may be written in a file with API keys.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use smallvec::SmallVec;
use tollgate_core::api_keys::{
    HeldDigest, KeyDigest, KeyForm, KeyId, KeyRecord, KeyTable, RecordFault, TeamRecord,
};

use super::limits::{WrittenLimit, WrittenLimits};
use crate::config::field::{Either, Entries, Field, List, OneOrMore, Spanned};
use crate::config::node::TextSpan;
use crate::config::problem::Problems;
use crate::config::scalar::{Date, KeyLimit};
use crate::config::suggest;

/// The most keys of a file.
const MAX_KEYS: usize = 100_000;
/// The most teams of a file.
const MAX_TEAMS: usize = 10_000;
/// How the hash of a key is made.
const HASH: &str = "write the 64 digits that \"tollgate key hash\" prints";

/// The keys and teams of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "key file", default)]
pub struct RawKeyFile {
    teams: Field<Entries<RawTeam>>,
    keys: List<RawEntry>,
}

/// A team.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "team", default)]
struct RawTeam {
    plan: Field<String>,
    limits: Field<Entries<KeyLimit>>,
    labels: Field<Entries<String>>,
}

/// A key.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "key", default)]
struct RawEntry {
    id: Field<String>,
    name: Field<String>,
    team: Field<String>,
    plan: Field<String>,
    sha256: OneOrMore<String>,
    expires: Field<Date>,
    disabled: Field<bool>,
    limits: Field<Entries<KeyLimit>>,
    labels: Field<Entries<String>>,
}

/// What is found in a file.
struct Found<'p> {
    form: &'p KeyForm,
    problems: &'p Problems,
    ids: HashMap<KeyId, usize>,
    digests: HashMap<KeyDigest, usize>,
    /// The names of the teams, if the file has any.
    teams: Vec<&'p str>,
    limits: WrittenLimits,
}

impl RawKeyFile {
    /// All keys that have no mistake, and the limits that their policies must count.
    pub fn compile(&self, form: &KeyForm, problems: &Problems) -> (KeyTable, Vec<WrittenLimit>) {
        too_many(
            self.keys.value().map_or(0, Vec::len),
            MAX_KEYS,
            self.keys.span(),
            "keys",
            problems,
        );
        let teams = self.teams.entries();
        too_many(teams.len(), MAX_TEAMS, self.teams.span(), "teams", problems);
        let names = teams.iter().map(|(name, _)| name.value.as_str()).collect();
        let mut found = Found {
            form,
            problems,
            ids: HashMap::new(),
            digests: HashMap::new(),
            teams: names,
            limits: WrittenLimits::default(),
        };
        let mut records = Vec::new();
        for (name, team) in teams {
            records.extend(team.given().map(|team| team.value.compile(name, &mut found)));
        }
        let keys: Vec<KeyRecord> =
            self.keys.items().filter_map(|key| key.value.compile(key.span, &mut found)).collect();
        (KeyTable::new(keys, records), found.limits.all())
    }
}

fn too_many(count: usize, most: usize, span: Option<TextSpan>, what: &str, problems: &Problems) {
    if count > most {
        let message = format!("there are {count} {what}, and there may be {most}");
        problems.error(span.unwrap_or(TextSpan::FILE), &message, "remove some, or use a store");
    }
}

impl RawTeam {
    fn compile(&self, name: &Spanned<String>, found: &mut Found<'_>) -> TeamRecord {
        let owner = || format!("the team \"{}\"", name.shown());
        let record = TeamRecord {
            plan: self.plan.value().map(|plan| Arc::from(&**plan)),
            limits: found.limits.read(&owner, &self.limits),
            labels: labels(&self.labels),
            ..TeamRecord::new(&name.value)
        };
        for fault in record.faults() {
            let span = match fault.field {
                "plan" => self.plan.span(),
                "limits" => span_in(&self.limits, &fault),
                "labels" => span_in(&self.labels, &fault),
                _ => None,
            };
            found.problems.error(span.unwrap_or(name.span), &fault.message, fault.advice);
        }
        record
    }
}

impl RawEntry {
    fn compile(&self, span: TextSpan, found: &mut Found<'_>) -> Option<KeyRecord> {
        let id = self.id(span, found);
        let digests = self.digests(span, found);
        if let Some(team) = self.team.given() {
            found.check_team(team);
        }
        let text = |field: &Field<String>| field.value().map(|text| Arc::from(&**text));
        let owner = || id.map_or_else(|| "a key".to_owned(), |id| format!("the key {id}"));
        let record = KeyRecord {
            name: text(&self.name),
            team: text(&self.team),
            plan: text(&self.plan),
            limits: found.limits.read(&owner, &self.limits),
            labels: labels(&self.labels),
            expires: self.expires.value().map(|date| date.0),
            disabled: self.disabled.copied().unwrap_or_default(),
            // They take the places of those with mistakes, which are reported.
            ..KeyRecord::new(id.unwrap_or(KeyId::from_bits(0)), KeyDigest::from_bytes([0; 32]))
        };
        let record = match digests {
            Some(digests) => KeyRecord { digests, ..record },
            None => record,
        };
        let faults = record.faults();
        let too_long = record.to_stored().err().filter(|_| faults.is_empty());
        for fault in faults.into_iter().chain(too_long) {
            let at = self.span_of(&fault).unwrap_or(span);
            found.problems.error(at, &fault.message, fault.advice);
        }
        Some(KeyRecord { id: id?, ..record })
    }

    fn id(&self, span: TextSpan, found: &mut Found<'_>) -> Option<KeyId> {
        if self.id.is_absent() {
            found.problems.error(
                span,
                "the key has no \"id\"",
                "\"tollgate key create\" makes one",
            );
        }
        let given = self.id.given()?;
        let Ok(id) = given.value.parse::<KeyId>() else {
            let (message, advice) = match found.looks_like_key(&given.value) {
                true => (
                    "\"id\" has a key, and not the id of one",
                    "write its 12 characters after the prefix",
                ),
                false => (
                    "an id has 12 characters: digits and lower-case letters without i, l, o and u",
                    "\"tollgate key create\" makes one",
                ),
            };
            found.problems.error(given.span, message, advice);
            return None;
        };
        if let Some(line) = found.ids.insert(id, line(given.span)) {
            let message = format!("the id {id} is also that of the key on line {line}");
            let advice = "write both digests under one key, or choose another id";
            found.problems.error(given.span, &message, advice);
        }
        Some(id)
    }

    fn digests(&self, span: TextSpan, found: &mut Found<'_>) -> Option<SmallVec<[HeldDigest; 1]>> {
        if self.sha256.is_absent() {
            found.problems.error(span, "the key has no \"sha256\"", HASH);
        }
        let given = self.sha256.given()?;
        let mut digests = SmallVec::new();
        for (text, span) in one_or_more(given) {
            match text.parse::<KeyDigest>() {
                Ok(digest) => {
                    found.check_digest(digest, span);
                    digests.push(HeldDigest { digest, until: None });
                }
                Err(_) if found.looks_like_key(text) => {
                    let message = "\"sha256\" has a key, and not the hash of one";
                    found.problems.error(span, message, HASH);
                }
                Err(error) => found.problems.error(span, &error.to_string(), HASH),
            }
        }
        Some(digests).filter(|digests| !digests.is_empty() || is_empty(given))
    }

    fn span_of(&self, fault: &RecordFault) -> Option<TextSpan> {
        match fault.field {
            "name" => self.name.span(),
            "team" => self.team.span(),
            "plan" => self.plan.span(),
            "sha256" => self.sha256.span(),
            "limits" => span_in(&self.limits, fault),
            "labels" => span_in(&self.labels, fault),
            _ => None,
        }
    }
}

type Digests = Either<String, Vec<Field<String>>>;

/// The texts of a list or the single text, each with its place.
fn one_or_more(given: &Spanned<Digests>) -> Vec<(&str, TextSpan)> {
    match &given.value {
        Either::Short(one) => vec![(one, given.span)],
        Either::Long(more) => {
            let texts = more.iter().filter_map(Field::given);
            texts.map(|text| (&*text.value, text.span)).collect()
        }
    }
}

fn is_empty(given: &Spanned<Digests>) -> bool {
    matches!(&given.value, Either::Long(list) if list.is_empty())
}

impl Found<'_> {
    /// Whether a text is most likely a key of some prefix.
    fn looks_like_key(&self, text: &str) -> bool {
        self.form.begins(text.as_bytes())
            || text.rsplit('_').next().is_some_and(|tail| tail.len() == 49)
    }

    fn check_digest(&mut self, digest: KeyDigest, span: TextSpan) {
        if let Some(line) = self.digests.insert(digest, line(span)) {
            let message = format!("the same hash is on line {line}");
            self.problems.error(span, &message, "each key has a secret of its own: remove one");
        }
    }

    fn check_team(&self, team: &Spanned<String>) {
        let known = self.teams.iter().copied();
        if self.teams.is_empty() || self.teams.contains(&&*team.value) {
            return;
        }
        let message = format!("there is no team \"{}\"", team.shown());
        let advice = suggest::advice(team.shown(), known, "the teams are", self.problems);
        self.problems.error(team.span, &message, &advice);
    }
}

fn line(span: TextSpan) -> usize {
    usize::try_from(span.line).unwrap_or(usize::MAX)
}

fn labels(field: &Field<Entries<String>>) -> Vec<(Arc<str>, Arc<str>)> {
    let label = |(name, value): &(Spanned<String>, Field<String>)| {
        Some((Arc::from(&*name.value), Arc::from(&**value.value()?)))
    };
    field.entries().iter().filter_map(label).collect()
}

/// Where the entry of a fault is written, or the map.
fn span_in<T>(field: &Field<Entries<T>>, fault: &RecordFault) -> Option<TextSpan> {
    let entry = fault.entry.as_deref();
    let mut entries = field.entries().iter();
    let named = entries.find(|(name, _)| entry == Some(&*name.value)).map(|(name, _)| name.span);
    named.or(field.span())
}
