//! What the access lists of a route say of one request.

use std::sync::Arc;

use super::rule::Doubt;
use super::{AccessList, AccessMode, AccessStep, DenialAnswer, Ruling};
use crate::policy::Subject;

/// Why a request is denied, and by which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The index of the list among those of the route.
    pub list: u8,
    /// Why.
    pub cause: DenialCause,
}

/// Why a list does not allow a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialCause {
    /// A rule denies it, or no rule allows it. The answer is that of the list.
    Rule(DenialAnswer),
    /// Backends may read a value differently that a rule compares.
    Ambiguous,
    /// A rule compares a value of a token that cannot be verified yet.
    Unverifiable,
}

/// What a list has said of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessVerdict {
    /// The list allows it.
    Allowed,
    /// The list would deny it if it were not in shadow mode.
    ShadowDenied,
    /// The list denies it.
    Denied(DenialCause),
}

/// What the lists of a route have said of one request: a bit for each list, by its index. It needs
/// no allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessVerdicts {
    /// The lists that were evaluated.
    asked: u16,
    /// Those in shadow mode that would have denied it.
    shadow_denied: u16,
    /// The list that denies it.
    denial: Option<Denial>,
}

impl AccessVerdicts {
    /// The most lists of a route.
    pub const MAX_LISTS: usize = 16;

    /// Asks the lists of a route that are evaluated in this step, in their order, until one denies
    /// the request.
    #[inline]
    pub fn ask(
        &mut self,
        lists: &[Arc<AccessList>],
        step: AccessStep,
        subject: &Subject<'_, '_>,
    ) -> Option<Denial> {
        // Most routes have no list.
        if lists.is_empty() { None } else { self.ask_all(lists, step, subject) }
    }

    fn ask_all(
        &mut self,
        lists: &[Arc<AccessList>],
        step: AccessStep,
        subject: &Subject<'_, '_>,
    ) -> Option<Denial> {
        debug_assert!(lists.len() <= Self::MAX_LISTS, "the configuration bounds lists of a route");
        for (index, list) in (0_u8..).zip(lists) {
            if list.mode == AccessMode::Off || list.step() != step {
                continue;
            }
            self.asked |= bit(index);
            let cause = match list.judge(subject) {
                Ruling::Allowed => continue,
                Ruling::Denied => DenialCause::Rule(list.answer),
                Ruling::Doubtful(Doubt::Ambiguous) => DenialCause::Ambiguous,
                Ruling::Doubtful(Doubt::Unverifiable) => DenialCause::Unverifiable,
            };
            if list.mode == AccessMode::Shadow {
                self.shadow_denied |= bit(index);
                continue;
            }
            self.denial = Some(Denial { list: index, cause });
            return self.denial;
        }
        None
    }

    /// The denial, if a list denies the request.
    pub const fn denial(&self) -> Option<Denial> {
        self.denial
    }

    /// Whether a list was evaluated.
    #[inline]
    pub const fn any(&self) -> bool {
        self.asked != 0
    }

    /// The lists that were evaluated, in their order, with what each has said. `lists` are those
    /// of the route.
    pub fn of<'l>(
        &self,
        lists: &'l [Arc<AccessList>],
    ) -> impl Iterator<Item = (&'l Arc<AccessList>, AccessVerdict)> {
        let Self { asked, shadow_denied, denial } = *self;
        (0_u8..).zip(lists).filter(move |(index, _)| asked & bit(*index) != 0).map(
            move |(index, list)| {
                let verdict = match denial.filter(|denial| denial.list == index) {
                    Some(denial) => AccessVerdict::Denied(denial.cause),
                    None if shadow_denied & bit(index) != 0 => AccessVerdict::ShadowDenied,
                    None => AccessVerdict::Allowed,
                };
                (list, verdict)
            },
        )
    }
}

/// The bit of the list with this index. A list beyond the bound has none.
fn bit(index: u8) -> u16 {
    1_u16.checked_shl(index.into()).unwrap_or(0)
}
