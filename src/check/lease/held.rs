//! Units in flight that leases hold, for all workers of this process.
//!
//! A lease comes back to any worker, but only the worker that has taken the units can give them
//! back: each has a count of its own in Redis. So the worker that takes a lease out of the table
//! passes it to its owner.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tollgate_limiter::decision::Lease;
use tollgate_limiter::time::Timestamp;

const SHARDS: usize = 16;

/// A lease that is given back, and the receiver of the news that this is done.
#[derive(Debug)]
pub(in crate::check) struct Returned {
    pub(in crate::check) lease: Lease,
    pub(in crate::check) done: oneshot::Sender<()>,
}

/// Units in flight that leases hold.
#[derive(Debug, Default)]
pub(in crate::check) struct HeldLeases {
    shards: [Mutex<HashMap<u64, Held>>; SHARDS],
    count: AtomicUsize,
    owners: Mutex<Vec<mpsc::UnboundedSender<Returned>>>,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    owner: usize,
    expires: Timestamp,
}

impl HeldLeases {
    /// Registers a worker. It must end the leases that it receives.
    pub(in crate::check) fn join(&self) -> (usize, mpsc::UnboundedReceiver<Returned>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut owners = self.owners.lock();
        owners.push(sender);
        (owners.len() - 1, receiver)
    }

    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, Held>> {
        let index = usize::try_from(id % 16).unwrap_or(0);
        &self.shards[index]
    }

    /// Holds a lease of the worker `owner`, and returns its number, which is never 0.
    ///
    /// # Errors
    /// The lease, if the node holds as many as it may.
    pub(in crate::check) fn hold(
        &self,
        owner: usize,
        lease: Lease,
        expires: Timestamp,
        max: usize,
    ) -> Result<u64, Lease> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(lease);
        }
        let held = Held { lease, owner, expires };
        loop {
            let id = fastrand::u64(1..);
            if let Entry::Vacant(place) = self.shard(id).lock().entry(id) {
                place.insert(held);
                return Ok(id);
            }
        }
    }

    /// The number of leases that are held, for all workers.
    pub(in crate::check) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the node holds as many as it may.
    pub(in crate::check) fn is_full(&self, max: usize) -> bool {
        self.len() >= max
    }

    /// Whether the lease is held.
    pub(in crate::check) fn contains(&self, id: u64) -> bool {
        self.shard(id).lock().contains_key(&id)
    }

    /// Holds it until then, if that is later. Returns whether it is held.
    pub(in crate::check) fn renew(&self, id: u64, expires: Timestamp) -> bool {
        let mut shard = self.shard(id).lock();
        let Some(held) = shard.get_mut(&id) else { return false };
        held.expires = held.expires.max(expires);
        true
    }

    /// Takes a lease out, and passes it to its owner. None if it is not held any more. Otherwise
    /// the receiver says when the units are given back.
    pub(in crate::check) fn give_back(&self, id: u64) -> Option<oneshot::Receiver<()>> {
        let Held { lease, owner, .. } = self.take(id, |_| true)?;
        let (done, is_done) = oneshot::channel();
        // A worker that has ended has released all its units.
        if let Some(owner) = self.owners.lock().get(owner) {
            let _ = owner.send(Returned { lease, done });
        }
        Some(is_done)
    }

    /// Takes a lease out that has ended at `now`. Otherwise when it ends, if it is held.
    pub(in crate::check) fn expire(
        &self,
        id: u64,
        now: Timestamp,
    ) -> Result<Lease, Option<Timestamp>> {
        match self.take(id, |held| held.expires <= now) {
            Some(held) => Ok(held.lease),
            None => Err(self.shard(id).lock().get(&id).map(|held| held.expires)),
        }
    }

    fn take(&self, id: u64, is_meant: impl Fn(&Held) -> bool) -> Option<Held> {
        let mut shard = self.shard(id).lock();
        shard.get(&id).filter(|held| is_meant(held))?;
        let held = shard.remove(&id);
        self.count.fetch_sub(1, Ordering::Relaxed);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    #[test]
    fn a_node_holds_a_bounded_number_of_leases() {
        let held = HeldLeases::default();
        let hold = || held.hold(0, Lease::default(), at(9), 3);
        let ids: Vec<u64> = (0..3).map(|_| hold().expect("there is room")).collect();
        assert!(hold().is_err() && hold().is_err());
        assert!(held.give_back(ids[0]).is_some() && held.give_back(ids[0]).is_none());
        assert!(hold().is_ok() && hold().is_err());
    }

    #[test]
    fn a_lease_that_comes_to_any_worker_goes_to_its_owner() {
        let held = HeldLeases::default();
        let (first, mut to_first) = held.join();
        let (second, mut to_second) = held.join();
        let id = held.hold(second, Lease::default(), at(9), 10).expect("there is room");
        assert_ne!(first, second);
        let mut is_done = held.give_back(id).expect("it is held");
        assert!(to_first.try_recv().is_err() && is_done.try_recv().is_err());
        let Returned { done, .. } = to_second.try_recv().expect("it was passed on");
        done.send(()).expect("it is waited for");
        assert_eq!(is_done.try_recv(), Ok(()));
    }

    #[test]
    fn a_lease_ends_at_its_time_unless_it_is_renewed() {
        let held = HeldLeases::default();
        let id = held.hold(0, Lease::default(), at(9), 10).expect("there is room");
        assert_eq!(held.expire(id, at(8)).map(drop), Err(Some(at(9))));
        assert!(held.renew(id, at(20)) && held.renew(id, at(10)));
        assert_eq!(held.expire(id, at(19)).map(drop), Err(Some(at(20))));
        assert_eq!(held.expire(id, at(20)).map(drop), Ok(()));
        assert_eq!(held.expire(id, at(20)).map(drop), Err(None));
        assert!(!held.renew(id, at(30)) && held.give_back(id).is_none());
    }
}
