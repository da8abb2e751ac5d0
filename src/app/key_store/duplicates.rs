//! Keys that are both in the file and in the store. That of the file holds, so a change of the other
//! one has no effect.
//!
//! A part is looked at after its mark has changed, or the file has. The looks take a bounded share
//! of the time of the store, however many keys the file has.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::api_keys::{KeyId, KeyRecord, KeyTable};
use tollgate_core::store::keys::{KeyStorage, SharedKeys, StorageError, StoredRecord, part_of_id};
use tollgate_core::store::overrides::PARTS;
use tracing::{error, info};

use crate::app::observed::Observed;

/// The most keys of one question to the store.
const BATCH: usize = 100;
/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two looks for changes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most ids in one line of the log.
const NAMED: usize = 8;

/// Looks for changes until the task is dropped.
pub async fn watch(keys: SharedKeys, storage: Rc<dyn KeyStorage>, observed: Arc<Observed>) {
    let mut known = Known::of(Arc::default());
    loop {
        sleep(INTERVAL).await;
        let (file, table) = observed.file_of_keys();
        if !Arc::ptr_eq(&known.table, &table) {
            known = Known { found: known.found, ..Known::of(table) };
            known.keep_those_of_file();
        }
        let before = known.found.clone();
        while let Some((part, mark)) = known.due(|part| keys.mark_of(part)) {
            // If the store does not answer, the part is due again.
            let Ok(found) = look(&*storage, &known.parts[part]).await else { break };
            known.looked(part, mark, found);
        }
        observed.set_duplicate_keys(known.found.len());
        tell(&before, &known.found, file.as_deref());
    }
}

/// Which of these keys are in the store and not revoked.
async fn look(storage: &dyn KeyStorage, ids: &[KeyId]) -> Result<Vec<KeyId>, StorageError> {
    let mut found = Vec::new();
    for batch in ids.chunks(BATCH) {
        let records = storage.read_keys(batch).await?;
        let present = batch.iter().zip(records).filter(|(_, record)| is_in_force(record.as_ref()));
        found.extend(present.map(|(id, _)| *id));
        sleep(PAUSE).await;
    }
    Ok(found)
}

/// A revoked key is not in the way of the same key in the file.
fn is_in_force(record: Option<&StoredRecord>) -> bool {
    record.is_some_and(|it| {
        KeyRecord::from_stored(&it.bytes).map_or(true, |key| key.revoked.is_none())
    })
}

fn tell(before: &BTreeSet<KeyId>, now: &BTreeSet<KeyId>, file: Option<&str>) {
    if before == now {
        return;
    }
    if now.is_empty() {
        info!("no API key is both in the file and in the store any more");
        return;
    }
    let ids: Vec<&str> = now.iter().take(NAMED).map(KeyId::as_str).collect();
    error!(
        keys = now.len(),
        ids = ids.join(", "),
        file,
        remedy = "remove them from the file, or revoke them in the store with tollgate key revoke",
        "API keys are both in the file and in the store: those of the file hold, and changes of \
         the others have no effect"
    );
}

/// What is known of the keys of one file.
#[derive(Debug)]
struct Known {
    table: Arc<KeyTable>,
    /// The keys of the file by part.
    parts: Vec<Vec<KeyId>>,
    /// The mark that each part had when it was looked at.
    looked_at: [Option<u64>; PARTS],
    /// The keys that are in the store, too.
    found: BTreeSet<KeyId>,
}

impl Known {
    fn of(table: Arc<KeyTable>) -> Self {
        let mut parts = vec![Vec::new(); PARTS];
        for entry in table.entries() {
            parts[part_of_id(entry.key.id)].push(entry.key.id);
        }
        Self { table, parts, looked_at: [None; PARTS], found: BTreeSet::new() }
    }

    /// Forgets what was found of keys that are no longer in the file.
    fn keep_those_of_file(&mut self) {
        let Self { parts, found, .. } = self;
        found.retain(|id| parts[part_of_id(*id)].contains(id));
    }

    /// A part that is to be looked at, and its mark.
    fn due(&self, mark_of: impl Fn(usize) -> u64) -> Option<(usize, u64)> {
        let parts = (0..PARTS).filter(|part| !self.parts[*part].is_empty());
        let mut parts = parts.map(|part| (part, mark_of(part)));
        parts.find(|(part, mark)| self.looked_at[*part] != Some(*mark))
    }

    /// A part with this mark has these keys of the file.
    fn looked(&mut self, part: usize, mark: u64, found: Vec<KeyId>) {
        self.looked_at[part] = Some(mark);
        self.found.retain(|id| part_of_id(*id) != part);
        self.found.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::api_keys::KeyDigest;

    use super::*;

    fn table(numbers: impl Iterator<Item = u64>) -> Arc<KeyTable> {
        let digest = KeyDigest::from_bytes([7; 32]);
        let record = |number| KeyRecord::new(KeyId::from_bits(number), digest);
        Arc::new(KeyTable::new(numbers.map(record), []))
    }

    #[test]
    fn each_part_of_the_file_is_looked_at_once_and_again_after_a_change() {
        let mut known = Known::of(table(0..1000));
        let mut looked = 0;
        while let Some((part, mark)) = known.due(|_| 5) {
            let found = known.parts[part].iter().copied().take(1).collect();
            known.looked(part, mark, found);
            looked += 1;
        }
        assert_eq!((looked, known.found.len()), (PARTS, PARTS));
        let (part, mark) = known.due(|part| 5 + u64::from(part == 9)).expect("it has changed");
        assert_eq!((part, mark), (9, 6));
        known.looked(part, mark, Vec::new());
        assert_eq!(known.found.len(), PARTS - 1);
        assert_eq!(known.due(|part| 5 + u64::from(part == 9)), None);
        let mut other = Known { found: known.found, ..Known::of(table(0..2)) };
        other.keep_those_of_file();
        assert!(other.found.len() <= 2, "the others are not in the file");
        assert!(Known::of(Arc::default()).due(|_| 1).is_none(), "an empty file asks nothing");
    }
}
