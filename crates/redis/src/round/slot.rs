//! One charge of a request, with all that its decision knows of it.

use std::borrow::Cow;

use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::consistency::{Consistency, OnFailure};
use tollgate_core::digest::Key;
use tollgate_core::store::{Answer, Charge, Source};
use tollgate_core::time::Timestamp;

use crate::codec::{Ask, Asked, CounterReply};
use crate::shared::in_flight::is_in_flight;
use crate::shared::local_plan::Planned;

/// The place of one charge in a [`Round`](super::Round). It owns its algorithm if it outlives the
/// policies of its request.
#[derive(Clone, Debug)]
pub(super) struct Slot<'a> {
    key: Key,
    algorithm: Cow<'a, Algorithm>,
    cost: u64,
    binding: bool,
    consistency: Consistency,
    /// How the charge is decided.
    pub(super) planned: Planned,
    /// The part that asks the store for it. None: the store is not asked.
    pub(super) part: Option<usize>,
    /// What the store is asked.
    pub(super) ask: Ask,
    /// The store's reply.
    pub(super) reply: Option<CounterReply>,
    /// The answer, as far as it is known.
    pub(super) answer: Option<Answer>,
}

impl<'a> Slot<'a> {
    /// A charge that has no answer yet.
    pub(super) fn new(charge: &Charge<'a>, planned: Planned) -> Self {
        let Charge { key, algorithm, cost, binding, consistency } = *charge;
        Self {
            key,
            algorithm: Cow::Borrowed(algorithm),
            cost,
            binding,
            consistency,
            planned,
            part: None,
            ask: Ask::Peek,
            reply: None,
            answer: None,
        }
    }

    /// The same slot, which can outlive the policies of its request.
    pub(super) fn into_owned(self) -> Slot<'static> {
        Slot { algorithm: Cow::Owned(self.algorithm.into_owned()), ..self }
    }
}

impl Slot<'_> {
    pub(super) fn charge(&self) -> Charge<'_> {
        let Self { key, ref algorithm, cost, binding, consistency, .. } = *self;
        Charge { key, algorithm, cost, binding, consistency }
    }

    pub(super) const fn key(&self) -> &Key {
        &self.key
    }

    pub(super) const fn binds(&self) -> bool {
        self.binding
    }

    /// The operation that the store is asked.
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked { key: self.key, algorithm: &self.algorithm, ask: self.ask, binding: self.binding }
    }

    /// Whether the plan leaves the charge to the store.
    pub(super) const fn is_remote(&self) -> bool {
        matches!(self.planned, Planned::Ask(_))
    }

    /// Whether its requests are refused while the store is away. Such a policy accepts that a
    /// repeated call may count twice.
    pub(super) const fn fails_closed(&self) -> bool {
        self.binding && matches!(self.consistency.on_failure, OnFailure::Deny)
    }

    /// Whether its answer refuses the request.
    pub(super) fn refuses(&self) -> bool {
        self.binding && self.answer.is_some_and(|it| !it.verdict.admitted)
    }

    /// Whether it has an answer that admits it.
    pub(super) fn is_admitted(&self) -> bool {
        self.answer.is_some_and(|it| it.verdict.admitted)
    }

    /// Whether its units count whether they fit or not.
    pub(super) const fn counts_always(&self) -> bool {
        matches!(self.ask, Ask::Count(_))
    }

    /// Whether this node has counted it in its share.
    pub(super) fn is_counted_locally(&self) -> bool {
        let is_counted = |it: Answer| it.verdict.admitted || self.counts_always();
        self.answer.is_some_and(|it| it.source == Source::Local && is_counted(it))
    }

    /// Whether the store has counted it, if it has not refused the request.
    pub(super) fn is_counted_by_store(&self) -> bool {
        let is_counted = |it: &CounterReply| it.verdict.admitted || self.counts_always();
        self.reply.as_ref().is_some_and(is_counted)
    }

    /// Whether it holds units until its request has ended.
    pub(super) fn is_in_flight(&self) -> bool {
        is_in_flight(&self.charge())
    }

    /// The operation that gives back all units that the reply reports as taken at `taken`.
    pub(super) fn refund(&self, taken: Timestamp) -> Option<Asked<'_>> {
        let reply = self.reply.as_ref()?;
        match self.ask {
            Ask::Take(cost) | Ask::Lease { cost, .. } if reply.verdict.admitted => {
                self.cancel(cost + reply.extra, taken)
            }
            Ask::Count(cost) => self.cancel(cost, taken),
            _ => None,
        }
    }

    fn cancel(&self, cost: u64, taken: Timestamp) -> Option<Asked<'_>> {
        let op = Op::Cancel { cost, taken };
        (cost > 0).then(|| Asked::correction(self.key, &self.algorithm, op)).flatten()
    }

    /// The operation that gives back units that were leased at `taken`, because no ledger has
    /// recorded the lease.
    pub(super) fn unspent(&self, taken: Timestamp) -> Option<Asked<'_>> {
        let cost = self.reply.as_ref()?.extra;
        let op = Op::Give { cost, taken };
        (cost > 0).then(|| Asked::correction(self.key, &self.algorithm, op)).flatten()
    }
}
