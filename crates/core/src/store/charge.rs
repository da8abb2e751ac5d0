//! Charges, and the answers of a store to them: the types that all stores share.

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Op, Verdict};
use crate::consistency::Consistency;
use crate::digest::Key;
use crate::time::Timestamp;

/// The charge of one policy for one request.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter. All charges of one request have different counters.
    pub key: Key,
    /// How the counter counts.
    pub algorithm: &'a Algorithm,
    /// The number of units.
    pub cost: u64,
    /// Whether the request is admitted only if this charge is. A charge that does not bind is
    /// counted if it fits, and never refuses the request.
    pub binding: bool,
    /// How the counter is kept on several nodes.
    pub consistency: Consistency,
}

/// Where a charge was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// In the store.
    #[default]
    Store,
    /// On this node alone, because the store is away.
    Local,
    /// By the policy's `on_store_failure`. The store is away, and no counter was read.
    Policy,
    /// By no counter, because another charge refuses the request.
    Unasked,
}

/// The answer to one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The verdict. If no counter was read, it is that of a counter that was never used.
    pub verdict: Verdict,
    /// Where the charge was decided.
    pub source: Source,
    /// When it was counted: by the clock of its own server, or at the later time that
    /// [`Algorithm::counted_at`] says. None: at the time of the [decision](Decided::at).
    pub at: Option<Timestamp>,
}

impl Answer {
    /// An answer of this source.
    pub const fn new(verdict: Verdict, source: Source) -> Self {
        Self { verdict, source, at: None }
    }

    /// An answer of the store itself.
    pub const fn of_store(verdict: Verdict) -> Self {
        Self::new(verdict, Source::Store)
    }

    /// The answer to a charge that was not sent to the store, because another charge refuses
    /// the request.
    pub fn unasked(charge: &Charge<'_>, now: Timestamp) -> Self {
        Self::new(fresh(charge, now), Source::Unasked)
    }
}

/// The verdict of a counter that was never used. It is reported for a charge that no store
/// decides.
pub fn fresh(charge: &Charge<'_>, now: Timestamp) -> Verdict {
    Verdict { admitted: true, ..charge.algorithm.apply(None, Op::Peek, now).1 }
}

/// The answers to all charges of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The time of the decision, by the store's clock.
    pub at: Timestamp,
    /// One answer for each charge, in their order.
    pub answers: SmallVec<[Answer; 4]>,
}

impl Decided {
    /// A decision by counters of the store itself.
    pub fn of_store(at: Timestamp, verdicts: Verdicts) -> Self {
        Self { at, answers: verdicts.into_iter().map(Answer::of_store).collect() }
    }

    /// The answers with the time at which each charge was counted.
    pub(super) fn dated(self) -> impl Iterator<Item = Answer> {
        let Self { at, answers } = self;
        answers.into_iter().map(move |it| Answer { at: it.at.or(Some(at)), ..it })
    }
}

/// A correction of an earlier charge.
#[derive(Clone, Copy, Debug)]
pub struct Correction<'a> {
    /// The earlier charge.
    pub charge: Charge<'a>,
    /// Where it was decided. Only that counter knows it.
    pub source: Source,
    /// The correction: [`Op::Give`] or [`Op::Settle`].
    pub op: Op,
}

/// One answer for each charge, in their order.
pub(crate) type Answers = SmallVec<[Answer; 4]>;

/// One verdict for each charge, in their order.
pub type Verdicts = SmallVec<[Verdict; 4]>;
