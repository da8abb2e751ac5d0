//! Values of which the last one holds, whichever worker knows it. They are set rarely, so a
//! lock is good enough.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::family::Family;

/// The name of a gauge and its label.
type Id = (&'static str, Box<str>);

/// The last values.
#[derive(Debug, Default)]
pub struct Latest(Mutex<BTreeMap<Id, (&'static Family, f64)>>);

impl Latest {
    /// Sets the value of a gauge with one label.
    pub fn set(&self, family: &'static Family, label: &str, value: f64) {
        self.0.lock().insert((family.name, label.into()), (family, value));
    }

    /// Removes the value of a gauge.
    pub fn remove(&self, family: &'static Family, label: &str) {
        self.0.lock().remove(&(family.name, label.into()));
    }

    /// All values with their labels.
    pub fn all(&self) -> Vec<(&'static Family, Box<str>, f64)> {
        let values = self.0.lock();
        values
            .iter()
            .map(|((_, label), (family, value))| (*family, label.clone(), *value))
            .collect()
    }
}
