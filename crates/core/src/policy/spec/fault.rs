//! What is wrong with a specification.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use super::{Field, Written};
use crate::algorithm::{Algorithm, QuotaError};
use crate::time::Span;

/// Names are sent in header fields.
const MAX_NAME_CHARS: usize = 128;

/// What is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// What is wrong.
    pub message: String,
    /// What would be right. It may be empty.
    pub advice: String,
}

impl Remark {
    pub(super) fn new(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { message: message.into(), advice: advice.into() }
    }
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field. If it is not written, then the one that it should be in.
    pub field: Field,
    /// Whether it is only a warning.
    pub is_warning: bool,
    /// What is wrong, and what would be right.
    pub remark: Remark,
}

/// What is wrong with the name of a policy, a plan, a route or an upstream; `of` says which.
pub fn name_fault(name: &str, of: &str) -> Option<Remark> {
    let is_good = |c: char| c == ' ' || c.is_ascii_graphic();
    if name.is_empty() || name.trim() != name {
        let message = format!("a {of} needs a name without leading or trailing blanks");
        Some(Remark::new(message, ""))
    } else if name.len() > MAX_NAME_CHARS || !name.chars().all(is_good) {
        // Header fields allow nothing else.
        let message = format!("the name of a {of} may have at most 128 characters, all ASCII");
        Some(Remark::new(message, "use letters, digits and -"))
    } else {
        None
    }
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(super) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub(super) fn into_vec(self) -> Vec<Fault> {
        self.0.into_inner()
    }

    pub(super) fn add(&self, field: Field, remark: Remark) {
        self.0.borrow_mut().push(Fault { field, is_warning: false, remark });
    }

    /// Records a mistake.
    pub(super) fn error(&self, field: Field, message: impl Into<String>, advice: &str) {
        self.add(field, Remark::new(message, advice));
    }

    /// Records something that is most likely not intended.
    pub(super) fn warning(&self, field: Field, message: impl Into<String>, advice: &str) {
        let remark = Remark::new(message, advice);
        self.0.borrow_mut().push(Fault { field, is_warning: true, remark });
    }

    /// The value. If it is absent, there is an error at `owner`.
    pub(super) fn required<'w, T>(
        &self,
        written: &'w Written<T>,
        owner: Field,
        message: &str,
        advice: &str,
    ) -> Option<&'w T> {
        if written.is_absent() {
            self.error(owner, message, advice);
        }
        written.given()
    }

    /// A number, if it is given and within `range`.
    pub(super) fn number(
        &self,
        written: &Written<u64>,
        field: Field,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let number = written.copied()?;
        if range.contains(&number) {
            return Some(number);
        }
        let message = format!("\"{}\" is out of range", field.name());
        let advice = format!("write a number from {} to {}", range.start(), range.end());
        self.error(field, message, &advice);
        None
    }

    /// A duration, if it is given and within `range`.
    pub(super) fn duration(
        &self,
        written: &Written<Span>,
        field: Field,
        range: RangeInclusive<Span>,
    ) -> Option<Span> {
        let duration = written.copied()?;
        if range.contains(&duration) {
            return Some(duration);
        }
        let message = format!("\"{}\" is out of range", field.name());
        let advice = format!("write a duration from {} to {}", range.start(), range.end());
        self.error(field, message, &advice);
        None
    }

    /// The algorithm, or none with an error.
    pub(super) fn valid(
        &self,
        made: Result<Algorithm, QuotaError>,
        field: Field,
    ) -> Option<Algorithm> {
        made.map_err(|error| self.error(field, error.to_string(), "")).ok()
    }
}
