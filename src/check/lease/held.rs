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
use tollgate_core::time::{Span, Timestamp};

const SHARDS: usize = 16;
/// After this time a worker looks again whether a lease has ended that was being renewed.
const LATER: Span = Span::from_millis(250);
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
    /// The number of the lease that holds it. A renewal replaces the lease by another one.
    holder: u128,
    expires: Timestamp,
    /// When a worker looks whether it has ended.
    due: Timestamp,
    /// The renewals that are in progress.
    renewals: usize,
}

/// A time at which a worker looks whether a lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Look {
    pub at: Timestamp,
    /// The number of the lease in the table.
    pub id: u64,
}

/// A renewal in progress. The lease does not end before it.
#[derive(Debug)]
pub struct Renewal<'h> {
    held: &'h HeldLeases,
    id: u64,
}

/// What a renewal has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease ends at the new time, and a worker looks early enough.
    Planned,
    /// The same, but a worker must look earlier than planned.
    Earlier(Look),
    /// Nothing: another lease holds the units.
    Superseded,
    /// Nothing: they were given back, with this end if it is known.
    Ended(Option<u32>),
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

    /// Whether the lease is held, and this look at it is still planned.
    pub fn is_planned(&self, look: Look) -> bool {
        let shard = self.shard(look.id).lock();
        shard.held.get(&look.id).is_some_and(|held| held.due == look.at)
    }

    /// Begins a renewal.
    ///
    /// # Errors
    /// If it is not held: how it has ended, if that is known.
    pub fn renew(&self, id: u64) -> Result<Renewal<'_>, Option<u32>> {
        let mut shard = self.shard(id).lock();
        match shard.held.get_mut(&id) {
            Some(held) => held.renewals += 1,
            None => return Err(shard.ended.get(&id).copied()),
        }
        Ok(Renewal { held: self, id })
    }

    /// Takes a lease out that ends so, and passes it to its owner.
    pub fn give_back(&self, id: u64, end: u32) -> GivenBack {
        let mut shard = self.shard(id).lock();
        let Some(held) = shard.held.remove(&id) else {
            return shard.ended.get(&id).map_or(GivenBack::Unknown, |end| GivenBack::Before(*end));
        };
        shard.ends(id, end);
        drop(shard);
        GivenBack::Now(self.pass(held))
    }

    /// Takes a lease out that has ended at `now`, and passes it to its owner. Otherwise returns the
    /// next look at it, if it is held and this one was planned.
    pub fn expire(&self, look: Look, now: Timestamp) -> Option<Look> {
        let mut shard = self.shard(look.id).lock();
        let held = shard.held.get_mut(&look.id).filter(|held| held.due == look.at)?;
        if held.renewals > 0 || held.expires > now {
            held.due = if held.expires > now { held.expires } else { now.plus(LATER) };
            return Some(Look { at: held.due, ..look });
        }
        let held = shard.held.remove(&look.id)?;
        drop(shard);
        drop(self.pass(held));
        None
    }

    /// Passes a lease that was taken out to its owner.
    fn pass(&self, Held { lease, owner, .. }: Held) -> oneshot::Receiver<()> {
        self.count.fetch_sub(1, Ordering::Relaxed);
        let (done, is_done) = oneshot::channel();
        // A worker that has ended has released all its units.
        if let Some(owner) = self.owners.lock().get(owner) {
            let _ = owner.send(Returned { lease, done });
        }
        is_done
    }
}

impl Renewal<'_> {
    /// Replaces one of the leases `old`, whichever holds the units, by the lease `new`, which ends at
    /// `expires`. That may be earlier than before.
    pub fn replace(self, old: &[u128], new: u128, expires: Timestamp) -> Renewed {
        let mut shard = self.held.shard(self.id).lock();
        let Some(held) = shard.held.get_mut(&self.id) else {
            return Renewed::Ended(shard.ended.get(&self.id).copied());
        };
        if !old.contains(&held.holder) {
            return Renewed::Superseded;
        }
        held.holder = new;
        held.expires = expires;
        if held.due <= expires {
            return Renewed::Planned;
        }
        held.due = expires;
        Renewed::Earlier(Look { at: expires, id: self.id })
    }
}

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.shard(self.id).lock().held.get_mut(&self.id) {
            held.renewals = held.renewals.saturating_sub(1);
        }
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
    /// Holds units of the worker `owner` for the lease `holder`, and returns their number, which is
    /// never 0. A worker must look at `expires` whether it has ended.
    pub fn hold(self, owner: usize, lease: Lease, holder: u128, expires: Timestamp) -> u64 {
        let held = Held { lease, owner, holder, expires, due: expires, renewals: 0 };
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
        places.pop().expect("it is one").hold(owner, Lease::default(), 1, at(9))
    }

    #[test]
    fn a_node_holds_a_bounded_number_of_leases() {
        let held = HeldLeases::default();
        let two = held.reserve(2, 3).expect("there is room");
        assert!(held.reserve(2, 3).is_none(), "all or none");
        let ids: Vec<u64> =
            two.into_iter().map(|place| place.hold(0, Lease::default(), 1, at(9))).collect();
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

    fn look(at_us: u64, id: u64) -> Look {
        Look { at: at(at_us), id }
    }

    #[test]
    fn a_lease_ends_at_its_time_unless_it_is_renewed() {
        let held = HeldLeases::default();
        let (owner, mut returned) = held.join();
        let id = hold(&held, owner);
        let renew =
            |old, new, us| held.renew(id).map(|renewal| renewal.replace(&[old], new, at(us)));
        assert_eq!(renew(1, 2, 20_000_000), Ok(Renewed::Planned));
        assert_eq!(held.expire(look(9, id), at(9)), Some(look(20_000_000, id)));
        assert!(held.is_planned(look(20_000_000, id)) && !held.is_planned(look(9, id)));
        // The same renewal again, after another one.
        assert_eq!(renew(1, 2, 30_000_000), Ok(Renewed::Superseded));
        assert_eq!(renew(2, 3, 10_000_000), Ok(Renewed::Earlier(look(10_000_000, id))));
        assert_eq!(held.expire(look(20_000_000, id), at(20_000_000)), None);
        assert!(returned.try_recv().is_err(), "this look is not planned any more");
        assert_eq!(held.expire(look(10_000_000, id), at(10_000_000)), None);
        assert!(returned.try_recv().is_ok());
        assert_eq!(renew(3, 4, 30_000_000), Err(None));
        assert!(matches!(held.give_back(id, 0), GivenBack::Unknown));
        assert_eq!(held.len(), 0);
    }

    #[test]
    fn a_lease_does_not_end_while_it_is_renewed() {
        let held = HeldLeases::default();
        let (owner, mut returned) = held.join();
        let id = hold(&held, owner);
        let failed = held.renew(id).expect("it is held");
        let next = held.expire(look(9, id), at(9)).expect("it is held");
        drop(failed);
        let renewal = held.renew(id).expect("it is held");
        let last = held.expire(next, next.at).expect("it is held");
        assert!(matches!(held.give_back(id, 7), GivenBack::Now(_)));
        assert_eq!(renewal.replace(&[1], 2, last.at), Renewed::Ended(Some(7)));
        assert!(returned.try_recv().is_ok());
        // A renewal that has failed changes nothing.
        let id = hold(&held, owner);
        drop(held.renew(id));
        assert_eq!(held.expire(look(9, id), at(9)), None);
        assert!(returned.try_recv().is_ok());
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
        let renewed = |id| held.renew(id).map(drop);
        assert_eq!(renewed(ids[0]), Err(None), "the oldest is forgotten");
        assert_eq!(renewed(ids[ids.len() - 1]), Err(Some(7)));
        assert_eq!(held.len(), 0);
    }
}
