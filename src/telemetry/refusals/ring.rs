//! The last refusals of one policy on one worker.

use std::sync::Arc;

use tollgate_core::digest::Principal;
use tollgate_core::time::Timestamp;

use super::places::Places;
use super::refusal::{Refusal, Refused};

/// The last refusals of one policy on one worker, in no order.
#[derive(Debug, Default)]
pub struct Ring {
    places: Places,
    /// By their places.
    refusals: Vec<Arc<Refusal>>,
    is_closed: bool,
}

impl Ring {
    /// Whether a refusal of this client at this time is kept.
    pub fn admits(&mut self, client: Principal, time: Timestamp) -> bool {
        self.places.admits(client, time)
    }

    /// Keeps a refusal instead of the oldest one of its key, or of all, if there are too many.
    pub fn keep(&mut self, refused: &Refused<'_>, sequence: u64) {
        let place = self.places.take(refused.client, sequence, refused.time);
        match self.refusals.get_mut(place) {
            None => self.refusals.push(Arc::new(refused.numbered(sequence))),
            Some(kept) => match Arc::get_mut(kept) {
                Some(old) => refused.replace(sequence, old),
                // A reader still has it.
                None => *kept = Arc::new(refused.numbered(sequence)),
            },
        }
    }

    /// All refusals for which `is_meant` is true of the sequence.
    pub fn select(&self, is_meant: impl Fn(u64) -> bool, found: &mut Vec<Arc<Refusal>>) {
        let all = self.places.sequences().zip(&self.refusals);
        found.extend(all.filter(|(at, _)| is_meant(*at)).map(|(_, it)| Arc::clone(it)));
    }

    /// Forgets the whole keys.
    pub fn forget_whole(&mut self) {
        for refusal in self.refusals.iter_mut().filter(|it| it.whole.is_some()) {
            // A reader that still has it has been allowed to see it.
            Arc::make_mut(refusal).whole = None;
        }
    }

    /// Forgets all refusals. No further ones may be kept.
    pub fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }

    /// Whether no further refusals may be kept.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }
}
