//! What a node publishes of itself, as text of at most 16 KiB.
//!
//! The outcomes of policies come first, those with the most decisions before the others. The
//! rest of the room is shared by the heaviest clients of all policies in turns. What does not fit
//! is left out, and the text says how much that is: a list has the most requests (`rest`) of a
//! client that it leaves out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_core::time::{Span, Timestamp};

use super::super::outcomes::PolicyOutcomes;
use crate::telemetry::{ByOutcome, History, Merged, Streams, TopEntry, TopHistory};

/// The version of the form. A node ignores the figures of other versions.
const VERSION: u32 = 1;
/// The most policies that a record is made of.
const MAX_POLICIES: usize = 512;
/// The part of the room that the outcomes of policies may take, in eighths.
const OUTCOMES_EIGHTHS: usize = 6;
/// The most characters of the text of a key.
const MAX_TEXT_CHARS: usize = 60;
/// The room for everything but rows.
const FRAME_BYTES: usize = 128;

/// The figures of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The time that the lists of clients are of.
    pub clients_of: Span,
    /// Policies that have counted something and are not in the figures.
    pub left_out: u64,
    /// By the names of the policies.
    pub policies: BTreeMap<String, PolicyFigures>,
}

/// The figures of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyFigures {
    pub outcomes: PolicyOutcomes,
    /// The clients of the minute in progress and the one before it.
    pub clients: Streams,
}

/// The text of a node: all lists are arrays, because names of fields would take room.
#[derive(Serialize, Deserialize)]
struct Record {
    v: u32,
    clients_ms: u64,
    left_out: u64,
    policies: Vec<PolicyRow>,
    keys: Vec<KeyRow>,
}

/// Name; milliseconds and outcomes of 1 m and 5 m; all outcomes; decisions that were measured,
/// and near the limit; observations and rest of the admitted and the refused clients.
#[derive(Serialize, Deserialize)]
struct PolicyRow(String, Period, Period, Vec<u64>, (u64, u64), (u64, u64), (u64, u64));

type Period = (u64, Vec<u64>);

/// The index of the policy, 0 admitted or 1 refused, digest, count, error, text.
#[derive(Serialize, Deserialize)]
struct KeyRow(usize, u8, String, u64, u64, String);

impl Figures {
    /// Those of this node.
    pub fn of(history: &History, top: &TopHistory, now: Timestamp) -> Self {
        let mut names: Vec<_> = history.policies();
        names.sort_by_cached_key(|(_, counts)| Reverse(counts.by_outcome.sum()));
        let left_out = names.len().saturating_sub(MAX_POLICIES);
        let policies = names.into_iter().take(MAX_POLICIES).map(|(name, _)| {
            let outcomes = PolicyOutcomes::of(history, &name);
            let figures = PolicyFigures { outcomes, clients: top.recent(&name, now) };
            (name.into(), figures)
        });
        Self {
            clients_of: now.since(TopHistory::recent_from(now)),
            left_out: u64::try_from(left_out).unwrap_or(u64::MAX),
            policies: policies.collect(),
        }
    }

    /// Adds the figures of another node.
    pub fn add(&mut self, other: Self) {
        self.clients_of = self.clients_of.max(other.clients_of);
        self.left_out = self.left_out.saturating_add(other.left_out);
        for (name, more) in other.policies {
            let sum = self.policies.entry(name).or_default();
            sum.outcomes.add(&more.outcomes);
            sum.clients.add(&more.clients);
        }
    }

    /// The text, of at most `most` bytes.
    pub fn encode(&self, most: usize) -> String {
        let mut by_use: Vec<_> = self.policies.iter().collect();
        by_use.sort_by_key(|(name, it)| (Reverse(it.outcomes.recent()), *name));
        let mut bytes = FRAME_BYTES;
        let mut rows = Vec::new();
        let mut chosen = Vec::new();
        for (name, figures) in by_use {
            let row = PolicyRow::of(name, figures);
            let more = row.longest(&figures.clients) + 1;
            if bytes + more <= most / 8 * OUTCOMES_EIGHTHS {
                bytes += more;
                rows.push(row);
                chosen.push(&figures.clients);
            }
        }
        let keys = keys(&chosen, &mut rows, most.saturating_sub(bytes));
        let left_out = u64::try_from(self.policies.len() - rows.len()).unwrap_or(u64::MAX);
        let record = Record {
            v: VERSION,
            clients_ms: self.clients_of.as_millis_ceil(),
            left_out: self.left_out.saturating_add(left_out),
            policies: rows,
            keys,
        };
        serde_json::to_string(&record).unwrap_or_default()
    }

    /// Reads a text. None: another version has written it, or it is damaged.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let record: Record = serde_json::from_slice(text).ok()?;
        if record.v != VERSION {
            return None;
        }
        let mut policies = Vec::with_capacity(record.policies.len());
        for row in record.policies {
            policies.push(row.read()?);
        }
        for KeyRow(policy, stream, id, count, error, text) in record.keys {
            let clients = &mut policies.get_mut(policy)?.1.clients;
            let stream = match stream {
                0 => &mut clients.admitted,
                1 => &mut clients.refused,
                _ => return None,
            };
            let id = u128::from_str_radix(&id, 16).ok()?;
            stream.entries.push(TopEntry { id, count, error, peak: None, text: text.into() });
        }
        Some(Self {
            clients_of: Span::from_micros(record.clients_ms.saturating_mul(1000)),
            left_out: record.left_out,
            policies: policies.into_iter().collect(),
        })
    }
}

impl PolicyRow {
    fn of(name: &str, figures: &PolicyFigures) -> Self {
        let PolicyOutcomes { minute, five_minutes, total, measured, near } = &figures.outcomes;
        let period = |(span, counts): &(Span, ByOutcome)| (span.as_millis_ceil(), short(counts));
        let stream = |merged: &Merged| (merged.observed, merged.rest);
        Self(
            name.to_owned(),
            period(minute),
            period(five_minutes),
            short(total),
            (*measured, *near),
            stream(&figures.clients.admitted),
            stream(&figures.clients.refused),
        )
    }

    /// The length of the row if all clients are left out.
    fn longest(&self, clients: &Streams) -> usize {
        let digits = |number: u64| number.max(1).ilog10() as usize;
        let more = |merged: &Merged| {
            let first = merged.entries.first().map_or(0, |it| it.count);
            digits(first.max(merged.rest)) - digits(merged.rest)
        };
        length(self) + more(&clients.admitted) + more(&clients.refused)
    }

    fn read(self) -> Option<(String, PolicyFigures)> {
        let Self(name, minute, five_minutes, total, (measured, near), admitted, refused) = self;
        let period = |(ms, counts): Period| {
            Some((Span::from_micros(ms.saturating_mul(1000)), long(&counts)?))
        };
        let stream = |(observed, rest)| Merged { observed, rest, entries: Vec::new() };
        let outcomes = PolicyOutcomes {
            minute: period(minute)?,
            five_minutes: period(five_minutes)?,
            total: long(&total)?,
            measured,
            near,
        };
        let clients = Streams { admitted: stream(admitted), refused: stream(refused) };
        Some((name, PolicyFigures { outcomes, clients }))
    }
}

/// The heaviest clients in turns: the first of each policy, then the second ones. Writes into
/// `rows` how much those that do not fit can have.
fn keys(chosen: &[&Streams], rows: &mut [PolicyRow], mut room: usize) -> Vec<KeyRow> {
    let mut keys = Vec::new();
    let mut open: Vec<(usize, u8)> = (0..chosen.len()).flat_map(|it| [(it, 0), (it, 1)]).collect();
    for rank in 0.. {
        open.retain(|&(policy, stream)| {
            let merged =
                if stream == 0 { &chosen[policy].admitted } else { &chosen[policy].refused };
            let Some(entry) = merged.entries.get(rank) else { return false };
            let key = KeyRow(
                policy,
                stream,
                format!("{:x}", entry.id),
                entry.count,
                entry.error,
                shortened(&entry.text.shown),
            );
            let more = length(&key) + 1;
            if more <= room {
                room -= more;
                keys.push(key);
                return true;
            }
            let PolicyRow(.., admitted, refused) = &mut rows[policy];
            let rest = if stream == 0 { &mut admitted.1 } else { &mut refused.1 };
            *rest = (*rest).max(entry.count);
            false
        });
        if open.is_empty() {
            break;
        }
    }
    keys
}

/// The length of a row as text.
fn length(row: &impl Serialize) -> usize {
    serde_json::to_string(row).map_or(usize::MAX / 2, |text| text.len())
}

/// The numbers without the zeros at their end.
fn short(counts: &ByOutcome) -> Vec<u64> {
    let numbers = counts.numbers();
    let used = numbers.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    numbers[..used].to_vec()
}

/// None: there are more numbers than outcomes.
fn long(counts: &[u64]) -> Option<ByOutcome> {
    let mut numbers = ByOutcome::default().numbers();
    numbers.get_mut(..counts.len())?.copy_from_slice(counts);
    Some(ByOutcome::of(numbers))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests;
