//! Whether clients are banned, as far as one node knows.
//!
//! A ban is a question that consumes nothing. Its answer is believed for a part of
//! the first ban's length ([`LeaseLength`]), and then asked for again. A ban that
//! this node has imposed itself is known at once, and for a second at least no
//! older answer of the store that knows nothing of it is believed.
//!
//! Bound: a ban that another node imposes is honoured here after that part of its
//! length at the latest. Memory is bounded: what is evicted is asked for again.

use quick_cache::unsync::Cache;

use super::length::LeaseLength;
use crate::algorithm::{Algorithm, Op, State, Verdict};
use crate::digest::Key;
use crate::store::Charge;
use crate::time::{Span, Timestamp};

/// How long what this node has imposed is believed more than the store: longer
/// than an answer may be under way.
const IMPOSED_FOR: Span = Span::SECOND;

/// What is known of the bans of all keys of one node, or of a part of them.
#[derive(Debug)]
pub struct Bans {
    seen: Cache<Key, Seen>,
    length: LeaseLength,
}

/// What is known of one ban.
#[derive(Debug)]
struct Seen {
    state: Option<State>,
    /// Until when it is believed.
    until: Timestamp,
    /// Until when it is not believed that there is no ban.
    imposed_until: Timestamp,
}

impl Bans {
    /// One that remembers up to `max_keys` keys, for as long as such leases last.
    pub fn new(max_keys: usize, length: LeaseLength) -> Self {
        Self { seen: Cache::new(max_keys), length }
    }

    /// What is known to be said to a charge. None: the store must be asked. `now`
    /// is the store's time.
    pub fn judge(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Verdict> {
        let seen = self.seen.get(&charge.key).filter(|seen| now < seen.until)?;
        Some(charge.algorithm.apply(seen.state.as_ref(), Op::Take(charge.cost), now).1)
    }

    /// The store's state was `state` at `at`, by its clock.
    pub fn learn(&mut self, charge: &Charge<'_>, state: Option<&State>, at: Timestamp) {
        let Some(length) = self.length(charge.algorithm) else { return };
        let is_banned = !charge.algorithm.apply(state, Op::Take(1), at).1.admitted;
        let is_imposed = |seen: &Seen| at < seen.imposed_until;
        if !is_banned && self.seen.peek(&charge.key).is_some_and(is_imposed) {
            return;
        }
        let (until, imposed_until) = (at.plus(length), Timestamp::default());
        self.seen.insert(charge.key, Seen { state: state.cloned(), until, imposed_until });
    }

    /// This node has the store do `op`, which may impose a ban.
    pub fn corrected(&mut self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        let (Some(length), Op::Settle { .. }) = (self.length(charge.algorithm), op) else { return };
        let imposed_until = now.plus(IMPOSED_FOR);
        // How long a ban lasts is known only from those before it.
        let seen = match self.seen.peek(&charge.key) {
            Some(seen) => Seen {
                state: charge.algorithm.apply(seen.state.as_ref(), op, now).0,
                until: now.plus(length.max(IMPOSED_FOR)),
                imposed_until,
            },
            None => Seen { state: None, until: Timestamp::default(), imposed_until },
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
