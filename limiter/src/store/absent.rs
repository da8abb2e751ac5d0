//! Replacements for the contents of the features `redis` and `overrides` if they are off:
//! types without values, so that no such store can exist.

/// Replaces the contents of the feature `redis`.
#[cfg(not(feature = "redis"))]
pub mod redis {
    use std::collections::HashMap;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Instant;

    use crate::digest::Counter;
    use crate::store::inspect::{Inspected, Inspection, Standing, StoreUnavailable};
    use crate::store::{
        Charge, Correction, Decided, HoldingTimes, Losses, MemoryStore, Outage, ServerState, Trial,
        Units,
    };
    use crate::time::{Clock, Timestamp};

    /// The state that the workers of a node share. It needs the feature `redis`.
    #[derive(Debug)]
    pub enum NodeState {}

    /// Counters in Redis. It needs the feature `redis`.
    #[derive(Debug)]
    pub enum RedisStore {}

    impl NodeState {
        pub(in crate::store) const fn memory(&self) -> &Arc<MemoryStore> {
            match *self {}
        }

        pub(in crate::store) const fn nodes(&self) -> u64 {
            match *self {}
        }

        pub(in crate::store) const fn units(&self) -> HashMap<Counter, Units> {
            match *self {}
        }

        pub(in crate::store) const fn outages(&self) -> Vec<Outage> {
            match *self {}
        }

        pub(in crate::store) const fn renewals_refused(&self) -> Vec<Outage> {
            match *self {}
        }

        pub(in crate::store) const fn differences(&self) -> Vec<(String, &'static str)> {
            match *self {}
        }

        pub(in crate::store) const fn replicas_away(&self) -> usize {
            match *self {}
        }

        pub(in crate::store) const fn losses(&self) -> Losses {
            match *self {}
        }
    }

    #[allow(clippy::unused_async, reason = "as with the feature")]
    impl RedisStore {
        pub(in crate::store) fn open(node: &Arc<NodeState>, _clock: Clock) -> Self {
            match **node {}
        }

        pub(in crate::store) const fn server_states(&self) -> Vec<ServerState> {
            match *self {}
        }

        pub(in crate::store) async fn ready(&self) {
            match *self {}
        }

        pub(in crate::store) const fn deadline(&self) -> Instant {
            match *self {}
        }

        pub(in crate::store) async fn apply(
            self: &Rc<Self>,
            _charges: &[Charge<'_>],
            _now: Timestamp,
            _deadline: Instant,
        ) -> Decided {
            match **self {}
        }

        pub(in crate::store) fn correct(
            self: &Rc<Self>,
            _corrections: &[Correction<'_>],
            _now: Timestamp,
        ) {
            match **self {}
        }

        pub(in crate::store) async fn correct_once(
            self: &Rc<Self>,
            _correction: &Correction<'_>,
            _mark: &crate::store::Mark,
            _now: Timestamp,
        ) -> Result<crate::store::Marked, StoreUnavailable> {
            match **self {}
        }

        pub(in crate::store) async fn close(self: &Rc<Self>, _now: Timestamp) {
            match **self {}
        }

        pub(in crate::store) fn housekeep(self: &Rc<Self>, _now: Timestamp) {
            match **self {}
        }

        pub(in crate::store) async fn inspect(
            &self,
            _: &[Inspected],
            _now: Timestamp,
        ) -> Inspection {
            match *self {}
        }

        pub(in crate::store) async fn trial(&self, _: &[Charge<'_>], _: Timestamp) -> Trial<'_> {
            match *self {}
        }

        pub(in crate::store) async fn reset(
            &self,
            _counters: &[Inspected],
            _now: Timestamp,
        ) -> Result<(), StoreUnavailable> {
            match *self {}
        }

        pub(in crate::store) const fn standing(&self) -> Standing {
            match *self {}
        }

        pub(in crate::store) const fn holding(&self) -> &HoldingTimes {
            match *self {}
        }
    }
}

/// Replaces the contents of the feature `overrides`.
#[cfg(not(feature = "overrides"))]
pub mod overrides {
    use std::time::Instant;

    use smallvec::SmallVec;

    use crate::digest::Key;
    pub use crate::store::override_limit::{Lookups, Override};
    use crate::time::Timestamp;

    /// Limits of single keys. It needs the feature `overrides`.
    #[derive(Debug)]
    pub enum Overrides {}

    /// Limits of single keys for all workers. It needs the feature `overrides`.
    #[derive(Clone, Debug)]
    pub enum SharedOverrides {}

    impl SharedOverrides {
        /// None: no policy can have overrides without the feature.
        #[cfg(feature = "redis")]
        pub(crate) const fn of_redis(_is_used: bool) -> Option<Self> {
            None
        }

        /// The limits for the worker of this store.
        pub const fn open(&self, _store: &crate::store::Store) -> Option<Overrides> {
            match *self {}
        }
    }

    impl Overrides {
        /// The limits that replace those of the policies for these keys.
        #[allow(clippy::unused_async, reason = "as with the feature")]
        pub async fn look_up(
            &self,
            _keys: &[Key],
            _now: Timestamp,
            _deadline: Option<Instant>,
        ) -> SmallVec<[Option<Override>; 4]> {
            match *self {}
        }

        /// How keys were found.
        pub const fn lookups(&self) -> Lookups {
            match *self {}
        }
    }
}
