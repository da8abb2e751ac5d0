//! Charges that this node has decided alone, while the store's reply about them is late.
//!
//! The end of a response corrects its charge where it is counted. Of these charges that is not known
//! until the late reply comes. The response can end before it, and after it:
//!
//! - Units that a response gives back earlier are noted here. The reply then decides what happens: they
//!   are given back to the store as well if it has counted the charge, and are not charged there if it
//!   has not.
//! - If the store has counted the charge, a later correction belongs to the store alone.
//! - If the store has refused the charge, it is charged there above the limit, and stays in the share. A
//!   later correction belongs to both.
//!
//! A charge is known here until its correction comes, and at most until [`MAX_LATE`] others have come.
//! Most charges are never corrected.

use std::collections::{HashMap, VecDeque};

use smallvec::SmallVec;
use tollgate_core::algorithm::Op;
use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

/// The maximum number of charges that are known.
const MAX_LATE: usize = 16_384;

/// A charge: its counter, and when this node has decided it, by the store's clock.
type Id = (Key, Timestamp);

/// Where a charge is counted.
#[derive(Debug)]
enum Place {
    /// In this node's share, and perhaps in the store. These operations have given back units in the
    /// share.
    Unknown(Refunds),
    /// In the store, since this time by its clock.
    Store(Timestamp),
    /// In this node's share, and in the store since this time.
    Both(Timestamp),
}

/// What the late reply says of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LateOutcome {
    /// The store has counted it at this time.
    Counted(Timestamp),
    /// The store has refused it at this time, and is to charge what is left of it.
    Refused(Timestamp),
    /// It is not in the store, or that is not known.
    Uncounted,
}

/// Operations that give units back.
pub(crate) type Refunds = SmallVec<[Op; 1]>;

/// Where a correction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// To this node, which alone has counted the charge.
    Here,
    /// To this node's share. It is noted for the store.
    Share,
    /// To the store, by this operation.
    Store(Op),
    /// To this node's share, and to the store by this operation.
    Both(Op),
}

/// The charges of one node whose reply is late.
#[derive(Debug, Default)]
pub(crate) struct LateCharges {
    places: HashMap<Id, Place>,
    /// All that were added, the oldest first, also those that are known no more.
    order: VecDeque<Id>,
}

impl LateCharges {
    /// This node has admitted a charge, and the store's reply is late.
    pub(crate) fn begin(&mut self, key: Key, taken: Timestamp) {
        self.places.insert((key, taken), Place::Unknown(Refunds::new()));
        self.order.push_back((key, taken));
        if self.order.len() > MAX_LATE
            && let Some(oldest) = self.order.pop_front()
        {
            self.places.remove(&oldest);
        }
    }

    /// A charge that this node has decided is corrected.
    pub(crate) fn correct(&mut self, key: Key, op: Op) -> Belongs {
        let Some(taken) = taken(op) else { return Belongs::Here };
        match self.places.get_mut(&(key, taken)) {
            None => Belongs::Here,
            // The excess becomes a debt of this node, whatever the reply says.
            Some(Place::Unknown(_)) if given_back(op) == 0 => Belongs::Here,
            Some(Place::Unknown(refunds)) => {
                refunds.push(op);
                Belongs::Share
            }
            Some(&mut Place::Store(at)) => {
                self.places.remove(&(key, taken));
                Belongs::Store(taken_at(op, at))
            }
            // The excess becomes a debt of this node.
            Some(Place::Both(_)) if given_back(op) == 0 => Belongs::Here,
            Some(&mut Place::Both(at)) => {
                self.places.remove(&(key, taken));
                Belongs::Both(taken_at(op, at))
            }
        }
    }

    /// The reply about a charge has come, or never comes. Returns the operations that have given back
    /// units meanwhile: those for the store, if it has counted the charge.
    pub(crate) fn end(&mut self, key: Key, taken: Timestamp, outcome: LateOutcome) -> Refunds {
        let Some(Place::Unknown(refunds)) = self.places.remove(&(key, taken)) else {
            return Refunds::new();
        };
        let place = match outcome {
            LateOutcome::Counted(at) => Some(Place::Store(at)),
            LateOutcome::Refused(at) => Some(Place::Both(at)),
            LateOutcome::Uncounted => None,
        };
        // A charge is corrected once.
        if let (Some(place), true) = (place, refunds.is_empty()) {
            self.places.insert((key, taken), place);
        }
        match outcome {
            LateOutcome::Counted(at) => refunds.into_iter().map(|op| taken_at(op, at)).collect(),
            LateOutcome::Refused(_) | LateOutcome::Uncounted => refunds,
        }
    }
}

/// The units that operations give back.
pub(crate) fn units(refunds: &Refunds) -> u64 {
    refunds.iter().map(|op| given_back(*op)).sum()
}

const fn given_back(op: Op) -> u64 {
    match op {
        Op::Give { cost, .. } | Op::Cancel { cost, .. } => cost,
        Op::Settle { reserved, actual, .. } => reserved.saturating_sub(actual),
        Op::Take(_) | Op::Count(_) | Op::Peek => 0,
    }
}

const fn taken(op: Op) -> Option<Timestamp> {
    match op {
        Op::Give { taken, .. } | Op::Cancel { taken, .. } | Op::Settle { taken, .. } => Some(taken),
        Op::Take(_) | Op::Count(_) | Op::Peek => None,
    }
}

/// The same operation on units that were taken at `taken`.
const fn taken_at(op: Op, taken: Timestamp) -> Op {
    match op {
        Op::Give { cost, .. } => Op::Give { cost, taken },
        Op::Cancel { cost, .. } => Op::Cancel { cost, taken },
        Op::Settle { reserved, actual, .. } => Op::Settle { reserved, actual, taken },
        Op::Take(_) | Op::Count(_) | Op::Peek => op,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::digest::{Counter, Principal};

    use super::*;

    const DECIDED: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);
    const COUNTED: Timestamp = Timestamp::from_micros(1_795_246_126_000_350);

    fn key(number: u64) -> Key {
        Key { principal: Principal::from_bits(number.into()), counter: Counter::from_bits(1) }
    }

    const fn cancel(cost: u64, taken: Timestamp) -> Op {
        Op::Cancel { cost, taken }
    }

    const fn settle(reserved: u64, actual: u64, taken: Timestamp) -> Op {
        Op::Settle { reserved, actual, taken }
    }

    const OUTCOMES: [LateOutcome; 3] =
        [LateOutcome::Counted(COUNTED), LateOutcome::Refused(COUNTED), LateOutcome::Uncounted];

    #[test]
    fn units_that_are_given_back_before_the_reply_are_told_with_it() {
        let mut late = LateCharges::default();
        for (number, outcome) in (1..).zip(OUTCOMES) {
            late.begin(key(number), DECIDED);
            assert_eq!(late.correct(key(number), settle(5, 2, DECIDED)), Belongs::Share);
            let refunds = late.end(key(number), DECIDED, outcome);
            assert_eq!(units(&refunds), 3);
            let at = if let LateOutcome::Counted(at) = outcome { at } else { DECIDED };
            assert_eq!(refunds[..], [settle(5, 2, at)]);
            assert_eq!(late.correct(key(number), cancel(2, DECIDED)), Belongs::Here);
        }
    }

    #[test]
    fn a_correction_after_the_reply_belongs_to_what_has_counted_the_charge() {
        let mut late = LateCharges::default();
        for (number, outcome) in (1..).zip(OUTCOMES) {
            late.begin(key(number), DECIDED);
            assert!(late.end(key(number), DECIDED, outcome).is_empty());
            let expected = match outcome {
                LateOutcome::Counted(at) => Belongs::Store(cancel(5, at)),
                LateOutcome::Refused(at) => Belongs::Both(cancel(5, at)),
                LateOutcome::Uncounted => Belongs::Here,
            };
            assert_eq!(late.correct(key(number), cancel(5, DECIDED)), expected);
            assert_eq!(late.correct(key(number), cancel(5, DECIDED)), Belongs::Here, "once");
        }
    }

    #[test]
    fn an_excess_belongs_to_the_store_or_becomes_a_debt_of_this_node() {
        let mut late = LateCharges::default();
        let excess = settle(2, 9, DECIDED);
        late.begin(key(1), DECIDED);
        assert_eq!(late.correct(key(1), excess), Belongs::Here);
        for (outcome, expected) in OUTCOMES.into_iter().zip([
            Belongs::Store(settle(2, 9, COUNTED)),
            Belongs::Here,
            Belongs::Here,
        ]) {
            late.begin(key(1), DECIDED);
            assert!(late.end(key(1), DECIDED, outcome).is_empty());
            assert_eq!(late.correct(key(1), excess), expected, "{outcome:?}");
        }
    }

    #[test]
    fn other_charges_belong_to_this_node() {
        let mut late = LateCharges::default();
        late.begin(key(1), DECIDED);
        assert_eq!(late.correct(key(2), cancel(1, DECIDED)), Belongs::Here);
        assert_eq!(late.correct(key(1), cancel(1, COUNTED)), Belongs::Here);
        assert!(late.end(key(1), DECIDED, LateOutcome::Uncounted).is_empty());
    }

    #[test]
    fn only_the_last_charges_are_known() {
        let mut late = LateCharges::default();
        let most = u64::try_from(MAX_LATE).unwrap();
        for number in 0..most + 10 {
            late.begin(key(number), DECIDED);
        }
        assert_eq!((late.places.len(), late.order.len()), (MAX_LATE, MAX_LATE));
        assert_eq!(late.correct(key(9), cancel(1, DECIDED)), Belongs::Here);
        assert_eq!(late.correct(key(10), cancel(1, DECIDED)), Belongs::Share);
        for number in 0..most {
            late.end(key(number), DECIDED, LateOutcome::Counted(COUNTED));
            late.correct(key(number), cancel(1, DECIDED));
            late.begin(key(number), DECIDED);
        }
        assert!(late.places.len() <= MAX_LATE && late.order.len() == MAX_LATE);
    }
}
