//! What a lane does with API keys in its store.

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::spawn_local;
use tollgate_core::api_keys::{Found, KeyDirectory as _, KeyId, KeyLookup, Sought};
use tollgate_core::store::keys::StoredKeys;
use tollgate_core::time::Timestamp;

/// A job of a lane about an API key.
#[derive(Debug)]
pub(super) enum KeyJob {
    /// Looks up a key, and holds the permit meanwhile.
    Find {
        sought: Sought,
        now: Timestamp,
        reply: oneshot::Sender<Found>,
        permit: OwnedSemaphorePermit,
    },
    /// A request was made with this key.
    Used { sought: Sought, id: KeyId, now: Timestamp },
}

impl KeyJob {
    /// Does the job with the keys of the lane.
    pub(super) fn run(self, keys: Option<&StoredKeys>) {
        match (self, keys) {
            (Self::Find { sought, now, reply, permit }, Some(keys)) => {
                match keys.find(sought, now) {
                    // The caller may have stopped waiting.
                    KeyLookup::Now(found) => drop(reply.send(found)),
                    KeyLookup::Later(_) => {
                        let keys = keys.clone();
                        spawn_local(async move {
                            let found = match keys.find(sought, now) {
                                KeyLookup::Now(found) => found,
                                KeyLookup::Later(found) => found.await,
                            };
                            let _ = reply.send(found);
                            drop(permit);
                        });
                    }
                }
            }
            (Self::Find { reply, .. }, None) => drop(reply.send(Found::Away)),
            (Self::Used { sought, id, now }, Some(keys)) => keys.used(sought, id, now),
            (Self::Used { .. }, None) => {}
        }
    }
}
