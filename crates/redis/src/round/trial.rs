//! The counters of one request, copied for a decision that counts nothing.

use std::rc::Rc;

use smallvec::SmallVec;
use tollgate_core::digest::Key;
use tollgate_core::store::{
    Alone, Answer, Charge, Correction, Decided, MemoryStore, Source, Trial,
};
use tollgate_core::time::Timestamp;

use super::{Heard, Round, Slot};
use crate::StoreError;
use crate::batch::Repeat;
use crate::codec::Ask;
use crate::shared::fallback::{Fallback, Undecided};
use crate::store::RedisStore;

/// See [`StoreRef::trial`](tollgate_core::store::StoreRef::trial). Units that this node has leased
/// or counted for a later report are not included: the states are those of Redis.
pub(crate) async fn trial<'s>(
    store: &'s Rc<RedisStore>,
    charges: &[Charge<'_>],
    now: Timestamp,
) -> Trial<'s> {
    let store_now = store.store_time(now);
    let Some(mut round) = Round::begin(store, now) else {
        let none = Trial::new([], store_now, store.holding());
        return none.with_alone(alone(store, charges, store_now));
    };
    round.ask_for(charges, |_| Ask::Peek);
    round.divide(|slot| slot.planned.ask());
    for part in 0..round.parts.len() {
        round.parts[part].heard = round.read_states(part).await;
    }
    let at = round.parts.iter().filter_map(|part| Some(part.heard()?.at)).max();
    let found = round.slots.iter().filter_map(|slot| {
        let before = slot.reply.as_ref()?.before.clone();
        Some((slot.charge(), before))
    });
    let lost = round.slots.iter().filter(|slot| slot.reply.is_none()).map(Slot::charge);
    let lost: Vec<Charge<'_>> = lost.collect();
    Trial::new(found, at.unwrap_or_else(|| store.store_time(now)), store.holding())
        .with_alone(alone(store, &lost, store.store_time(now)))
}

/// What this node decides alone, because these counters were not read.
fn alone(store: &RedisStore, lost: &[Charge<'_>], now: Timestamp) -> Option<Box<dyn Alone>> {
    let nodes = store.nodes();
    let alone = || -> Box<dyn Alone> {
        Box::new(Unread {
            fallback: store.node.fallback.copied_for(lost, nodes, now),
            nodes,
            keys: lost.iter().map(|charge| charge.key).collect(),
        })
    };
    (!lost.is_empty()).then(alone)
}

/// What this node decides alone in a trial, because a part of the store does not answer.
#[derive(Debug)]
struct Unread {
    /// A copy of this node's shares.
    fallback: Fallback,
    /// The number of nodes.
    nodes: u64,
    /// The counters that were not read.
    keys: Vec<Key>,
}

impl Alone for Unread {
    fn apply(&self, counters: &MemoryStore, charges: &[Charge<'_>], at: Timestamp) -> Decided {
        let is_lost = |charge: &&Charge<'_>| self.keys.contains(&charge.key);
        let (lost, found): (Vec<Charge<'_>>, Vec<Charge<'_>>) = charges.iter().partition(is_lost);
        let refused = |charge: &Charge<'_>| charge.binding && !counters.look(charge, at).admitted;
        let refused = found.iter().any(refused);
        let undecided: SmallVec<[Undecided<'_>; 4]> =
            lost.iter().map(|&charge| Undecided::without_store(charge)).collect();
        let local = self.fallback.judge(&undecided, refused, self.nodes, at);
        let refused = refused
            || lost.iter().zip(&local).any(|(it, answer)| it.binding && !answer.verdict.admitted);
        let counted = match refused {
            true => found.iter().map(|charge| counters.look(charge, at)).collect(),
            false => counters.apply(&found, at),
        };
        let mut counted = counted.into_iter();
        let mut local = local.into_iter();
        let answer = |charge: &Charge<'_>| match is_lost(&charge) {
            true => local.next(),
            false => counted.next().map(Answer::of_store),
        };
        Decided { at, answers: charges.iter().filter_map(answer).collect() }
    }

    fn correct(&self, correction: &Correction<'_>, at: Timestamp) -> bool {
        if correction.source == Source::Local {
            self.fallback.correct(correction, self.nodes, at);
        }
        correction.source != Source::Store
    }
}

impl Round<'_> {
    /// Asks the store for the states of one part.
    async fn read_states(&mut self, part: usize) -> Result<Heard, StoreError> {
        let store = &self.store;
        let asked = self.asked(part);
        let encoded = store.node.encode(&self.encoder, &asked, self.store_now());
        let call = store.servers.call(self.parts[part].destination, encoded, Repeat::IfLost);
        drop(asked);
        let answer = call.await?;
        let answered = self.store.node.decode(&self.asked(part), &answer)?;
        Ok(self.hear(part, answered))
    }
}
