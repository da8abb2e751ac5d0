//! What operators ask of the store: a worker answers, because it has the connections.

use tokio::sync::oneshot;
use tollgate_core::digest::Key;
use tollgate_core::store::overrides::Override;
use tollgate_core::store::{Inspected, Inspection, Standing, Store, StoreUnavailable};

use super::{Asked, Engine, Explaining, Explanation};

/// A question to the store, and where the answer goes.
#[derive(Debug)]
pub enum StoreCall {
    /// What the counters of one principal say. See [`Store::inspect`].
    Inspect(Vec<Inspected>, oneshot::Sender<Inspection>),
    /// Forget counters of one principal. See [`Store::reset`].
    Reset(Vec<Inspected>, oneshot::Sender<Result<(), StoreUnavailable>>),
    /// The override in Redis of a key.
    GetOverride(Key, oneshot::Sender<Result<Option<Override>, String>>),
    /// Set or remove the override in Redis of a key.
    PutOverride(Key, Option<Override>, oneshot::Sender<Result<(), String>>),
    /// What a request would get now.
    Explain(Box<Asked>, oneshot::Sender<Explanation>),
    /// Whether the store can be used. See [`Store::standing`].
    Standing(oneshot::Sender<Option<Standing>>),
}

/// Overrides of a store in memory are in a file, which is not the worker's.
const NOT_HERE: &str = "the overrides are not in Redis";

impl Engine {
    /// Answers a question to the store. A reply that is not waited for any more is lost.
    /// Requests are explained with `explaining`.
    pub async fn answer(&self, call: StoreCall, explaining: &Explaining<'_>) {
        let store = self.deciding.limiter.store();
        let now = self.clock.now();
        match call {
            StoreCall::Inspect(counters, reply) => {
                let _ = reply.send(store.inspect(&counters, now).await);
            }
            StoreCall::Reset(counters, reply) => {
                let _ = reply.send(store.reset(&counters, now).await);
            }
            StoreCall::GetOverride(key, reply) => {
                let _ = reply.send(match store {
                    Store::Memory(_) => Err(NOT_HERE.to_owned()),
                    Store::Remote(remote) => {
                        remote.overrides().get(key).await.map_err(|error| error.to_string())
                    }
                });
            }
            StoreCall::PutOverride(key, limit, reply) => {
                let _ = reply.send(match store {
                    Store::Memory(_) => Err(NOT_HERE.to_owned()),
                    Store::Remote(remote) => {
                        remote.overrides().put(key, limit).await.map_err(|error| error.to_string())
                    }
                });
            }
            StoreCall::Explain(asked, reply) => {
                let _ = reply.send(self.explain(explaining, &asked).await);
            }
            StoreCall::Standing(reply) => {
                let _ = reply.send(store.standing());
            }
        }
    }
}
