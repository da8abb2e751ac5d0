//! What operators ask of the counters of one key: to show them, and to forget them.

use smallvec::SmallVec;
use tollgate_core::store::{Answer, Source};
use tollgate_core::store::{Inspected, Inspection, StoreUnavailable, unused};
use tollgate_core::time::Timestamp;

use super::batch::Repeat;
use super::codec::{Answered, Ask, Asked};
use super::failure::StoreError;
use super::store::RedisStore;
use crate::shared::fallback::Undecided;

/// See [`Store::inspect`](tollgate_core::store::Store::inspect).
pub(crate) async fn inspect(
    store: &RedisStore,
    counters: &[Inspected],
    now: Timestamp,
) -> Inspection {
    if let Ok(answered) = ask_all(store, counters, Ask::Peek, now).await {
        let verdicts = answered.replies.iter().map(|it| it.verdict).collect();
        return Inspection { at: answered.at, source: Source::Store, verdicts };
    }
    let charges = counters.iter().map(Inspected::charge);
    let undecided: SmallVec<[Undecided<'_>; 4]> = charges.map(Undecided::without_store).collect();
    let nodes = store.nodes();
    let at = store.store_time(now);
    // What is refused anyway is looked at only.
    let answers = store.node.fallback.judge(&undecided, true, nodes, at);
    let mut verdicts: Vec<_> = answers.iter().map(|Answer { verdict, .. }| *verdict).collect();
    verdicts.extend(unused(&counters[verdicts.len()..], at));
    Inspection { at, source: Source::Local, verdicts }
}

/// See [`Store::reset`](tollgate_core::store::Store::reset).
///
/// # Errors
/// If Redis does not answer. It may have forgotten them nevertheless.
pub(crate) async fn reset(
    store: &RedisStore,
    counters: &[Inspected],
    now: Timestamp,
) -> Result<(), StoreUnavailable> {
    let unavailable = |error: StoreError| StoreUnavailable(error.to_string());
    if store.encoder().is_none() {
        return Err(unavailable(StoreError::Away));
    }
    let answer = ask_all(store, counters, Ask::Reset, now).await;
    let store_now = store.store_time(now);
    for Inspected { key, algorithm } in counters {
        let asked = Asked { key: *key, algorithm, ask: Ask::Reset, binding: false };
        store.take_away(&asked, store_now);
        // Not earlier: a node that reads the marks could read the old state again.
        store.node.invalidations.announce(key);
    }
    answer.map(drop).map_err(unavailable)
}

/// Asks the same of all these counters, which lie in one place, in one step.
async fn ask_all(
    store: &RedisStore,
    counters: &[Inspected],
    ask: Ask,
    now: Timestamp,
) -> Result<Answered, StoreError> {
    let encoder = store.encoder().ok_or(StoreError::Away)?;
    let all = counters.iter();
    let asked: Vec<Asked<'_>> = all
        .map(|Inspected { key, algorithm }| Asked { key: *key, algorithm, ask, binding: false })
        .collect();
    let first = counters.first().ok_or(StoreError::Away)?;
    let place = store.destination(&encoder, &first.key);
    let encoded = store.node.encode(&encoder, &asked, store.store_time(now));
    // Both do the same if they are done twice.
    let answer = store.servers.call(place, encoded, Repeat::IfLost).await?;
    store.node.decode(&asked, &answer)
}
