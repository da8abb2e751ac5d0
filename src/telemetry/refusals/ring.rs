//! The last refusals of one policy on one worker.

use std::sync::Arc;

use tollgate_limiter::digest::Principal;

use super::refusal::{Refusal, Refused};

/// The most refusals of a ring.
pub(super) const MAX_KEPT: usize = 256;
/// The most of them of one key, so that one client does not push out those of all others.
pub(super) const MAX_OF_KEY: usize = 8;

/// The last refusals of one policy on one worker, in no order.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The key and the sequence of each refusal. They are apart, because each new refusal
    /// reads all of them.
    slots: Vec<(Principal, u64)>,
    refusals: Vec<Arc<Refusal>>,
    is_closed: bool,
}

impl Ring {
    /// Keeps a refusal in place of the oldest one of its key, or of all, if there are too many.
    pub(super) fn keep(&mut self, refused: &Refused<'_>, sequence: u64) {
        let slot = (refused.client, sequence);
        let Some(place) = self.place_for(refused.client) else {
            self.slots.push(slot);
            self.refusals.push(Arc::new(refused.numbered(sequence)));
            return;
        };
        self.slots[place] = slot;
        match Arc::get_mut(&mut self.refusals[place]) {
            Some(old) => refused.replace(sequence, old),
            // A reader still has it.
            None => self.refusals[place] = Arc::new(refused.numbered(sequence)),
        }
    }

    /// The place of the refusal that a new one of this key replaces.
    fn place_for(&self, client: Principal) -> Option<usize> {
        let (mut of_key, mut oldest_of_key, mut oldest) = (0, None, None);
        for (place, &(key, sequence)) in self.slots.iter().enumerate() {
            let this = Some((sequence, place));
            if key == client {
                of_key += 1;
                oldest_of_key = min(oldest_of_key, this);
            }
            oldest = min(oldest, this);
        }
        let replaced = match () {
            () if of_key >= MAX_OF_KEY => oldest_of_key,
            () if self.slots.len() >= MAX_KEPT => oldest,
            () => None,
        };
        replaced.map(|(_, place)| place)
    }

    /// All refusals for which `is_meant` is true of the sequence.
    pub(super) fn select(&self, is_meant: impl Fn(u64) -> bool, found: &mut Vec<Arc<Refusal>>) {
        let all = self.slots.iter().zip(&self.refusals);
        found.extend(all.filter(|((_, at), _)| is_meant(*at)).map(|(_, it)| Arc::clone(it)));
    }

    /// Forgets the whole keys.
    pub(super) fn forget_whole(&mut self) {
        for refusal in self.refusals.iter_mut().filter(|it| it.whole.is_some()) {
            // A reader that still has it has been allowed to see it.
            Arc::make_mut(refusal).whole = None;
        }
    }

    /// Forgets all refusals. No further ones may be kept.
    pub(super) fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }

    /// Whether no further refusals may be kept.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }
}

fn min(one: Option<(u64, usize)>, other: Option<(u64, usize)>) -> Option<(u64, usize)> {
    one.into_iter().chain(other).min()
}
