//! The limits in a file with API keys, each with its place: their policies are known later.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::api_keys::{KeyLimit, Override};

use crate::config::field::{Entries, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar;

/// A limit, where it is first written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenLimit {
    /// The name of its policy.
    pub policy: Arc<str>,
    /// The limit.
    pub limit: KeyLimit,
    /// The key or team that has the limit, as a message names it: `the key 7f2m9qd0v3xk`.
    pub owner: String,
    /// Where it is.
    pub span: TextSpan,
    /// In how many further places there is such a limit.
    pub further: usize,
}

/// The limits of a file. Of each policy, those in units are one entry: the policy counts all of them
/// or none. An amount of money is an entry of its own.
#[derive(Debug, Default)]
pub struct WrittenLimits {
    all: Vec<WrittenLimit>,
    known: HashMap<(Arc<str>, Option<KeyLimit>), usize>,
}

impl WrittenLimits {
    /// The limits of a key or a team, which it also remembers.
    pub fn read(
        &mut self,
        owner: &dyn Fn() -> String,
        field: &Field<Entries<scalar::KeyLimit>>,
    ) -> Vec<(Arc<str>, KeyLimit)> {
        let mut limits = Vec::new();
        for (policy, limit) in field.entries() {
            let Some(limit) = limit.given() else { continue };
            let policy: Arc<str> = Arc::from(&*policy.value);
            self.add(owner, &policy, limit);
            limits.push((policy, limit.value.0));
        }
        limits
    }

    fn add(
        &mut self,
        owner: &dyn Fn() -> String,
        policy: &Arc<str>,
        written: &Spanned<scalar::KeyLimit>,
    ) {
        let scalar::KeyLimit(limit) = written.value;
        let kind = match limit {
            // Every policy can have it.
            KeyLimit::Units(Override::Unlimited) => return,
            KeyLimit::Units(_) => None,
            KeyLimit::Money { .. } => Some(limit),
        };
        let policy = Arc::clone(policy);
        match self.known.get(&(Arc::clone(&policy), kind)) {
            Some(index) => self.all[*index].further += 1,
            None => {
                self.known.insert((Arc::clone(&policy), kind), self.all.len());
                let span = written.span;
                self.all.push(WrittenLimit { policy, limit, owner: owner(), span, further: 0 });
            }
        }
    }

    /// All limits, in the order of the file.
    pub fn all(self) -> Vec<WrittenLimit> {
        self.all
    }
}
