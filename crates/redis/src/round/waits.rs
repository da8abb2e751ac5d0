//! The waits of refused requests.
//!
//! Promise: a client that waits as long as it is told is admitted, if no other request comes.
//! So the wait of a refusal is the longest one of all policies of the request. A policy that
//! refuses without a call does not know the others, and a policy that this node admits by a
//! lease or an account may be used up by other nodes. Redis is asked for their states, which
//! changes nothing, unless they were read within [`FRESH_FOR`], or no state of them can make the
//! client wait longer.
//!
//! [`FRESH_FOR`]: crate::shared::deny::FRESH_FOR

use std::rc::Rc;
use std::time::Instant;

use tollgate_core::algorithm::Retry;
use tollgate_core::digest::Key;
use tollgate_core::store::{Answer, Source};
use tollgate_core::time::{Span, Timestamp};

use super::{Heard, Round, Slot};
use crate::codec::Ask;
use crate::inquiries::Turn;
use crate::shared::local_plan::{Standing, has_account, lengthen};
use crate::shared::store_clock::StoreClock;
use crate::store::RedisStore;

/// What is known of a charge of a request that is refused.
enum Known {
    /// Its answer holds.
    Already,
    /// This answer holds.
    Now(Answer),
    /// Its state must be read.
    Not,
}

/// A request that is refused, and what must be known of its charges.
struct Refused {
    /// How long it must wait, as far as it is known.
    wait: Span,
    /// Whether the store has answered the charges that the plan leaves to it.
    is_asked: bool,
    now: Timestamp,
    store_now: Timestamp,
}

impl Round<'_> {
    /// Completes the answers to a request that is refused, as the plan and the store decided
    /// it.
    pub(super) async fn complete(&mut self, deadline: Instant) {
        if let Some(first) = self.find_unknown() {
            let inquiry = match self.store.inquiries.begin(first) {
                Turn::Ask(inquiry) => Some(inquiry),
                Turn::Wait(reply) => {
                    reply.by(deadline).await;
                    self.find_unknown();
                    None
                }
            };
            self.peek(deadline).await;
            drop(inquiry);
        }
        for slot in &mut self.slots {
            if let Some(mut answer) = slot.answer {
                lengthen(&slot.charge(), &mut answer.verdict);
                slot.answer = Some(answer);
            }
        }
    }

    /// Updates the answers that this node knows. The charges whose states must be read are divided
    /// by destination. Returns the counter of the first of them.
    fn find_unknown(&mut self) -> Option<Key> {
        let store = Rc::clone(&self.store);
        let is_asked = self.is_asked;
        let wait = self.wait().filter(|_| store.servers.is_up());
        let now = store.clock.now();
        let store_now = store.store_time(now);
        let refused = wait.map(|wait| Refused { wait, is_asked, now, store_now });
        self.divide(|slot| match refused.as_ref()?.known(slot, &store) {
            Known::Already => None,
            Known::Now(answer) => {
                slot.update(answer);
                None
            }
            Known::Not => Some(Ask::Peek),
        });
        self.slots.iter().find(|slot| slot.part.is_some()).map(|slot| *slot.key())
    }

    /// How long the request must wait, as far as it is known. None: it is not refused, or for
    /// ever, or the store has not decided it.
    fn wait(&self) -> Option<Span> {
        let mut longest = None;
        for Answer { verdict, source, .. } in
            self.slots.iter().filter(|it| it.refuses()).filter_map(|it| it.answer)
        {
            match (source, verdict.retry) {
                (Source::Store, Retry::After(wait)) => longest = longest.max(Some(wait)),
                _ => return None,
            }
        }
        longest
    }

    /// Reads the states that must be read, and updates the answers of their charges.
    async fn peek(&mut self, deadline: Instant) {
        if self.parts.is_empty() {
            return;
        }
        let store = Rc::clone(&self.store);
        self.now = store.clock.now();
        // The store must know what this node has counted.
        let store_now = self.store_now();
        self.asked_charges().for_each(|charge| store.node.local.hasten(&charge, store_now));
        let due = store.node.local.due_of(self.asked_charges(), store_now);
        store.report_due(&self.encoder, due, store_now);
        self.send(deadline);
        self.replies().await;
        for part in 0..self.parts.len() {
            let Some(Heard { at, .. }) = self.parts[part].heard() else { continue };
            let clock = StoreClock::new(at, self.now, store.clock.now());
            for slot in self.slots.iter_mut().filter(|slot| slot.part == Some(part)) {
                slot.conclude_peek(&store, at, clock);
            }
        }
    }
}

impl Refused {
    /// What is known of a charge of this request.
    fn known(&self, slot: &Slot<'_>, store: &RedisStore) -> Known {
        let local = &store.node.local;
        let charge = &slot.charge();
        // The store's answer, or the one that it gave before, lacks the units that this node
        // owes. They are counted later.
        let is_answered = slot.is_remote() && self.is_asked && !local.owes(charge);
        if is_answered || !charge.binding {
            return Known::Already;
        }
        let empty = charge.algorithm.judge(None, charge.cost, self.store_now);
        if empty.retry == Retry::Never {
            return Known::Now(Answer::of_store(empty));
        }
        let longest = charge.algorithm.longest_wait(self.store_now);
        if !has_account(charge) && longest.is_some_and(|it| it <= self.wait) {
            return Known::Already;
        }
        let nodes = store.nodes();
        let known = match local.standing(charge, slot.planned, self.wait, nodes, self.store_now) {
            Standing::Known => return Known::Already,
            Standing::Told(verdict) => Some(Answer::of_store(verdict)),
            // The store's state lacks what this node owes.
            Standing::Unknown if has_account(charge) => None,
            Standing::Unknown => store.denied.borrow().fresh(charge, self.now),
        };
        known.map_or(Known::Not, Known::Now)
    }
}

impl Slot<'_> {
    /// Replaces the answer. A request that is refused stays refused, because it was not counted.
    fn update(&mut self, now: Answer) {
        if self.is_admitted() || !now.verdict.admitted {
            self.answer = Some(now);
        }
    }

    /// Updates the answer by the state that was read at `at`.
    fn conclude_peek(&mut self, store: &RedisStore, at: Timestamp, clock: StoreClock) {
        let Some(before) = self.reply.take().map(|reply| reply.before) else { return };
        let local = &store.node.local;
        let charge = self.charge();
        local.learn_reply(&charge, self.ask, before.as_ref(), false, false, at);
        let verdict = local.told(&charge, at).unwrap_or_else(|| {
            let estimate = local.known(&charge);
            let state = estimate.as_ref().or(before.as_ref());
            charge.algorithm.judge(state, charge.cost, at)
        });
        store.denied.borrow_mut().note(charge.key, before, clock);
        self.update(Answer::of_store(verdict));
    }
}
