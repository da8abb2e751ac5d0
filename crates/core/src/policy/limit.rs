//! A limit with its soft limit.

use crate::algorithm::Algorithm;

/// The limit of a policy that holds for one client.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'p> {
    /// The limit that responses name.
    pub algorithm: &'p Algorithm,
    /// The same counters with the soft limit, if there is one.
    pub soft: Option<&'p Algorithm>,
}

impl<'p> Limit<'p> {
    /// The limit that decides: the soft limit, if there is one.
    pub fn widest(&self) -> &'p Algorithm {
        self.soft.unwrap_or(self.algorithm)
    }
}
