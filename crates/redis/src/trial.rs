//! The counters of one request, copied for a decision that counts nothing.

use std::iter;

use tollgate_core::store::{Alone, Charge, Trial};
use tollgate_core::time::Timestamp;

use super::batch::Repeat;
use super::codec::Ask;
use super::fan_out::Part;
use super::remote::Unread;
use super::store::RedisStore;

impl RedisStore {
    /// See [`StoreRef::trial`](tollgate_core::store::StoreRef::trial). Units that this node has leased
    /// or counted for a later report are not included: the states are those of Redis.
    pub async fn trial(&self, charges: &[Charge<'_>], now: Timestamp) -> Trial<'_> {
        let (mut found, mut at) = (Vec::with_capacity(charges.len()), None);
        let mut lost: Vec<Charge<'_>> = Vec::new();
        match self.encoder() {
            None => lost.extend(charges),
            Some(encoder) => {
                let asks = iter::repeat_n(Ask::Peek, charges.len());
                let destination = |charge: &Charge<'_>| self.destination(&encoder, charge);
                for part in Part::split(charges, asks, destination) {
                    let encoded = self.node.encode(&encoder, &part.asked, self.store_time(now));
                    let answer = self.servers.call(part.destination, encoded, Repeat::IfLost).await;
                    let answered = answer.and_then(|answer| self.node.decode(&part.asked, &answer));
                    let charges = part.indices.iter().map(|&index| &charges[index]);
                    match answered {
                        Ok(answered) => {
                            at = at.max(Some(answered.at));
                            found.extend(charges.zip(answered.before));
                        }
                        Err(_) => lost.extend(charges),
                    }
                }
            }
        }
        let (nodes, store_now) = (self.nodes(), self.store_time(now));
        let alone = (!lost.is_empty()).then(|| -> Box<dyn Alone> {
            Box::new(Unread {
                fallback: self.node.fallback.copied_for(&lost, nodes, store_now),
                nodes,
                keys: lost.iter().map(|charge| charge.key).collect(),
            })
        });
        Trial::new(found, at.unwrap_or(store_now), self.holding()).with_alone(alone)
    }
}
