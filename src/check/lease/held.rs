//! Units in flight that leases hold, for all workers of this process.
//!
//! A lease comes back to any worker, but only the worker that has taken the units can give them
//! back: each has a count of its own in Redis. So the worker that takes a lease out of the table
//! passes it to its owner.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tollgate_core::decision::Lease;
use tollgate_core::time::Timestamp;

const SHARDS: usize = 16;
/// The most leases of a shard of which is known how they have ended.
const MAX_ENDED: usize = 4096;

/// A place for a lease that a question asks for. Dropping it makes it free.
#[derive(Debug)]
pub struct Place<'h>(&'h HeldLeases);

/// A lease that is given back, and the receiver of the news that this is done.
#[derive(Debug)]
pub struct Returned {
    pub lease: Lease,
    pub done: oneshot::Sender<()>,
}

/// Units in flight that leases hold.
#[derive(Debug, Default)]
pub struct HeldLeases {
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicUsize,
    owners: Mutex<Vec<mpsc::UnboundedSender<Returned>>>,
}

/// What comes of giving back a lease.
#[derive(Debug)]
pub enum GivenBack {
    /// Its owner gives its units back. The receiver says when this is done.
    Now(oneshot::Receiver<()>),
    /// It was given back before, with this end.
    Before(u32),
    /// The table does not have it, or not any more.
    Unknown,
}

#[derive(Debug, Default)]
struct Shard {
    held: HashMap<u64, Held>,
    /// How the last leases have ended that were given back.
    ended: HashMap<u64, u32>,
    /// Their numbers, in the order in which they have ended.
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    owner: usize,
    expires: Timestamp,
}

impl HeldLeases {
    /// Registers a worker. It must end the leases that it receives.
    pub fn join(&self) -> (usize, mpsc::UnboundedReceiver<Returned>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut owners = self.owners.lock();
        owners.push(sender);
        (owners.len() - 1, receiver)
    }

    fn shard(&self, id: u64) -> &Mutex<Shard> {
        let index = usize::try_from(id % 16).unwrap_or(0);
        &self.shards[index]
    }

    /// Places for so many leases, all or none. None if the node would hold more than `max`.
    pub fn reserve(&self, places: usize, max: usize) -> Option<Vec<Place<'_>>> {
        let sum = |taken: usize| taken.checked_add(places).filter(|sum| *sum <= max || places == 0);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).ok()?;
        Some((0..places).map(|_| Place(self)).collect())
    }

    /// The number of places that are taken, for all workers.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the lease is held.
    pub fn contains(&self, id: u64) -> bool {
        self.shard(id).lock().held.contains_key(&id)
    }

    /// Holds it until then, if that is later.
    ///
    /// # Errors
    /// If it is not held: how it has ended, if that is known.
    pub fn renew(&self, id: u64, expires: Timestamp) -> Result<(), Option<u32>> {
        let mut shard = self.shard(id).lock();
        match shard.held.get_mut(&id) {
            Some(held) => held.expires = held.expires.max(expires),
            None => return Err(shard.ended.get(&id).copied()),
        }
        Ok(())
    }

    /// Takes a lease out that ends so, and passes it to its owner.
    pub fn give_back(&self, id: u64, end: u32) -> GivenBack {
        let mut shard = self.shard(id).lock();
        let Some(Held { lease, owner, .. }) = shard.held.remove(&id) else {
            return shard.ended.get(&id).map_or(GivenBack::Unknown, |end| GivenBack::Before(*end));
        };
        shard.ends(id, end);
        drop(shard);
        self.count.fetch_sub(1, Ordering::Relaxed);
        let (done, is_done) = oneshot::channel();
        // A worker that has ended has released all its units.
        if let Some(owner) = self.owners.lock().get(owner) {
            let _ = owner.send(Returned { lease, done });
        }
        GivenBack::Now(is_done)
    }

    /// Takes a lease out that has ended at `now`. Otherwise when it ends, if it is held.
    pub fn expire(&self, id: u64, now: Timestamp) -> Result<Lease, Option<Timestamp>> {
        let mut shard = self.shard(id).lock();
        let expires = shard.held.get(&id).map(|held| held.expires);
        if expires.is_none_or(|expires| expires > now) {
            return Err(expires);
        }
        let held = shard.held.remove(&id).ok_or(None)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Ok(held.lease)
    }
}

impl Shard {
    fn ends(&mut self, id: u64, end: u32) {
        if self.order.len() >= MAX_ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.ended.insert(id, end);
        self.order.push_back(id);
    }
}

impl Place<'_> {
    /// Holds a lease of the worker `owner`, and returns its number, which is never 0.
    pub fn hold(self, owner: usize, lease: Lease, expires: Timestamp) -> u64 {
        let held = Held { lease, owner, expires };
        loop {
            let id = fastrand::u64(1..);
            if let Entry::Vacant(entry) = self.0.shard(id).lock().held.entry(id) {
                entry.insert(held);
                // The lease keeps the place.
                std::mem::forget(self);
                return id;
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    /// A lease of the worker `owner`.
    fn hold(held: &HeldLeases, owner: usize) -> u64 {
        let mut places = held.reserve(1, 10).expect("there is room");
        places.pop().expect("it is one").hold(owner, Lease::default(), at(9))
    }

    #[test]
    fn a_node_holds_a_bounded_number_of_leases() {
        let held = HeldLeases::default();
        let two = held.reserve(2, 3).expect("there is room");
        assert!(held.reserve(2, 3).is_none(), "all or none");
        let ids: Vec<u64> =
            two.into_iter().map(|place| place.hold(0, Lease::default(), at(9))).collect();
        let third = held.reserve(1, 3);
        assert!(third.is_some() && held.reserve(1, 3).is_none());
        assert!(held.reserve(0, 3).is_some() && held.reserve(0, 2).is_some());
        drop(third);
        assert_eq!((held.len(), held.reserve(1, 3).map(|it| it.len())), (2, Some(1)));
        assert!(matches!(held.give_back(ids[0], 5), GivenBack::Now(_)));
        assert!(matches!(held.give_back(ids[0], 6), GivenBack::Before(5)));
        assert_eq!((held.len(), held.reserve(2, 3).map(|it| it.len())), (1, Some(2)));
    }

    #[test]
    fn calls_at_the_same_time_share_the_places() {
        let held = HeldLeases::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if let Some(places) = held.reserve(3, 7) {
                            assert!(places.len() == 3 && held.len() <= 7);
                        }
                    }
                });
            }
        });
        assert_eq!(held.len(), 0);
    }

    #[test]
    fn a_lease_that_comes_to_any_worker_goes_to_its_owner() {
        let held = HeldLeases::default();
        let (first, mut to_first) = held.join();
        let (second, mut to_second) = held.join();
        let id = hold(&held, second);
        assert_ne!(first, second);
        let GivenBack::Now(mut is_done) = held.give_back(id, 0) else { panic!("it is held") };
        assert!(to_first.try_recv().is_err() && is_done.try_recv().is_err());
        let Returned { done, .. } = to_second.try_recv().expect("it was passed on");
        done.send(()).expect("it is waited for");
        assert_eq!(is_done.try_recv(), Ok(()));
    }

    #[test]
    fn a_lease_ends_at_its_time_unless_it_is_renewed() {
        let held = HeldLeases::default();
        let id = hold(&held, 0);
        assert_eq!(held.expire(id, at(8)).map(drop), Err(Some(at(9))));
        assert_eq!([held.renew(id, at(20)), held.renew(id, at(10))], [Ok(()); 2]);
        assert_eq!(held.expire(id, at(19)).map(drop), Err(Some(at(20))));
        assert_eq!(held.expire(id, at(20)).map(drop), Ok(()));
        assert_eq!(held.expire(id, at(20)).map(drop), Err(None));
        assert_eq!(held.renew(id, at(30)), Err(None));
        assert!(matches!(held.give_back(id, 0), GivenBack::Unknown));
    }

    #[test]
    fn a_node_knows_how_a_bounded_number_of_leases_has_ended() {
        let held = HeldLeases::default();
        let mut ids = Vec::new();
        for _ in 0..SHARDS * MAX_ENDED * 2 {
            let id = hold(&held, 0);
            assert!(matches!(held.give_back(id, 7), GivenBack::Now(_)));
            ids.push(id);
        }
        for shard in &held.shards {
            let shard = shard.lock();
            assert_eq!((shard.ended.len(), shard.order.len()), (MAX_ENDED, MAX_ENDED));
        }
        assert_eq!(held.renew(ids[0], at(1)), Err(None), "the oldest is forgotten");
        assert_eq!(held.renew(ids[ids.len() - 1], at(1)), Err(Some(7)));
        assert_eq!(held.len(), 0);
    }
}
