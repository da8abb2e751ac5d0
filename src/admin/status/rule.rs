//! A rule: when something is wrong, and what is said about it.

use tollgate_core::time::Span;

use super::present::Present;

/// When a value is a reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    Above(f64),
    Below(f64),
    Equals(f64),
}

impl Bound {
    /// Whether a value is a reason.
    #[expect(clippy::float_cmp, reason = "whole numbers are compared")]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::Above(bound) => value > bound,
            Self::Below(bound) => value < bound,
            Self::Equals(bound) => value == bound,
        }
    }
}

/// A rule.
pub struct Rule {
    /// Its word in answers.
    pub code: &'static str,
    /// The alert that has the same rule, if there is one.
    pub alert: Option<&'static str>,
    /// Over which time growth is measured. None: the value is that of now.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with that of the alert"))]
    pub over: Option<Span>,
    /// When a value is a reason.
    pub bound: Bound,
    /// The values: what each is about, and the number.
    pub values: fn(&Present<'_>) -> Vec<(String, f64)>,
    /// What is wrong, by what it is about and the number.
    pub text: fn(&Present<'_>, &str, f64) -> String,
    /// What to do.
    pub advice: &'static str,
}
