//! What operators ask of the counters of one key: to show them, and to forget them.

use std::rc::Rc;

use smallvec::SmallVec;
use tollgate_core::store::{Answer, Source};
use tollgate_core::store::{Inspected, Inspection, Standing, StoreUnavailable, unused};
use tollgate_core::time::Timestamp;

use super::batch::Repeat;
use super::codec::{Answered, Ask, Asked, Encoder};
use super::failure::StoreError;
use super::store::RedisStore;
use crate::shared::fallback::Undecided;

impl RedisStore {
    /// See [`Store::inspect`](tollgate_core::store::Store::inspect).
    pub async fn inspect(&self, counters: &[Inspected], now: Timestamp) -> Inspection {
        if let Some(encoder) = self.encoder()
            && let Ok(answered) = self.ask_all(&encoder, counters, Ask::Peek, now).await
        {
            let verdicts = answered.replies.iter().map(|it| it.verdict).collect();
            return Inspection { at: answered.at, source: Source::Store, verdicts };
        }
        let charges = counters.iter().map(Inspected::charge);
        let undecided: SmallVec<[Undecided<'_>; 4]> =
            charges.map(Undecided::without_store).collect();
        let (nodes, at) = (self.nodes(), self.store_time(now));
        // What is refused anyway is looked at only.
        let answers = self.node.fallback.judge(&undecided, true, nodes, at);
        let mut verdicts: Vec<_> = answers.iter().map(|Answer { verdict, .. }| *verdict).collect();
        verdicts.extend(unused(&counters[verdicts.len()..], at));
        Inspection { at, source: Source::Local, verdicts }
    }

    /// See [`Store::reset`](tollgate_core::store::Store::reset).
    ///
    /// # Errors
    /// If Redis does not answer. It may have forgotten them nevertheless.
    pub async fn reset(
        &self,
        counters: &[Inspected],
        now: Timestamp,
    ) -> Result<(), StoreUnavailable> {
        let unavailable = |error: StoreError| StoreUnavailable(error.to_string());
        let encoder = self.encoder().ok_or_else(|| unavailable(StoreError::Away))?;
        let answer = self.ask_all(&encoder, counters, Ask::Reset, now).await;
        let store_now = self.store_time(now);
        for Inspected { key, algorithm } in counters {
            let asked = Asked { key: *key, algorithm, ask: Ask::Reset, binding: false };
            self.take_away(&asked, store_now);
            // Not earlier: a node that reads the marks could read the old state again.
            self.node.invalidations.announce(key);
        }
        answer.map(drop).map_err(unavailable)
    }

    /// Asks the same of all these counters, which lie in one place, in one step.
    async fn ask_all(
        &self,
        encoder: &Rc<Encoder>,
        counters: &[Inspected],
        ask: Ask,
        now: Timestamp,
    ) -> Result<Answered, StoreError> {
        let all = counters.iter();
        let asked: Vec<Asked<'_>> = all
            .map(|Inspected { key, algorithm }| Asked { key: *key, algorithm, ask, binding: false })
            .collect();
        let Some(first) = counters.first() else { return Err(StoreError::Away) };
        let place = self.destination(encoder, &first.charge());
        let encoded = self.node.encode(encoder, &asked, self.store_time(now));
        // Both do the same if they are done twice.
        let answer = self.servers.call(place, encoded, Repeat::IfLost).await?;
        self.node.decode(&asked, &answer)
    }

    /// See [`Store::standing`](tollgate_core::store::Store::standing).
    pub fn standing(&self) -> Standing {
        let outages = &self.node.outages;
        Standing {
            outages: outages.all(),
            renewals_refused: outages.renewals_refused(),
            nodes: self.nodes(),
        }
    }
}
