//! Values of which the last one holds, whichever worker knows it. They are set rarely, so a
//! lock is good enough.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::family::Family;
use super::sample::Samples;

/// The last values.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<BTreeMap<(&'static str, Box<str>), (&'static Family, f64)>>);

impl Latest {
    /// Sets the value of a gauge with one label.
    pub(super) fn set(&self, family: &'static Family, label: &str, value: f64) {
        self.0.lock().insert((family.name, label.into()), (family, value));
    }

    /// Removes the value of a gauge.
    pub(super) fn remove(&self, family: &'static Family, label: &str) {
        self.0.lock().remove(&(family.name, label.into()));
    }

    /// Adds all values to `samples`.
    pub(super) fn collect(&self, samples: &mut Samples) {
        for ((_, label), (family, value)) in &*self.0.lock() {
            samples.set(family, &[label], *value);
        }
    }
}
