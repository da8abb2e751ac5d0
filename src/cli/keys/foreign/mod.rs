//! Keys of other programs. A plain text is hashed, and a SHA-256 is taken as it is. All that cannot
//! be carried over is in a report, by field and reason. Neither a report nor an error has a value of
//! a field.

mod kong;
mod litellm;
mod report;
mod rows;
mod unkey;
mod values;

pub use self::litellm::PolicyNames;
pub use self::report::Foreign;

/// A program whose keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Kong, by its declarative configuration.
    Kong,
    /// Unkey, by rows of its keys.
    Unkey,
    /// LiteLLM, by rows of its table of tokens.
    LiteLlm,
}

/// The keys in a text that a program has written.
///
/// # Errors
/// If it cannot be read.
pub fn read(program: Program, text: &str, policies: &PolicyNames) -> Result<Foreign, String> {
    match program {
        Program::Kong => kong::read(text),
        Program::Unkey => rows::read(text).map(unkey::keys),
        Program::LiteLlm => rows::read(text).map(|rows| litellm::keys(rows, policies)),
    }
}
