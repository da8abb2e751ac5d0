//! One decision over several destinations.
//!
//! Counters at one destination are decided in one step. If a request has counters at several
//! destinations, all are called at once. If one of them refuses, the units that the others
//! counted are given back. Within that one round trip, another client may be refused. No
//! window ever admits more than its limit; for buckets see [`Op::Cancel`].

use smallvec::SmallVec;
use tollgate_core::algorithm::Op;
use tollgate_core::store::{Answer, Charge};
use tollgate_core::time::Timestamp;

use super::codec::{Answered, Ask, Asked, CounterReply};
use super::deadline::LateReply;
use super::{Destination, StoreError};
use crate::shared::fallback::Undecided;
use crate::shared::local_plan::Plan;

/// The charges that the plan leaves to the store. Without a plan these are all charges.
pub(super) fn remote<'a>(charges: &[Charge<'a>], plan: &Plan) -> SmallVec<[Charge<'a>; 4]> {
    let planned = charges.iter().zip(plan);
    planned.filter(|(_, planned)| planned.ask().is_some()).map(|(charge, _)| *charge).collect()
}

/// The operations for the charges that the store decides, in their order. Without a plan,
/// the store takes the exact costs.
pub(super) fn asks(remote: &[Charge<'_>], plan: Option<&Plan>) -> impl Iterator<Item = Ask> {
    let planned = plan.into_iter().flatten().filter_map(|planned| planned.ask());
    let exact = if plan.is_none() { remote } else { &[] };
    planned.chain(exact.iter().map(|charge| Ask::Take(charge.cost)))
}

/// The charges of a request at one destination.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) destination: Destination,
    /// The indices of its charges among those that the store decides.
    pub(super) indices: SmallVec<[usize; 4]>,
    pub(super) asked: SmallVec<[Asked<'a>; 4]>,
}

/// The result of one part.
pub(super) struct PartResult {
    /// The reply, or why there is none.
    pub(super) reply: Result<Answered, StoreError>,
    /// Whether the store may have counted more than it reported.
    pub(super) is_doubtful: bool,
    /// The late reply, if it may still come.
    pub(super) late: Option<LateReply>,
}

impl Default for PartResult {
    /// That of a call that was not sent.
    fn default() -> Self {
        Self { reply: Err(StoreError::NotSent), is_doubtful: false, late: None }
    }
}

impl<'a> Part<'a> {
    pub(super) fn new(destination: Destination) -> Self {
        Self { destination, indices: SmallVec::new(), asked: SmallVec::new() }
    }

    /// Adds a charge, with the operation that the store performs for it.
    pub(super) fn push(&mut self, index: usize, charge: &Charge<'a>, ask: Ask) {
        let Charge { key, algorithm, binding, .. } = *charge;
        self.indices.push(index);
        self.asked.push(Asked { key, algorithm, ask, binding });
    }

    /// Splits charges by their destination. Each has one of `asks`.
    pub(super) fn split(
        charges: &[Charge<'a>],
        asks: impl Iterator<Item = Ask>,
        destination: impl Fn(&Charge<'a>) -> Destination,
    ) -> SmallVec<[Self; 1]> {
        let mut parts: SmallVec<[Self; 1]> = SmallVec::new();
        for (index, (charge, ask)) in charges.iter().zip(asks).enumerate() {
            let destination = destination(charge);
            let known = parts.iter().position(|part| part.destination == destination);
            let known = known.unwrap_or_else(|| {
                parts.push(Self::new(destination));
                parts.len() - 1
            });
            parts[known].push(index, charge, ask);
        }
        parts
    }

    /// The positions of its operations, each with the index of its charge.
    pub(super) fn positions(&self) -> impl Iterator<Item = (usize, usize)> {
        self.indices.iter().copied().enumerate()
    }

    /// The operations that give back all units that a reply reports as taken.
    pub(super) fn refund(&self, answered: &Answered) -> SmallVec<[Asked<'a>; 4]> {
        let taken = answered.at;
        let is_taken = |(asked, found): &(&Asked<'a>, &CounterReply)| {
            found.verdict.admitted || matches!(asked.ask, Ask::Count(_))
        };
        let given = self.asked.iter().zip(&answered.replies).filter(is_taken);
        let give = |(asked, found): (&Asked<'a>, &CounterReply)| match asked.ask {
            Ask::Take(cost) | Ask::Count(cost) | Ask::Lease { cost, .. }
                if cost + found.extra > 0 =>
            {
                let op = Op::Cancel { cost: cost + found.extra, taken };
                Asked::correction(asked.key, asked.algorithm, op)
            }
            _ => None,
        };
        given.filter_map(give).collect()
    }
}

/// One answer for each charge, in their order: those of the store for the parts with a
/// reply, and for the others, in their order, those of `local`.
pub(super) fn combine(
    charges: usize,
    parts: &[Part<'_>],
    results: &[PartResult],
    local: SmallVec<[Answer; 4]>,
) -> SmallVec<[Answer; 4]> {
    let mut answers: SmallVec<[Option<Answer>; 4]> = SmallVec::from_elem(None, charges);
    for (part, result) in parts.iter().zip(results) {
        if let Ok(answered) = &result.reply {
            for (&index, reply) in part.indices.iter().zip(&answered.replies) {
                answers[index] = Some(Answer::of_store(reply.verdict));
            }
        }
    }
    let mut local = local.into_iter();
    let fill = |answer: Option<Answer>| answer.or_else(|| local.next());
    answers.into_iter().filter_map(fill).collect()
}

/// When a request was decided: the latest time in the replies, or `now`.
pub(super) fn decided_at(results: &[PartResult], now: Timestamp) -> Timestamp {
    let times = results.iter().filter_map(|result| Some(result.reply.as_ref().ok()?.at));
    times.max().unwrap_or(now)
}

/// Whether one of these answers refuses the request.
pub(super) fn refuses<'c, 'a: 'c>(
    charges: impl IntoIterator<Item = &'c Charge<'a>>,
    answers: &[Answer],
) -> bool {
    charges.into_iter().zip(answers).any(|(charge, it)| charge.binding && !it.verdict.admitted)
}

/// The charges whose part has no reply, in their order.
pub(super) fn undecided<'a>(
    remote: &[Charge<'a>],
    parts: &[Part<'_>],
    results: &[PartResult],
) -> SmallVec<[Undecided<'a>; 4]> {
    let ended = parts.iter().zip(results);
    let failed = ended.filter_map(|(part, result)| Some((part, result.reply.as_ref().err()?)));
    let mut indices: SmallVec<[(usize, bool, bool); 4]> = SmallVec::new();
    for (part, error) in failed {
        let (is_doubtful, is_overload) =
            (error.may_have_counted(), *error == StoreError::Overloaded);
        indices.extend(part.indices.iter().map(|&index| (index, is_doubtful, is_overload)));
    }
    indices.sort_unstable();
    let undecided = |(index, is_doubtful, is_overload): (usize, bool, bool)| {
        let charge = remote[index];
        Undecided { charge, is_doubtful, is_overload }
    };
    indices.into_iter().map(undecided).collect()
}
