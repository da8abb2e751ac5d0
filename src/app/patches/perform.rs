//! Makes the changes that operators ask for, one after the other.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate_core::time::Timestamp;
use tollgate_redis::{EntryVersion, Expected, WriteError};

use super::{APPLIED_PATIENCE, Base, PatchKeeper};
use crate::patches::{
    Definition, Definitions, Done, Entry, IfMatch, Mistake, NewPatch, PatchCall, Purpose, Rejected,
    Requested, Resolved, Values,
};

/// How often a change that may be made in every state is tried while others make changes.
const ATTEMPTS: usize = 4;
/// The most entries that this process keeps.
const MAX_ENTRIES: usize = 256;
/// The most bytes of one of them.
const MAX_BYTES: usize = 4096;

impl PatchKeeper {
    /// Makes changes until no more calls can come.
    pub async fn serve(self: Rc<Self>, mut calls: mpsc::Receiver<PatchCall>) {
        while let Some(call) = calls.recv().await {
            let PatchCall { policy, requested, if_match, actor, reply } = call;
            let mut result = Err(Rejected::Stale);
            for _ in 0..ATTEMPTS {
                result = match requested.clone() {
                    Requested::Mode(new) => self.set_mode(&policy, new, &if_match, &actor).await,
                    other => self.perform(&policy, other, &if_match, &actor).await,
                };
                if if_match != IfMatch::Any || result != Err(Rejected::Stale) {
                    break;
                }
            }
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        }
    }

    /// The values that a policy would have with this patch.
    pub fn preview(
        &self,
        policy: &str,
        patch: NewPatch,
        if_match: &IfMatch,
        actor: &str,
    ) -> Result<Values, Rejected> {
        let definitions = Arc::clone(&self.base.borrow().definitions);
        let definition = definitions.get(policy).ok_or(Rejected::UnknownPolicy)?;
        let (version, present) = self.stored(policy);
        if !if_match.admits(definition, version.as_ref().map(EntryVersion::as_str)) {
            return Err(Rejected::Stale);
        }
        let now = self.clock.wall();
        let before = definition.begun(present, now);
        let after = edited(Requested::Patch(patch), before, &definitions, actor, now)?;
        self.check(definition, &after, true, now)?;
        Ok(after.patch.map(|patch| patch.values).unwrap_or_default())
    }

    async fn perform(
        &self,
        policy: &str,
        requested: Requested,
        if_match: &IfMatch,
        actor: &str,
    ) -> Result<Done, Rejected> {
        if self.refresh().await.map_err(|error| Rejected::Away(error.to_string()))? {
            self.want();
        }
        let definitions = Arc::clone(&self.base.borrow().definitions);
        let (version, present) = self.stored(policy);
        let removes = matches!(requested, Requested::RemovePatch | Requested::RemoveCandidate);
        let Some(definition) = definitions.get(policy) else {
            return match version.filter(|_| removes && *if_match == IfMatch::Any) {
                Some(version) => self.remove_ignored(policy, version).await,
                None => Err(Rejected::UnknownPolicy),
            };
        };
        if !if_match.admits(definition, version.as_ref().map(EntryVersion::as_str)) {
            return Err(Rejected::Stale);
        }
        let belongs_here = present.as_ref().is_some_and(|it| it.digest == definition.digest);
        if let Some(version) = version.clone().filter(|_| removes && !belongs_here) {
            return self.remove_ignored(policy, version).await;
        }
        let now = self.clock.wall();
        let before = definition.begun(present, now);
        let is_patch = matches!(requested, Requested::Patch(_) | Requested::RemovePatch);
        let after = edited(requested, before.clone(), &definitions, actor, now)?;
        self.check(definition, &after, is_patch, now)?;
        let value = (after.patch.is_some() || after.candidate.is_some()).then(|| after.encode());
        let part = |entry: &Entry| {
            let part = if is_patch { &entry.patch } else { &entry.candidate };
            part.as_ref().map_or(Value::Null, |it| json!(it.shown()))
        };
        let change = Done { before: part(&before), after: part(&after) };
        self.write(policy, version, value).await.map_err(|rejected| rejected.of_sent(&change))?;
        self.apply().await;
        Ok(change)
    }

    /// Removes an entry that this node ignores, for all nodes.
    async fn remove_ignored(&self, policy: &str, version: EntryVersion) -> Result<Done, Rejected> {
        let before = Value::from("a change that this node ignores");
        let change = Done { before, after: Value::Null };
        let written = self.write(policy, Some(version), None).await;
        written.map_err(|rejected| rejected.of_sent(&change))?;
        self.apply().await;
        Ok(change)
    }

    /// Returns when the workers have the changes that are known, or take long.
    pub(super) async fn apply(&self) {
        let number = self.want();
        let mut applied = self.applied.subscribe();
        let _ = timeout(APPLIED_PATIENCE, applied.wait_for(|it| *it >= number)).await;
    }

    /// The version of an entry, and the entry if it can be read.
    pub(super) fn stored(&self, policy: &str) -> (Option<EntryVersion>, Option<Entry>) {
        let known = self.known.borrow();
        match known.entries.iter().find(|(name, ..)| name == policy) {
            Some((_, version, bytes)) => (Some(version.clone()), Entry::decode(bytes).ok()),
            None => (None, None),
        }
    }

    /// Whether this node can apply the part of the entry that is new.
    fn check(
        &self,
        definition: &Definition,
        entry: &Entry,
        is_patch: bool,
        now: Timestamp,
    ) -> Result<(), Rejected> {
        let Base { definitions, routes } = &*self.base.borrow();
        let (change, purpose) = match is_patch {
            true => (&entry.patch, Purpose::Patch),
            false => (&entry.candidate, Purpose::Candidate),
        };
        let name = &*definition.policy.name;
        let Some(change) = change else { return Ok(()) };
        definitions.compile(name, &change.values, purpose).map_err(Rejected::Invalid)?;
        let mut entries = self.known.borrow().entries.clone();
        entries.retain(|(other, ..)| other != name);
        // The last one, so that it yields to the others.
        entries.push((name.to_owned(), EntryVersion::random(), entry.encode()));
        let resolved = Resolved::new(&entries, definitions, routes, now);
        match resolved.ignored.into_iter().find(|it| it.policy == name) {
            None => Ok(()),
            Some(ignored) => Err(Rejected::Invalid(vec![Mistake::new(ignored.because, "")])),
        }
    }

    /// Writes an entry over the version that was seen, or removes it.
    pub(super) async fn write(
        &self,
        policy: &str,
        version: Option<EntryVersion>,
        value: Option<Vec<u8>>,
    ) -> Result<(), Rejected> {
        let Some(control) = self.control() else { return self.write_here(policy, value) };
        let expected = version.map_or(Expected::Absent, Expected::Version);
        let written = control.write_entry(policy, &expected, value.as_deref()).await;
        written.map_err(|error| match error {
            WriteError::Stale => Rejected::Stale,
            WriteError::Full => Rejected::Full(error.to_string()),
            WriteError::TooLong => too_long(),
            WriteError::Store(error) => Rejected::Away(error.to_string()),
        })?;
        // If this fails, the next look finds the change.
        let _ = self.refresh().await;
        Ok(())
    }

    fn write_here(&self, policy: &str, value: Option<Vec<u8>>) -> Result<(), Rejected> {
        if value.as_ref().is_some_and(|value| value.len() > MAX_BYTES) {
            return Err(too_long());
        }
        let entries = &mut self.known.borrow_mut().entries;
        let is_known = entries.iter().any(|(name, ..)| name == policy);
        if value.is_some() && !is_known && entries.len() >= MAX_ENTRIES {
            let message = format!("there are {MAX_ENTRIES} changed policies already");
            return Err(Rejected::Full(message));
        }
        entries.retain(|(name, ..)| name != policy);
        entries.extend(value.map(|it| (policy.to_owned(), EntryVersion::random(), it)));
        Ok(())
    }
}

fn too_long() -> Rejected {
    let message = format!("the changes of one policy take more than {MAX_BYTES} bytes");
    Rejected::Invalid(vec![Mistake::new(message, "write less")])
}

fn edited(
    requested: Requested,
    before: Entry,
    definitions: &Definitions,
    actor: &str,
    now: Timestamp,
) -> Result<Entry, Rejected> {
    let edited = match requested {
        Requested::Patch(new) => new.applied(before, definitions, actor, now),
        Requested::Candidate(new) => new.applied(before, definitions, actor, now),
        Requested::RemovePatch if before.patch.is_none() => return Err(Rejected::Nothing),
        Requested::RemovePatch => Ok(Entry { patch: None, ..before }),
        Requested::RemoveCandidate if before.candidate.is_none() => return Err(Rejected::Nothing),
        Requested::RemoveCandidate => Ok(Entry { candidate: None, ..before }),
        Requested::Mode(_) => return Err(Rejected::UnknownPolicy),
    };
    edited.map_err(Rejected::Invalid)
}
