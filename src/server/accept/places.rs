//! The places of a listener that is for few clients. When all are taken and another client
//! connects, the connection that has waited longest without a request is closed, as nginx does
//! with its reusable connections.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use slab::Slab;
use tollgate_core::time::monotonic;

use crate::server::state::Place;

/// The places that are taken, over all workers.
#[derive(Debug)]
pub struct Places {
    epoch: Instant,
    taken: Mutex<Slab<Arc<Place>>>,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub struct TakenPlace {
    places: Arc<Places>,
    number: usize,
    place: Arc<Place>,
}

impl Places {
    pub fn new() -> Self {
        Self { epoch: monotonic(), taken: Mutex::default() }
    }

    /// Takes a place for a new connection.
    pub fn add(self: &Arc<Self>) -> TakenPlace {
        let place = Arc::new(Place::new(self.epoch, monotonic()));
        let number = self.taken.lock().insert(Arc::clone(&place));
        TakenPlace { places: Arc::clone(self), number, place }
    }

    /// Has the connection closed that has waited longest without a request, if one waits.
    pub fn make_room(&self) {
        let taken = self.taken.lock();
        let waiting = taken.iter().filter_map(|(_, place)| Some((place.waiting()?, place)));
        if let Some((since, place)) = waiting.min_by_key(|(since, _)| *since) {
            // If a request has arrived meanwhile, the caller tries again.
            place.take(since);
        }
    }
}

impl TakenPlace {
    /// The place itself.
    pub const fn place(&self) -> &Arc<Place> {
        &self.place
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        self.places.taken.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_waits_longest_goes_first() {
        let places = Arc::new(Places::new());
        let taken: Vec<TakenPlace> = (0..3).map(|_| places.add()).collect();
        let waiting = |it: &TakenPlace| it.place().waiting().is_some();
        taken[0].place().is_busy();
        places.make_room();
        assert_eq!(taken.iter().map(waiting).collect::<Vec<_>>(), [false, false, true]);
        places.make_room();
        assert!(!taken.iter().any(waiting));
        places.make_room();
        drop(taken);
        assert!(places.taken.lock().is_empty());
    }
}
