//! Values that are written as one text, in a file or by an application: numbers, durations, limits.
//! Pure.

mod duration;
mod number;
mod rate;

use std::fmt;

pub use duration::{micros, unit_us};
pub use number::leading;
pub use rate::{count, rate};

/// Why a text is not what it should be: what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalarError {
    /// What is wrong.
    pub message: String,
    /// What would be right. It is empty if the message says it. It does not contain the text
    /// itself, which may be secret.
    pub advice: &'static str,
}

impl ScalarError {
    /// An error with this message and advice.
    pub fn new(message: impl Into<String>, advice: &'static str) -> Self {
        Self { message: message.into(), advice }
    }

    /// The error of another module, with the quotes of reports.
    pub fn of(error: impl fmt::Display, advice: &'static str) -> Self {
        Self::new(error.to_string().replace('`', "\""), advice)
    }
}

impl fmt::Display for ScalarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.advice.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}; {}", self.message, self.advice)
    }
}

impl std::error::Error for ScalarError {}
