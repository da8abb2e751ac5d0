//! How the key set in use is, as metrics and the status tell it.

use parking_lot::Mutex;
use tollgate_core::policy::LeftOut;

/// How a key set is. A task that fetches the set changes it.
#[derive(Debug)]
pub struct Condition {
    /// Its URL in a form that may be shown, or its file.
    pub name: String,
    /// Whether the last attempt to fetch it was successful. None: no attempt has ended.
    is_fetched: Mutex<Option<bool>>,
    /// How many of its keys cannot be used.
    left_out: Mutex<usize>,
}

impl Condition {
    /// Of a set that is not fetched yet.
    pub fn unknown(name: &str) -> Self {
        Self { name: name.to_owned(), is_fetched: Mutex::default(), left_out: Mutex::default() }
    }

    /// Of a set that continues another one with the same name.
    pub fn continuing(before: &Self) -> Self {
        Self {
            name: before.name.clone(),
            is_fetched: Mutex::new(before.is_fetched()),
            left_out: Mutex::new(before.left_out()),
        }
    }

    /// Of a set in a file.
    pub fn of_file(name: &str, left_out: usize) -> Self {
        Self { left_out: Mutex::new(left_out), ..Self::unknown(name) }
    }

    /// An attempt to fetch the set has ended.
    pub fn set_fetched(&self, is_successful: bool) {
        *self.is_fetched.lock() = Some(is_successful);
    }

    /// Another set is in use, without these keys.
    pub fn set_left_out(&self, left_out: &[LeftOut]) {
        *self.left_out.lock() = left_out.len();
    }

    /// Whether the last attempt to fetch it was successful. None: no attempt has ended, or the set
    /// is in a file.
    pub fn is_fetched(&self) -> Option<bool> {
        *self.is_fetched.lock()
    }

    /// How many of its keys cannot be used.
    pub fn left_out(&self) -> usize {
        *self.left_out.lock()
    }
}
