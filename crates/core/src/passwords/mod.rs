//! Users and their passwords: a file in the form of Apache's `htpasswd`, and the credentials of
//! HTTP Basic authentication (RFC 7617).
//!
//! This module is pure: it computes no hash. A [`PasswordTable`] has a [`BcryptHash`] for every
//! name, also for one that it does not contain. So the time of a check does not tell which names
//! exist.

mod hash;
mod login;
mod table;
#[cfg(test)]
mod tests;

pub use hash::{BcryptHash, COSTS, HashFault};
pub use login::{Login, MAX_PASSWORD};
pub use table::{LineFault, PasswordTable};
