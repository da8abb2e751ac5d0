//! Checks of passwords, which take milliseconds each.
//!
//! One thread of the process computes the hashes, with a low priority, and a bounded
//! number of passwords waits for it. So an attack with wrong passwords costs other requests
//! little. Results are kept for a while under a keyed digest of the user, the password and the hash
//! in the file: neither a password nor something that a password can be searched with stays in
//! memory, and a changed line of the file has no old results.

mod checking;
mod kept;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tollgate_core::digest::Principal;
use tollgate_core::passwords::{BcryptHash, Login};
use tollgate_core::time::Timestamp;

use self::checking::Shared;
use self::queue::Check;

pub use self::queue::Busy;

/// How long a password waits for its result.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Checks the passwords of all workers.
#[derive(Debug, Default)]
pub struct Passwords {
    shared: Arc<Shared>,
}

impl Passwords {
    /// Whether the password is right, if the result is kept.
    pub fn known(&self, login: &Login, hash: &BcryptHash, now: Timestamp) -> Option<bool> {
        self.shared.kept.get(&self.shared.tag(login, hash), now)
    }

    /// Whether the password is right. `allowed` is how many passwords of this address may wait or
    /// be checked at a time.
    ///
    /// # Errors
    /// If too many wait, or the check takes too long.
    pub async fn check(
        &self,
        login: Login,
        hash: BcryptHash,
        address: Principal,
        allowed: u64,
        now: Timestamp,
    ) -> Result<bool, Busy> {
        let (answer, answered) = oneshot::channel();
        let check = Check { login, hash, address, asked_at: now, answer };
        self.shared.queue.add(check, allowed)?;
        checking::ensure_thread(&self.shared)?;
        match timeout(LONGEST_WAIT, answered).await {
            Ok(Ok(is_right)) => Ok(is_right),
            Ok(Err(_)) | Err(_) => Err(Busy),
        }
    }

    /// How many passwords wait for their check.
    pub fn waiting(&self) -> usize {
        self.shared.queue.len()
    }

    /// How many passwords were found wrong and right by computing the hash.
    pub fn checks(&self) -> [u64; 2] {
        self.shared.checks.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// The thread ends with the last worker.
impl Drop for Passwords {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}
