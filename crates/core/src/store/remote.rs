//! What the core expects of a store that nodes share. Another crate implements it.
//!
//! A node has one [`RemoteNode`], and each of its workers has one [`RemoteStore`]. The futures are
//! boxed, because a call to another process costs more than an allocation.

use std::collections::HashMap;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;

use super::keys::ReadKeys;
use super::overrides::{Marks, Override, ReadOverrides};
use super::{
    Charge, Correction, Decided, HoldingTimes, Inspected, Inspection, Losses, Mark, Marked,
    MemoryStore, Outage, ServerState, Standing, StoreUnavailable, Told, Trial, Units,
};
use crate::digest::{Counter, Key};
use crate::time::{Clock, Timestamp};

/// The part of a shared store that the workers of a node share.
pub trait RemoteNode: Debug + Send + Sync {
    /// The store of one worker. It must be called in the worker's runtime.
    fn open(self: Arc<Self>, clock: Clock) -> Box<dyn RemoteStore>;

    /// The counters of this node for the time in which the shared store is away.
    fn memory(&self) -> &Arc<MemoryStore>;

    /// The number of nodes that share the store and are alive.
    fn nodes(&self) -> u64;

    /// See [`SharedStore::units`](super::SharedStore::units).
    fn units(&self) -> HashMap<Counter, Units>;

    /// See [`SharedStore::outages`](super::SharedStore::outages).
    fn outages(&self) -> Vec<Outage>;

    /// See [`SharedStore::renewals_refused`](super::SharedStore::renewals_refused).
    fn renewals_refused(&self) -> Vec<Outage>;

    /// See [`SharedStore::differences`](super::SharedStore::differences).
    fn differences(&self) -> Vec<(String, &'static str)>;

    /// See [`SharedStore::replicas_away`](super::SharedStore::replicas_away).
    fn replicas_away(&self) -> usize;

    /// See [`SharedStore::losses`](super::SharedStore::losses).
    fn losses(&self) -> Losses;
}

/// One worker's access to a shared store.
pub trait RemoteStore: Debug {
    /// See [`Store::ready`](super::Store::ready).
    fn ready(&self) -> LocalBoxFuture<'_, ()>;

    /// See [`Store::servers`](super::Store::servers).
    fn servers(&self) -> Vec<ServerState>;

    /// The deadline of a call that is made now.
    fn deadline(&self) -> Instant;

    /// See [`StoreRef::apply_by`](super::StoreRef::apply_by).
    fn apply<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        now: Timestamp,
        deadline: Instant,
    ) -> LocalBoxFuture<'a, Decided>;

    /// See [`StoreRef::count_by`](super::StoreRef::count_by), for counters of the store alone.
    fn count<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        now: Timestamp,
        deadline: Instant,
    ) -> LocalBoxFuture<'a, Decided>;

    /// Whether the worker knows, without a call, that the store refuses this charge now.
    fn refuses(&self, charge: &Charge<'_>, now: Timestamp) -> bool;

    /// See [`StoreRef::correct`](super::StoreRef::correct).
    fn correct(&self, corrections: &[Correction<'_>], now: Timestamp);

    /// See [`StoreRef::correct_told`](super::StoreRef::correct_told).
    fn correct_told(&self, correction: &Correction<'_>, now: Timestamp, told: Told);

    /// See [`StoreRef::correct_once`](super::StoreRef::correct_once).
    fn correct_once<'a>(
        &'a self,
        correction: &'a Correction<'a>,
        mark: &'a Mark,
        now: Timestamp,
        told: Option<Told>,
    ) -> LocalBoxFuture<'a, Result<Marked, StoreUnavailable>>;

    /// See [`StoreRef::trial`](super::StoreRef::trial).
    fn trial<'a, 's: 'a>(
        &'s self,
        charges: &'a [Charge<'a>],
        now: Timestamp,
    ) -> LocalBoxFuture<'a, Trial<'s>>;

    /// See [`Store::inspect`](super::Store::inspect).
    fn inspect<'a>(
        &'a self,
        counters: &'a [Inspected],
        now: Timestamp,
    ) -> LocalBoxFuture<'a, Inspection>;

    /// See [`Store::reset`](super::Store::reset).
    fn reset<'a>(
        &'a self,
        counters: &'a [Inspected],
        now: Timestamp,
    ) -> LocalBoxFuture<'a, Result<(), StoreUnavailable>>;

    /// See [`Store::standing`](super::Store::standing).
    fn standing(&self) -> Standing;

    /// See [`StoreRef::holding`](super::StoreRef::holding).
    fn holding(&self) -> &HoldingTimes;

    /// See [`Store::housekeep`](super::Store::housekeep).
    fn housekeep(&self, now: Timestamp);

    /// See [`Store::close`](super::Store::close).
    fn close(&self, now: Timestamp) -> LocalBoxFuture<'_, ()>;

    /// Access to the limits of single keys beside these counters.
    fn overrides(&self) -> Rc<dyn RemoteOverrides>;

    /// Access to the API keys beside these counters.
    fn keys(&self) -> Rc<dyn ReadKeys>;
}

/// Why an override in a shared store cannot be read or written.
pub type OverrideFault = Box<dyn std::error::Error + Send + Sync>;

/// The limits of single keys in a shared store.
pub trait RemoteOverrides: ReadOverrides {
    /// The part that reads. Rust 1.85 does not turn one trait object into the other.
    fn reader(self: Rc<Self>) -> Rc<dyn ReadOverrides>;

    /// How long a read may take.
    fn timeout(&self) -> Duration;

    /// Reads the marks of changes at intervals, until the future is dropped.
    fn listen(self: Rc<Self>, marks: Arc<Marks>, clock: Clock) -> LocalBoxFuture<'static, ()>;

    /// The override of a key. It fails if the store does not answer, or the stored override is
    /// invalid.
    fn get(&self, key: Key) -> LocalBoxFuture<'_, Result<Option<Override>, OverrideFault>>;

    /// Stores the override of a key, or removes it. It fails if the store does not answer.
    fn put(
        &self,
        key: Key,
        limit: Option<Override>,
    ) -> LocalBoxFuture<'_, Result<(), OverrideFault>>;
}
