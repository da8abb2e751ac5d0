//! The policies as the file defines them, and how one of them is compiled with other values.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tollgate_core::policy::{AccessList, Policy};
use tollgate_core::time::Span;

use super::{ConfigIdentity, Values};

/// What is wrong with a value, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// What would be right. It may be empty.
    pub help: String,
}

impl Mistake {
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// What a policy is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It takes the place of the policy, and keeps its counters.
    Patch,
    /// It stands beside the policy in shadow, with counters of its own.
    Candidate,
}

/// Compiles the policy of this name with other values, with all checks of a configuration.
pub type Compile = dyn Fn(&str, &Values, Purpose) -> Result<Policy, Vec<Mistake>> + Send + Sync;

/// One policy as the file defines it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The policy without any change.
    pub policy: Arc<Policy>,
    /// Identifies the definition: 32 hexadecimal digits.
    pub digest: String,
    /// The definition as it is written, without secrets.
    pub written: Value,
}

/// One access list as the file defines it.
#[derive(Clone, Debug)]
pub struct ListDefinition {
    /// The list without any change.
    pub list: Arc<AccessList>,
    /// Identifies the definition: 32 hexadecimal digits.
    pub digest: String,
    /// The definition as it is written, without secrets.
    pub written: Value,
}

/// All policies with an effect, and how they are compiled.
#[derive(Clone)]
pub struct Definitions {
    policies: Vec<Definition>,
    lists: Vec<ListDefinition>,
    /// Identifies the file.
    pub identity: ConfigIdentity,
    compile: Arc<Compile>,
    /// Reads a duration such as `30m`.
    pub duration: fn(&str) -> Result<Span, Mistake>,
}

impl Definitions {
    /// These policies.
    pub fn new(
        policies: Vec<Definition>,
        identity: ConfigIdentity,
        compile: Arc<Compile>,
        duration: fn(&str) -> Result<Span, Mistake>,
    ) -> Self {
        Self { policies, lists: Vec::new(), identity, compile, duration }
    }

    /// The same with these access lists.
    #[must_use]
    pub fn with_lists(self, lists: Vec<ListDefinition>) -> Self {
        Self { lists, ..self }
    }

    /// The definition of the access list of this name.
    pub fn list(&self, name: &str) -> Option<&ListDefinition> {
        self.lists.iter().find(|it| *it.list.name == *name)
    }

    /// All access lists, in the order of the file.
    pub fn lists(&self) -> &[ListDefinition] {
        &self.lists
    }

    /// The definition of the policy of this name.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.policies.iter().find(|it| *it.policy.name == *name)
    }

    /// All of them, in the order of the file.
    pub fn all(&self) -> &[Definition] {
        &self.policies
    }

    /// The policy of this name with other values.
    ///
    /// # Errors
    /// All mistakes.
    pub fn compile(
        &self,
        name: &str,
        values: &Values,
        purpose: Purpose,
    ) -> Result<Policy, Vec<Mistake>> {
        (self.compile)(name, values, purpose)
    }
}

impl Default for Definitions {
    /// No policy can be changed.
    fn default() -> Self {
        let unchangeable = || Mistake::new("this gateway runs without a file", "");
        Self::new(
            Vec::new(),
            ConfigIdentity::default(),
            Arc::new(move |_, _, _| Err(vec![unchangeable()])),
            |_| Err(Mistake::new("this gateway runs without a file", "")),
        )
    }
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definitions").field("policies", &self.policies.len()).finish()
    }
}
