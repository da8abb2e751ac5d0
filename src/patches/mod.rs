//! Changes of policies and access lists at run time. Pure: no I/O, no clock.
//!
//! An [`Entry`] holds the changes of one policy: a patch, which replaces some of its values, and
//! a candidate, which is judged in shadow beside it. An entry is pinned to the digest of the
//! policy's definition in the file, so it ends when the definition changes, and outlives every
//! other reload. [`Resolved`] says what the entries mean for the definitions at a time. Each
//! node resolves by itself: an entry that a node cannot apply is ignored and reported there, and
//! stays for the others. A list has no candidate: its patch is another mode.

mod call;
mod config_identity;
mod definitions;
mod entry;
mod lists;
mod request;
mod resolved;
#[cfg(test)]
mod tests;
mod values;

pub use call::{Done, IfMatch, PatchCall, Rejected, Requested};
pub use config_identity::{ConfigIdentity, FORMAT};
pub use definitions::{Definition, Definitions, ListDefinition, Mistake, Purpose};
pub use entry::{Change, Entry, Shown};
pub use lists::{NewMode, entry_of, list_of, mode_in};
pub use request::{NewCandidate, NewPatch};
pub use resolved::{Changed, Resolved};
pub use values::Values;

/// What follows the name of a policy in that of its candidate. No policy of a file has such a
/// name.
pub const CANDIDATE: &str = "~candidate";
