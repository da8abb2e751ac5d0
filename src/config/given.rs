//! A configuration that is in no file: its text, and values of variables besides the environment.

use std::collections::BTreeMap;
use std::fmt;

/// Values of variables, which may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Gives a variable this value, instead of that of the environment.
    pub fn insert(&mut self, name: String, value: String) {
        self.0.insert(name, value);
    }

    /// The value of a variable, here or in the environment of the process.
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().or_else(|| std::env::var(name).ok())
    }
}

/// Does not print the values.
impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
