//! A correction that is made once, by any node.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};
use tollgate_core::consistency::StoreMode;
use tollgate_core::store::{
    Charge, Correction, Mark, Marked, Moved, Source, StoreUnavailable, Told,
};
use tollgate_core::time::Timestamp;

use super::batch::Repeat;
use super::codec::{Ask, Asked, Encoder};
use super::failure::StoreError;
use super::store::RedisStore;

/// Sets the mark and makes the correction. If the mark was set before, nothing changes.
///
/// The script does both in one step if Redis alone counts. In other modes the mark is set
/// first, and then this node corrects: if it ends in between, the units stay charged. A
/// counter of this node, which has counted while Redis was away, has its mark in the memory
/// of this node.
///
/// # Errors
/// If Redis does not answer. It may have done it nevertheless; the same call again is safe.
pub(crate) async fn correct(
    store: &RedisStore,
    correction: &Correction<'_>,
    mark: &Mark,
    now: Timestamp,
    told: Option<Told>,
) -> Result<Marked, StoreUnavailable> {
    let Correction { charge, source, .. } = correction;
    let is_exact = charge.consistency.mode == StoreMode::Exact;
    let marked = match source {
        Source::Policy | Source::Unasked => return Ok(Marked::Now),
        Source::Local => store.node.memory.mark(charge, mark, now),
        Source::Store => {
            let together = is_exact.then_some(correction);
            let asked = ask(store, charge, mark, together, now).await;
            let (marked, moved) = asked.map_err(|error| StoreUnavailable(error.to_string()))?;
            if is_exact {
                if let (Some(moved), Some(told)) = (moved, told) {
                    told(moved);
                }
                return Ok(marked);
            }
            marked
        }
    };
    match (marked, told) {
        (Marked::Now, Some(told)) => store.correct_told(correction, now, told),
        (Marked::Now, None) => store.correct(&[*correction], now),
        (Marked::Before(_), _) => {}
    }
    Ok(marked)
}

async fn ask(
    store: &RedisStore,
    charge: &Charge<'_>,
    mark: &Mark,
    correction: Option<&Correction<'_>>,
    now: Timestamp,
) -> Result<(Marked, Option<Moved>), StoreError> {
    let encoder: Rc<Encoder> = store.encoder().ok_or(StoreError::Away)?;
    let setting = mark.charge(charge.key);
    let Charge { key, algorithm, cost, binding, .. } = setting;
    let mut asked: SmallVec<[Asked<'_>; 2]> =
        smallvec![Asked { key, algorithm, ask: Ask::Take(cost), binding }];
    let correction =
        correction.and_then(|it| Asked::correction(charge.key, charge.algorithm, it.op));
    asked.extend(correction);
    let place = store.destination(&encoder, &charge.key);
    let encoded = store.node.encode(&encoder, &asked, store.store_time(now));
    // A call that is repeated finds its own mark, with its own value.
    let answer = store.servers.call(place, encoded, Repeat::IfLost).await?;
    let answered = store.node.decode(&asked, &answer)?;
    let first = answered.replies.first();
    let marked = first.map(|reply| Mark::outcome(&reply.verdict));
    let marked = marked.ok_or(StoreError::InvalidReply("no reply to the mark"))?;
    let mut moved = None;
    if let (Marked::Now, Some(asked)) = (marked, correction) {
        moved = Some(answered.moved(&asked, 1));
        if asked.ask.takes_away() {
            store.take_away(&asked, answered.at);
            store.node.invalidations.announce(&asked.key);
        } else {
            // The client may be over the limit now.
            store.denied.borrow_mut().forget(&asked.key);
        }
    }
    Ok((marked, moved))
}
