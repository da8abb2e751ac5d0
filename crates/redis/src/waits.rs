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

use std::iter;
use std::mem;
use std::rc::Rc;
use std::time::Instant;

use smallvec::SmallVec;
use tollgate_core::algorithm::Retry;
use tollgate_core::store::{Answer, Charge, Decided, Source};
use tollgate_core::time::Span;

use super::RedisStore;
use super::codec::{Ask, Encoder};
use super::fan_out::Part;
use super::inquiries::Turn;
use super::pending::Calls;
use crate::shared::local_plan::{Plan, Planned, Standing, has_account, lengthen};
use crate::shared::store_clock::StoreClock;

/// The indices of charges whose states must be read.
type Unknown = SmallVec<[usize; 4]>;

impl RedisStore {
    /// Completes the answers to a request that is refused, as the plan and the store decided
    /// it. `is_asked` says whether the store has answered the charges that the plan left to it.
    pub(super) async fn complete(
        self: &Rc<Self>,
        encoder: &Rc<Encoder>,
        charges: &[Charge<'_>],
        (plan, is_asked): (&Plan, bool),
        decided: &mut Decided,
        deadline: Instant,
    ) {
        let mut unknown = self.unknown(charges, (plan, is_asked), decided);
        if let Some(&first) = unknown.first() {
            let inquiry = match self.inquiries.begin(charges[first].key) {
                Turn::Ask(inquiry) => Some(inquiry),
                Turn::Wait(reply) => {
                    reply.by(deadline).await;
                    unknown = self.unknown(charges, (plan, is_asked), decided);
                    None
                }
            };
            self.peek(encoder, charges, &unknown, decided, deadline).await;
            drop(inquiry);
        }
        for (charge, answer) in charges.iter().zip(&mut decided.answers) {
            lengthen(charge, &mut answer.verdict);
        }
    }

    /// The charges whose states must be read. The answers of the others are updated.
    fn unknown(
        &self,
        charges: &[Charge<'_>],
        (plan, is_asked): (&Plan, bool),
        decided: &mut Decided,
    ) -> Unknown {
        let mut unknown = Unknown::new();
        let Some(wait) = wait(charges, decided).filter(|_| self.servers.is_up()) else {
            return unknown;
        };
        let now = self.clock.now();
        let store_now = self.store_time(now);
        let denied = self.denied.borrow();
        for (index, (charge, &planned)) in charges.iter().zip(plan).enumerate() {
            let local = &self.node.local;
            // The store's answer, or the one that it gave before, lacks the units that this node
            // owes. They are counted later.
            let is_answered = matches!(planned, Planned::Ask(_)) && is_asked && !local.owes(charge);
            let longest = charge.algorithm.longest_wait(store_now).filter(|_| !has_account(charge));
            let is_shorter = longest.is_some_and(|it| it <= wait);
            if is_answered || !charge.binding {
                continue;
            }
            let empty = charge.algorithm.judge(None, charge.cost, store_now);
            if empty.retry == Retry::Never {
                update(&mut decided.answers[index], Answer::of_store(empty));
                continue;
            }
            if is_shorter {
                continue;
            }
            let known = match local.standing(charge, planned, (wait, self.nodes()), store_now) {
                Standing::Known => continue,
                Standing::Told(verdict) => Some(Answer::of_store(verdict)),
                // The store's state lacks what this node owes.
                Standing::Unknown if has_account(charge) => None,
                Standing::Unknown => denied.fresh(charge, now),
            };
            match known {
                Some(answer) => update(&mut decided.answers[index], answer),
                None => unknown.push(index),
            }
        }
        unknown
    }

    /// Reads the states of these charges, and updates their answers.
    async fn peek(
        self: &Rc<Self>,
        encoder: &Rc<Encoder>,
        charges: &[Charge<'_>],
        unknown: &[usize],
        decided: &mut Decided,
        deadline: Instant,
    ) {
        if unknown.is_empty() {
            return;
        }
        let now = self.clock.now();
        let asked: SmallVec<[Charge<'_>; 4]> = unknown.iter().map(|&it| charges[it]).collect();
        // The store must know what this node has counted.
        let store_now = self.store_time(now);
        self.node.local.hasten(&asked, store_now);
        self.report_due(encoder, self.node.local.due_of(asked.iter(), store_now), store_now);
        let asks = iter::repeat_n(Ask::Peek, asked.len());
        let parts = Part::split(&asked, asks, |charge| self.destination(encoder, charge));
        let mut calls = Calls::send(self, encoder, &asked, &parts, (now, deadline));
        let results = calls.results(self, &parts, now).await;
        for (part, result) in parts.iter().zip(results) {
            let Ok(answered) = &mut result.reply else { continue };
            let clock = StoreClock::new(answered.at, now, self.clock.now());
            for ((position, index), before) in part.positions().zip(mem::take(&mut answered.before))
            {
                let (charge, ask) = (&asked[index], part.asked[position].ask);
                let (state, uncounted) = (before.as_ref(), (false, false));
                self.node.local.learn_reply(charge, ask, state, uncounted, answered.at);
                let local = &self.node.local;
                let verdict = local.told(charge, answered.at).unwrap_or_else(|| {
                    let estimate = local.known(charge);
                    charge.algorithm.judge(estimate.as_ref().or(state), charge.cost, answered.at)
                });
                update(&mut decided.answers[unknown[index]], Answer::of_store(verdict));
                self.denied.borrow_mut().note(charge.key, before, clock);
            }
        }
    }
}

/// Replaces an answer. A request that is refused stays refused, because it was not counted.
fn update(answer: &mut Answer, now: Answer) {
    if answer.verdict.admitted || !now.verdict.admitted {
        *answer = now;
    }
}

/// How long the request must wait, as far as it is known. None: it is not refused, or for
/// ever, or the store has not decided it.
fn wait(charges: &[Charge<'_>], decided: &Decided) -> Option<Span> {
    let mut longest = None;
    for (charge, answer) in charges.iter().zip(&decided.answers) {
        if !charge.binding || answer.verdict.admitted {
            continue;
        }
        match (answer.source, answer.verdict.retry) {
            (Source::Store, Retry::After(wait)) => longest = longest.max(Some(wait)),
            _ => return None,
        }
    }
    longest
}
