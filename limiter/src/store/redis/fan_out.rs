//! One decision over several destinations.
//!
//! Counters at one destination are decided in one step. If a request has counters at several
//! destinations, all are called at once. If one of them refuses, the units that the others
//! counted are given back. Within that one round trip, another client may be refused. No
//! window ever admits more than its limit; for buckets see [`Op::Cancel`].

use smallvec::SmallVec;

use super::codec::{Answered, Ask, Asked, CounterReply};
use super::{Destination, StoreError};
use crate::algorithm::Op;
use crate::store::shared::fallback::Unjudged;
use crate::store::shared::local_plan::{Plan, Planned};
use crate::store::{Answer, Charge};
use crate::time::Timestamp;

/// A charge that the store decides, and the operation that it performs for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) charge: Charge<'a>,
    pub(super) ask: Ask,
}

impl<'a> Wanted<'a> {
    /// The charge with its exact cost.
    fn take(charge: &Charge<'a>) -> Self {
        Self { charge: *charge, ask: Ask::Take(charge.cost) }
    }

    /// The charges that the store decides. Without a plan these are all.
    pub(super) fn all(charges: &[Charge<'a>], plan: Option<&Plan>) -> SmallVec<[Self; 4]> {
        match plan {
            None => charges.iter().map(Self::take).collect(),
            Some(plan) => charges.iter().zip(plan).filter_map(Self::planned).collect(),
        }
    }

    /// A planned charge, if the store decides it.
    fn planned((charge, planned): (&Charge<'a>, &Planned)) -> Option<Self> {
        match *planned {
            Planned::Ask(ask) => Some(Self { charge: *charge, ask }),
            Planned::Spent(..) | Planned::Counted(..) | Planned::Cached(_) => None,
        }
    }

    pub(super) fn asked(&self) -> Asked<'a> {
        let Charge { key, algorithm, binding, .. } = self.charge;
        Asked { key, algorithm, ask: self.ask, binding }
    }
}

/// The charges of a request at one destination.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) destination: Destination,
    /// The indices of the request's charges.
    pub(super) indices: SmallVec<[usize; 4]>,
    pub(super) asked: SmallVec<[Asked<'a>; 4]>,
}

/// The reply to a part, or why there is none.
pub(super) type Outcome = Result<Answered, StoreError>;

impl<'a> Part<'a> {
    /// Splits the charges of a request by their destination.
    pub(super) fn split(
        wanted: &[Wanted<'a>],
        destination: impl Fn(&Charge<'a>) -> Destination,
    ) -> SmallVec<[Self; 1]> {
        let mut parts: SmallVec<[Self; 1]> = SmallVec::new();
        for (index, it) in wanted.iter().enumerate() {
            let destination = destination(&it.charge);
            let part = match parts.iter().position(|part| part.destination == destination) {
                Some(known) => &mut parts[known],
                None => {
                    parts.push(Self {
                        destination,
                        indices: SmallVec::new(),
                        asked: SmallVec::new(),
                    });
                    parts.last_mut().expect("one was pushed")
                }
            };
            part.indices.push(index);
            part.asked.push(it.asked());
        }
        parts
    }

    /// The operations that give back all units that a reply reports as taken.
    pub(super) fn refund(&self, answered: &Answered) -> SmallVec<[Asked<'a>; 4]> {
        let taken = answered.at;
        let given = self.asked.iter().zip(&answered.replies).filter(|(_, it)| it.verdict.admitted);
        let give = |(asked, found): (&Asked<'a>, &CounterReply)| match asked.ask {
            Ask::Take(cost) | Ask::Lease { cost, .. } if cost + found.extra > 0 => {
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
    outcomes: &[Outcome],
    local: SmallVec<[Answer; 4]>,
) -> SmallVec<[Answer; 4]> {
    let mut answers: SmallVec<[Option<Answer>; 4]> = SmallVec::from_elem(None, charges);
    for (part, outcome) in parts.iter().zip(outcomes) {
        if let Ok(answered) = outcome {
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
pub(super) fn decided_at(outcomes: &[Outcome], now: Timestamp) -> Timestamp {
    let times = outcomes.iter().filter_map(|outcome| Some(outcome.as_ref().ok()?.at));
    times.max().unwrap_or(now)
}

/// Whether one of these answers refuses the request.
pub(super) fn refuses<'c, 'a: 'c>(
    charges: impl IntoIterator<Item = &'c Charge<'a>>,
    answers: &[Answer],
) -> bool {
    charges.into_iter().zip(answers).any(|(charge, it)| charge.binding && !it.verdict.admitted)
}

/// The request's charges that the store has not decided.
pub(super) fn unjudged<'a>(
    wanted: &[Wanted<'a>],
    parts: &[Part<'_>],
    outcomes: &[Outcome],
) -> SmallVec<[Unjudged<'a>; 4]> {
    let judged = parts.iter().zip(outcomes);
    let failed = judged.filter_map(|(part, outcome)| Some((part, outcome.as_ref().err()?)));
    let mut indices: SmallVec<[(usize, bool); 4]> = SmallVec::new();
    for (part, error) in failed {
        let is_doubtful = error.may_have_counted();
        indices.extend(part.indices.iter().map(|&index| (index, is_doubtful)));
    }
    indices.sort_unstable();
    let unjudged = |(index, is_doubtful): (usize, bool)| {
        let charge = wanted[index].charge;
        Unjudged { charge, is_doubtful }
    };
    indices.into_iter().map(unjudged).collect()
}
