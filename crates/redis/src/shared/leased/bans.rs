//! The bans that one node knows.
//!
//! A check for a ban consumes nothing. Its result is used for a part of the first ban's
//! length ([`LeaseLength`]); then the node asks the store again. A ban that this node
//! imposes takes effect on this node at once. For at least a second after that, replies of
//! the store without the ban are ignored, because they may be older. Until the store has
//! reported the ban, its wait is a little longer.
//!
//! Bound: a ban that another node imposes takes effect on this node after that part of its
//! length at the latest. Memory is bounded: the node asks the store again for evicted keys.

use quick_cache::unsync::Cache;
use tollgate_core::algorithm::{Algorithm, Op, Retry, State, Verdict};
use tollgate_core::digest::Key;
use tollgate_core::store::Charge;
use tollgate_core::time::{Span, Timestamp};

use super::length::LeaseLength;

/// How long replies without a ban are ignored after this node has imposed it. A reply
/// takes less time to arrive.
const IMPOSED_FOR: Span = Span::SECOND;
/// A ban begins in the store when it arrives there, and ends so much later at most.
const ON_ITS_WAY: Span = Span::from_millis(50);

/// The known bans of all keys of one node, or of a part of them.
#[derive(Debug)]
pub struct Bans {
    seen: Cache<Key, Seen>,
    length: LeaseLength,
}

/// The known state of one ban.
#[derive(Debug)]
struct Seen {
    state: Option<State>,
    /// When the state must be read again.
    until: Timestamp,
    /// Until then replies without a ban are ignored.
    imposed_until: Timestamp,
    /// Whether the store has reported the state.
    is_reported: bool,
}

impl Bans {
    /// A table for up to `max_keys` keys, whose states are used for `length`.
    pub fn new(max_keys: usize, length: LeaseLength) -> Self {
        Self { seen: Cache::new(max_keys), length }
    }

    /// The verdict on a charge, if it is known. If it is None, the store must be asked.
    /// `now` is the store's time.
    pub fn judge(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Verdict> {
        let seen = self.seen.get(&charge.key).filter(|seen| now < seen.until)?;
        let (_, verdict) = charge.algorithm.apply(seen.state.as_ref(), Op::Take(charge.cost), now);
        Some(match verdict.retry {
            Retry::After(wait) if !seen.is_reported => {
                let wait = Span::from_micros(wait.as_micros() + ON_ITS_WAY.as_micros());
                Verdict { retry: Retry::After(wait), ..verdict }
            }
            _ => verdict,
        })
    }

    /// Records that the store had `state` at `at`, by its clock.
    pub fn learn(&mut self, charge: &Charge<'_>, state: Option<&State>, at: Timestamp) {
        let Some(length) = self.length(charge.algorithm) else { return };
        let is_banned = !charge.algorithm.apply(state, Op::Take(1), at).1.admitted;
        let is_imposed = |seen: &Seen| at < seen.imposed_until;
        if !is_banned && self.seen.peek(&charge.key).is_some_and(is_imposed) {
            return;
        }
        let until = at.plus(length);
        let imposed_until = Timestamp::default();
        let state = state.cloned();
        self.seen.insert(charge.key, Seen { state, until, imposed_until, is_reported: true });
    }

    /// Records that this node sends `op` to the store, which may impose a ban.
    pub fn corrected(&mut self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        let (Some(length), Op::Settle { .. }) = (self.length(charge.algorithm), op) else { return };
        let imposed_until = now.plus(IMPOSED_FOR);
        // The length of a ban depends on the bans before it.
        let seen = match self.seen.peek(&charge.key) {
            Some(seen) => Seen {
                state: charge.algorithm.apply(seen.state.as_ref(), op, now).0,
                until: now.plus(length.max(IMPOSED_FOR)),
                imposed_until,
                is_reported: false,
            },
            None => {
                Seen { state: None, until: Timestamp::default(), imposed_until, is_reported: false }
            }
        };
        self.seen.insert(charge.key, seen);
    }

    fn length(&self, algorithm: &Algorithm) -> Option<Span> {
        match algorithm {
            Algorithm::Ban(ban) => Some(self.length.of_ban(ban)),
            _ => None,
        }
    }
}
