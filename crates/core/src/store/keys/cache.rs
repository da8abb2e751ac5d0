//! What one worker knows of keys. It is bounded and reads no clock.
//!
//! Known keys and unknown ones are apart, so that invented ids displace no key.

use std::cell::Cell;
use std::sync::Arc;

use quick_cache::unsync;

use super::place::{part_of_id, part_of_sought, part_of_team};
use crate::api_keys::{Found, KeyEntry, KeyRecord, Sought, TeamRecord};
use crate::store::overrides::{Marks, ReadAt};
use crate::time::{Span, Timestamp};

/// The most keys that one worker knows. An entry takes about 500 bytes.
pub(super) const MAX_KNOWN: usize = 100_000;
/// The most ids that one worker knows to be those of no key.
pub(super) const MAX_UNKNOWN: usize = 10_000;
/// The most teams that one worker knows. There are not more.
pub(super) const MAX_TEAMS: usize = 10_000;
/// By how much a request may be older than what another one has read meanwhile.
const BEHIND: Span = Span::SECOND;

/// The caches.
#[derive(Debug)]
pub(super) struct Cache {
    known: unsync::Cache<Sought, Known>,
    unknown: unsync::Cache<Sought, ReadAt>,
    teams: unsync::Cache<Arc<str>, KnownTeam>,
}

#[derive(Debug)]
struct Known {
    entry: Arc<KeyEntry>,
    read: ReadAt,
    /// When the team of the key was read.
    team_read: Option<ReadAt>,
    /// When a use of the key was last noted, by this node's time.
    used: Cell<Timestamp>,
}

#[derive(Clone, Debug)]
struct KnownTeam {
    team: Option<Arc<TeamRecord>>,
    read: ReadAt,
}

impl Cache {
    pub(super) fn new(known: usize, unknown: usize) -> Self {
        Self {
            known: unsync::Cache::new(known),
            unknown: unsync::Cache::new(unknown),
            teams: unsync::Cache::new(MAX_TEAMS),
        }
    }

    /// What is certain at `now`. None: it must be read.
    pub(super) fn fresh(&self, sought: &Sought, marks: &Marks, now: Timestamp) -> Option<Found> {
        if let Some(known) = self.known.get(sought) {
            return known.is_fresh(marks, now).then(|| Found::Known(Arc::clone(&known.entry)));
        }
        let read = self.unknown.get(sought)?;
        is_fresh(*read, part_of_sought(sought), marks, now).then_some(Found::Unknown)
    }

    /// The key as this worker has last read it.
    pub(super) fn last_known(&self, sought: &Sought) -> Option<(Arc<KeyEntry>, ReadAt)> {
        let known = self.known.peek(sought)?;
        Some((Arc::clone(&known.entry), known.read))
    }

    /// A team that is certain at `now`.
    pub(super) fn fresh_team(
        &self,
        name: &str,
        marks: &Marks,
        now: Timestamp,
    ) -> Option<(Option<Arc<TeamRecord>>, ReadAt)> {
        let known = self.teams.get(name)?;
        is_fresh(known.read, part_of_team(name), marks, now)
            .then(|| (known.team.clone(), known.read))
    }

    /// A team was read.
    pub(super) fn learn_team(
        &mut self,
        name: &Arc<str>,
        team: Option<Arc<TeamRecord>>,
        read: ReadAt,
    ) {
        self.teams.insert(Arc::clone(name), KnownTeam { team, read });
    }

    /// A key was read, and its team. Returns the entry.
    pub(super) fn learn(
        &mut self,
        sought: Sought,
        key: KeyRecord,
        read: ReadAt,
        team: Option<(Option<Arc<TeamRecord>>, ReadAt)>,
    ) -> Arc<KeyEntry> {
        let (team, team_read) = team.map_or((None, None), |(team, read)| (team, Some(read)));
        let used = self.known.peek(&sought).map(|known| known.used.get()).unwrap_or_default();
        self.unknown.remove(&sought);
        let entry = Arc::new(KeyEntry { key, team });
        let known = Known { entry: Arc::clone(&entry), read, team_read, used: Cell::new(used) };
        self.known.insert(sought, known);
        entry
    }

    /// It was read that there is no such key.
    pub(super) fn learn_unknown(&mut self, sought: Sought, read: ReadAt) {
        self.known.remove(&sought);
        self.unknown.insert(sought, read);
    }

    /// Whether a use of this key at `now` is to be noted. It is not if one was noted less than
    /// `every` ago.
    pub(super) fn notes_use(&self, sought: &Sought, now: Timestamp, every: Span) -> bool {
        let Some(known) = self.known.peek(sought) else { return false };
        let is_due =
            known.used.get() == Timestamp::default() || now.since(known.used.get()) >= every;
        if is_due {
            known.used.set(now);
        }
        is_due
    }

    /// How many keys, and how many unknown ids there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.known.len(), self.unknown.len())
    }
}

impl Known {
    /// The part whose mark a change of the key changes, whatever the key was found by.
    fn part(&self) -> usize {
        part_of_id(self.entry.key.id)
    }

    fn is_fresh(&self, marks: &Marks, now: Timestamp) -> bool {
        let team_part = || self.entry.key.team.as_deref().map_or(0, part_of_team);
        is_fresh(self.read, self.part(), marks, now)
            && self.team_read.is_none_or(|read| is_fresh(read, team_part(), marks, now))
    }
}

/// Whether a key that was read at this time is trusted at `now`, for `stale` after the last time at
/// which it was certain.
pub(super) fn is_trusted(
    entry: &KeyEntry,
    read: ReadAt,
    marks: &Marks,
    now: Timestamp,
    stale: Span,
) -> bool {
    let is_same = marks.of_part(part_of_id(entry.key.id)) == read.mark;
    let certain = if is_same { read.at.max(marks.heard()) } else { read.at };
    now.since(certain) < stale
}

/// Whether what was read is valid at `now`. Another request may have read it a moment later.
fn is_fresh(read: ReadAt, part: usize, marks: &Marks, now: Timestamp) -> bool {
    let now = if read.at.since(now) < BEHIND { now.max(read.at) } else { now };
    read.is_fresh(part, marks, now)
}

#[cfg(test)]
mod tests;
