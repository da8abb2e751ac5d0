//! What the stored entries mean for the definitions of this node.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tollgate_core::decision::MAX_POLICIES;
use tollgate_core::policy::{AccessMode, Policy};
use tollgate_core::time::Timestamp;
use tollgate_redis::EntryVersion;

use super::{
    Change, Definition, Definitions, Entry, ListDefinition, Mistake, Purpose, entry_of, list_of,
    mode_in,
};

const OTHER_DEFINITION: &str = "the definition in the file of this node is another one";

/// The entries as they are stored: the policy, a version, and bytes.
pub type Stored = [(String, EntryVersion, Vec<u8>)];

/// The changes that are in force on this node.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// The changed policies by name.
    pub changed: BTreeMap<String, Changed>,
    /// The access lists with another mode by name.
    pub lists: BTreeMap<String, (Change, AccessMode)>,
    /// The entries, or parts of them, that this node does not apply.
    pub ignored: Vec<Ignored>,
    /// The versions of all entries.
    versions: BTreeMap<String, EntryVersion>,
    /// When the next change ends.
    pub next_end: Option<Timestamp>,
}

/// The changes of one policy.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// The patch, and the policy with it.
    pub patch: Option<(Change, Arc<Policy>)>,
    /// The candidate, and the policy that is judged in shadow.
    pub candidate: Option<(Change, Arc<Policy>)>,
}

/// An entry that this node does not apply.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Ignored {
    /// The policy that it names.
    pub policy: String,
    /// Why it is ignored.
    pub because: String,
}

impl Resolved {
    /// What `stored` means at `now` for `definitions`. `routes` has the names of the policies of
    /// each route.
    pub fn new(
        stored: &Stored,
        definitions: &Definitions,
        routes: &[Vec<Arc<str>>],
        now: Timestamp,
    ) -> Self {
        let mut resolved = Self::default();
        let mut taken: HashSet<u32> = definitions.all().iter().flat_map(counters).collect();
        for (name, version, bytes) in stored {
            resolved.versions.insert(name.clone(), version.clone());
            if let Some(list) = list_of(name) {
                resolved.list(list, bytes, definitions, now);
                continue;
            }
            let (definition, entry) = match current(name, bytes, definitions, now) {
                Ok(Some(current)) => current,
                Ok(None) => continue,
                Err(because) => {
                    resolved.ignore(name, because);
                    continue;
                }
            };
            let mut changed = Changed::default();
            let compile = |change: &Change, purpose| {
                definitions.compile(name, &change.values, purpose).map(Arc::new)
            };
            if let Some(patch) = entry.patch {
                match compile(&patch, Purpose::Patch) {
                    Ok(policy) => changed.patch = Some((resolved.until(patch), policy)),
                    Err(mistakes) => resolved.ignore(name, because("patch", &mistakes)),
                }
            }
            if let Some(candidate) = entry.candidate {
                match compile(&candidate, Purpose::Candidate)
                    .and_then(|policy| resolved.beside(definition, policy, routes, &mut taken))
                {
                    Ok(policy) => changed.candidate = Some((resolved.until(candidate), policy)),
                    Err(mistakes) => resolved.ignore(name, because("candidate", &mistakes)),
                }
            }
            if changed.patch.is_some() || changed.candidate.is_some() {
                resolved.changed.insert(name.clone(), changed);
            }
        }
        resolved
    }

    /// Applies the entry of an access list.
    fn list(&mut self, name: &str, bytes: &[u8], definitions: &Definitions, now: Timestamp) {
        let read = || {
            let Some(entry) = decoded(bytes, now)? else { return Ok(None) };
            let definition = definitions.list(name);
            let definition = definition.ok_or("this node has no access list of this name")?;
            if definition.digest != entry.digest {
                return Err(OTHER_DEFINITION.to_owned());
            }
            let Some(patch) = entry.patch else { return Ok(None) };
            let mode = mode_in(&patch.values)?;
            Ok::<_, String>(Some((patch, mode)))
        };
        match read() {
            Ok(None) => {}
            Ok(Some((patch, mode))) => {
                let patch = self.until(patch);
                self.lists.insert(name.to_owned(), (patch, mode));
            }
            Err(because) => self.ignore(&entry_of(name), because),
        }
    }

    /// Identifies the definition and the mode of an access list: the contents of an entity tag.
    pub fn list_tag(&self, definition: &ListDefinition) -> String {
        let version = self.versions.get(&entry_of(&definition.list.name));
        tag(&definition.digest, version.map(EntryVersion::as_str))
    }

    /// Whether values of the policy of this name are changed.
    pub fn is_patched(&self, name: &str) -> bool {
        self.changed.get(name).is_some_and(|changed| changed.patch.is_some())
    }

    /// Whether a patch replaces the own limit of the policy of this name.
    pub fn has_other_limit(&self, name: &str) -> bool {
        let patch = self.changed.get(name).and_then(|changed| changed.patch.as_ref());
        patch.is_some_and(|(it, _)| it.values.limit.is_some() || it.values.burst.is_some())
    }

    /// Identifies the definition and the changes of a policy: the contents of an entity tag.
    pub fn tag(&self, definition: &Definition) -> String {
        let version = self.versions.get(&*definition.policy.name).map(EntryVersion::as_str);
        tag(&definition.digest, version)
    }

    /// Whether the same changes are in force as in `other`.
    pub fn is_same(&self, other: &Self) -> bool {
        let in_force = |it: &Self| -> Vec<_> {
            let parts = |(name, it): (&String, &Changed)| {
                let since =
                    |part: &Option<(Change, Arc<Policy>)>| part.as_ref().map(|it| it.0.clone());
                (name.clone(), since(&it.patch), since(&it.candidate))
            };
            it.changed.iter().map(parts).collect()
        };
        self.versions == other.versions
            && self.ignored == other.ignored
            && in_force(self) == in_force(other)
            && self.lists == other.lists
    }

    /// The candidate, if its counters can be told from those of other policies, and the routes
    /// have room for it.
    fn beside(
        &self,
        definition: &Definition,
        candidate: Arc<Policy>,
        routes: &[Vec<Arc<str>>],
        taken: &mut HashSet<u32>,
    ) -> Result<Arc<Policy>, Vec<Mistake>> {
        let has_candidate = |name: &&Arc<str>| {
            self.changed.get(&***name).is_some_and(|changed| changed.candidate.is_some())
        };
        let is_full = |route: &&Vec<Arc<str>>| {
            route.contains(&definition.policy.name)
                && route.len() + route.iter().filter(has_candidate).count() >= MAX_POLICIES
        };
        if routes.iter().any(|route| is_full(&route)) {
            let message = format!("a route of this policy has {MAX_POLICIES} policies already");
            return Err(vec![Mistake::new(message, "remove another candidate")]);
        }
        let own: Vec<u32> = candidate.counters().map(|it| it.stored()).collect();
        if own.iter().any(|counter| taken.contains(counter)) {
            let message = "the store cannot tell its counters from those of another policy";
            return Err(vec![Mistake::new(message, "choose another window")]);
        }
        taken.extend(own);
        Ok(candidate)
    }

    /// Notes when the change ends.
    fn until(&mut self, change: Change) -> Change {
        let ends = change.ends_us.map(Timestamp::from_micros);
        self.next_end = self.next_end.into_iter().chain(ends).min();
        change
    }

    fn ignore(&mut self, policy: &str, because: String) {
        self.ignored.push(Ignored { policy: policy.to_owned(), because });
    }
}

/// The contents of the entity tag of a policy or a list with a definition of this digest, whose
/// entry, if there is one, has this version.
pub fn tag(digest: &str, version: Option<&str>) -> String {
    let digest = digest.get(..16).unwrap_or_default();
    format!("{digest}-{}", version.unwrap_or("0"))
}

/// The definition, and the changes that have not ended. None: all have. The error says why this
/// node ignores the entry.
fn current<'d>(
    name: &str,
    bytes: &[u8],
    definitions: &'d Definitions,
    now: Timestamp,
) -> Result<Option<(&'d Definition, Entry)>, String> {
    let Some(entry) = decoded(bytes, now)? else { return Ok(None) };
    let definition = definitions.get(name);
    let definition = definition.ok_or("this node has no policy of this name")?;
    if definition.digest != entry.digest {
        return Err(OTHER_DEFINITION.to_owned());
    }
    Ok(Some((definition, entry)))
}

/// The changes in these bytes that have not ended. None: all have.
fn decoded(bytes: &[u8], now: Timestamp) -> Result<Option<Entry>, String> {
    let entry = Entry::decode(bytes)
        .map_err(|_| "this version of the gateway cannot read the entry".to_owned())?;
    Ok(entry.at(now))
}

fn counters(definition: &Definition) -> impl Iterator<Item = u32> {
    definition.policy.counters().map(|counter| counter.stored())
}

fn because(part: &str, mistakes: &[Mistake]) -> String {
    let messages: Vec<&str> = mistakes.iter().map(|it| &*it.message).collect();
    format!("the {part} does not fit here: {}", messages.join("; "))
}
