//! Policies that cannot count limits of single keys.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::api_keys::KeyId;

/// The most misfits that are remembered. Further ones are not logged; metrics count them.
const MAX_MISFITS: usize = 64;

/// Policies that cannot count the limits of keys, so that the log has each once, for any number of
/// requests.
#[derive(Debug, Default)]
pub(crate) struct Misfits(Mutex<HashSet<(Arc<str>, Option<KeyId>)>>);

impl Misfits {
    /// Whether this policy, with this key if one is given, is not in the log yet.
    pub(crate) fn is_new(&self, policy: &Arc<str>, key: Option<KeyId>) -> bool {
        let mut told = self.0.lock();
        told.len() < MAX_MISFITS && told.insert((Arc::clone(policy), key))
    }
}
