//! The store as the core sees it: each call of its traits is one method here.
//!
//! It also decides a trial alone, as far as a part of the store does not answer.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tollgate_core::digest::{Counter, Key};
use tollgate_core::store::keys::ReadKeys;
use tollgate_core::store::overrides::{Marks, Override, ReadOverrides, Stored};
use tollgate_core::store::{
    Charge, Correction, Decided, HoldingTimes, Inspected, Inspection, Losses, Mark, Marked,
    MemoryStore, Outage, OverrideFault, RemoteNode, RemoteOverrides, RemoteStore, ServerState,
    Standing, StoreUnavailable, Told, Trial, Units,
};
use tollgate_core::time::{Clock, Timestamp};

use crate::api_keys::WorkerKeys;
use crate::overrides::Overrides;
use crate::store::{NodeState, RedisStore};
use crate::{inspect, once, round};

impl RemoteNode for NodeState {
    fn open(self: Arc<Self>, clock: Clock) -> Box<dyn RemoteStore> {
        Box::new(WorkerStore(Rc::new(RedisStore::open(&self, clock))))
    }

    fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    fn nodes(&self) -> u64 {
        self.nodes_alive.get()
    }

    fn units(&self) -> HashMap<Counter, Units> {
        let mut sums = HashMap::new();
        self.local.add_units(&mut sums);
        self.fallback.add_units(&mut sums);
        sums
    }

    fn outages(&self) -> Vec<Outage> {
        self.outages.all()
    }

    fn renewals_refused(&self) -> Vec<Outage> {
        self.outages.renewals_refused()
    }

    fn differences(&self) -> Vec<(String, &'static str)> {
        self.outages.differences()
    }

    fn replicas_away(&self) -> usize {
        self.outages.replicas_away()
    }

    fn losses(&self) -> Losses {
        let [lost_units, forgotten_units] = self.local.losses();
        let [unknown_refunds, dropped_refunds] = self.refunds.units_kept();
        Losses {
            forgiven: self.memory.forgiven(),
            lost_units,
            forgotten_units,
            unknown_refunds,
            dropped_refunds,
        }
    }
}

/// The store of one worker, for the core.
#[derive(Debug)]
pub(crate) struct WorkerStore(Rc<RedisStore>);

impl RemoteStore for WorkerStore {
    fn ready(&self) -> LocalBoxFuture<'_, ()> {
        self.0.ready().boxed_local()
    }

    fn servers(&self) -> Vec<ServerState> {
        self.0.server_states()
    }

    fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    fn apply<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        now: Timestamp,
        deadline: Instant,
    ) -> LocalBoxFuture<'a, Decided> {
        self.0.apply(charges, now, deadline)
    }

    fn count<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        now: Timestamp,
        deadline: Instant,
    ) -> LocalBoxFuture<'a, Decided> {
        round::count(&self.0, charges, now, deadline).boxed_local()
    }

    fn refuses(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        self.0.refuses(charge, now)
    }

    fn correct(&self, corrections: &[Correction<'_>], now: Timestamp) {
        self.0.correct(corrections, now);
    }

    fn correct_told(&self, correction: &Correction<'_>, now: Timestamp, told: Told) {
        self.0.correct_told(correction, now, told);
    }

    fn correct_once<'a>(
        &'a self,
        correction: &'a Correction<'a>,
        mark: &'a Mark,
        now: Timestamp,
        told: Option<Told>,
    ) -> LocalBoxFuture<'a, Result<Marked, StoreUnavailable>> {
        once::correct(&self.0, correction, mark, now, told).boxed_local()
    }

    fn trial<'a, 's: 'a>(
        &'s self,
        charges: &'a [Charge<'a>],
        now: Timestamp,
    ) -> LocalBoxFuture<'a, Trial<'s>> {
        round::trial(&self.0, charges, now).boxed_local()
    }

    fn inspect<'a>(
        &'a self,
        counters: &'a [Inspected],
        now: Timestamp,
    ) -> LocalBoxFuture<'a, Inspection> {
        inspect::inspect(&self.0, counters, now).boxed_local()
    }

    fn reset<'a>(
        &'a self,
        counters: &'a [Inspected],
        now: Timestamp,
    ) -> LocalBoxFuture<'a, Result<(), StoreUnavailable>> {
        inspect::reset(&self.0, counters, now).boxed_local()
    }

    fn standing(&self) -> Standing {
        self.0.standing()
    }

    fn holding(&self) -> &HoldingTimes {
        self.0.holding()
    }

    fn housekeep(&self, now: Timestamp) {
        self.0.housekeep(now);
    }

    fn close(&self, now: Timestamp) -> LocalBoxFuture<'_, ()> {
        self.0.close(now).boxed_local()
    }

    fn overrides(&self) -> Rc<dyn RemoteOverrides> {
        Rc::new(Overrides::beside(&self.0))
    }

    fn keys(&self) -> Rc<dyn ReadKeys> {
        Rc::new(WorkerKeys::beside(&self.0))
    }
}

impl ReadOverrides for Overrides {
    fn fetch<'a>(&'a self, keys: &'a [Key], settled: bool) -> LocalBoxFuture<'a, Vec<Stored>> {
        Self::fetch(self, keys, settled).boxed_local()
    }
}

impl RemoteOverrides for Overrides {
    fn reader(self: Rc<Self>) -> Rc<dyn ReadOverrides> {
        self
    }

    fn timeout(&self) -> Duration {
        Self::timeout(self)
    }

    fn listen(self: Rc<Self>, marks: Arc<Marks>, clock: Clock) -> LocalBoxFuture<'static, ()> {
        Self::clone(&self).listen(marks, clock).boxed_local()
    }

    fn get(&self, key: Key) -> LocalBoxFuture<'_, Result<Option<Override>, OverrideFault>> {
        Self::get(self, key).map(|got| got.map_err(OverrideFault::from)).boxed_local()
    }

    fn put(
        &self,
        key: Key,
        limit: Option<Override>,
    ) -> LocalBoxFuture<'_, Result<(), OverrideFault>> {
        Self::put(self, key, limit).map(|put| put.map_err(OverrideFault::from)).boxed_local()
    }
}
