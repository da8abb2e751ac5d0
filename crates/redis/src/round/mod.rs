//! The decision on one request.
//!
//! A [`Round`] has a [`Slot`] for each charge: the charge, how it is planned, which part of the
//! round asks the store for it, the store's reply and the answer. The steps are, in this order:
//!
//! 1. `decide` plans the charges, and answers those that need no call;
//! 2. `calls` asks the store for the others: counters at one destination are a [`Part`], which the
//!    store decides in one step, and all parts are called at once;
//! 3. `settle` makes one decision of the replies. If one destination refuses, the units that the
//!    others counted are given back. Within that one round trip, another client may be refused.
//!    No window ever admits more than its limit; for buckets see
//!    [`Op::Cancel`](tollgate_core::algorithm::Op::Cancel). The fallback decides what has no reply;
//! 4. `waits` completes the waits of a request that is refused;
//! 5. `late` reads the replies that come after the decision.
//!
//! A server may count a call as soon as it is sent. So if the client disconnects, the round
//! continues in the background (`abandoned`).

mod abandoned;
mod calls;
mod decide;
mod late;
mod settle;
mod slot;
mod trial;
mod waits;

use std::rc::Rc;

use smallvec::SmallVec;
use tollgate_core::store::{Charge, Decided};
use tollgate_core::time::Timestamp;

pub(super) use self::decide::count;
use self::slot::Slot;
pub(super) use self::trial::trial;
use super::codec::{Answered, Ask, Asked, Encoder};
use super::deadline::LateReply;
use super::failure::StoreError;
use super::server::{Call, Destination};
use super::store::RedisStore;
use crate::shared::local_plan::Planned;

/// The decision on one request over Redis.
struct Round<'a> {
    store: Rc<RedisStore>,
    encoder: Rc<Encoder>,
    /// The charges of the request, in their order.
    slots: SmallVec<[Slot<'a>; 4]>,
    /// What the store is asked, by destination.
    parts: SmallVec<[Part; 1]>,
    /// When the store is asked, by this node's clock.
    now: Timestamp,
    /// When the charges were planned, by the store's clock. None: the store decides all of them.
    planned_at: Option<Timestamp>,
    /// When the request was decided, by the store's clock.
    at: Timestamp,
    /// Whether the store, or what is known of it, has answered the charges that the plan leaves
    /// to it.
    is_asked: bool,
    /// Whether it is still to be decided. If it is dropped then, its calls are settled, or its
    /// plan is withdrawn.
    is_open: bool,
}

/// The charges of a request at one destination.
struct Part {
    destination: Destination,
    /// The call, until it has ended.
    call: Option<Call>,
    /// The reply, or why there is none.
    heard: Result<Heard, StoreError>,
    /// Whether the store may have counted more than it reported.
    is_doubtful: bool,
    /// The late reply, if it may still come.
    late: Option<LateReply>,
}

/// The reply to a part. Its [slots](Slot::reply) have the replies to its operations.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// When the store decided, by its clock.
    at: Timestamp,
    /// Whether the store refused. Then it changed nothing.
    refused: bool,
}

impl Part {
    /// A part that was not sent.
    const fn new(destination: Destination) -> Self {
        let heard = Err(StoreError::NotSent);
        Self { destination, call: None, heard, is_doubtful: false, late: None }
    }

    fn heard(&self) -> Option<Heard> {
        self.heard.as_ref().ok().copied()
    }
}

impl<'a> Round<'a> {
    /// A round without charges. None: the layout of the keys in Redis is not known yet.
    fn begin(store: &Rc<RedisStore>, now: Timestamp) -> Option<Self> {
        Some(Self {
            encoder: store.encoder()?,
            store: Rc::clone(store),
            slots: SmallVec::new(),
            parts: SmallVec::new(),
            now,
            planned_at: None,
            at: now,
            is_asked: false,
            is_open: false,
        })
    }

    /// Adds charges that the store decides, each by this operation.
    fn ask_for(&mut self, charges: &[Charge<'a>], ask: impl Fn(&Charge<'_>) -> Ask) {
        self.slots
            .extend(charges.iter().map(|charge| Slot::new(charge, Planned::Ask(ask(charge)))));
    }

    /// Divides the charges for which there is something to ask by their destinations.
    fn divide(&mut self, ask: impl Fn(&mut Slot<'_>) -> Option<Ask>) {
        let Self { store, encoder, slots, parts, .. } = self;
        parts.clear();
        for slot in slots {
            slot.part = None;
            slot.reply = None;
            let Some(ask) = ask(slot) else { continue };
            let destination = store.destination(encoder, slot.key());
            let known = parts.iter().position(|part| part.destination == destination);
            let part = known.unwrap_or_else(|| {
                parts.push(Part::new(destination));
                parts.len() - 1
            });
            slot.part = Some(part);
            slot.ask = ask;
        }
    }
}

impl Round<'_> {
    /// The charges of one part, in their order.
    fn slots_of(&self, part: usize) -> impl Iterator<Item = &Slot<'_>> {
        self.slots.iter().filter(move |slot| slot.part == Some(part))
    }

    /// The operations of one part, in their order.
    fn asked(&self, part: usize) -> SmallVec<[Asked<'_>; 4]> {
        self.slots_of(part).map(Slot::asked).collect()
    }

    /// The charges that some part asks the store for.
    fn asked_charges(&self) -> impl Iterator<Item = Charge<'_>> {
        self.slots.iter().filter(|slot| slot.part.is_some()).map(Slot::charge)
    }

    /// The charges that the plan leaves to the store.
    fn remote(&self) -> impl Iterator<Item = Charge<'_>> + Clone {
        self.slots.iter().filter(|slot| slot.is_remote()).map(Slot::charge)
    }

    /// Records the reply to a part.
    fn hear(&mut self, part: usize, answered: Answered) -> Heard {
        let Answered { at, refused, replies } = answered;
        let slots = self.slots.iter_mut().filter(|slot| slot.part == Some(part));
        for (slot, reply) in slots.zip(replies) {
            slot.reply = Some(reply);
        }
        Heard { at, refused }
    }

    /// Whether one of the answers refuses the request.
    fn is_refused(&self) -> bool {
        self.slots.iter().any(Slot::refuses)
    }

    /// The store's time, as far as this node knows it.
    fn store_now(&self) -> Timestamp {
        self.store.store_time(self.now)
    }

    /// The decision, when each charge has an answer.
    fn decided(&self) -> Decided {
        let answers = self.slots.iter().filter_map(|slot| slot.answer).collect();
        Decided { at: self.at, answers }
    }
}
