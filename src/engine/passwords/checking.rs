//! The thread that checks passwords, and what it shares with the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use aws_lc_rs::hmac;
use tollgate_core::passwords::{BcryptHash, Login};
use tracing::error;

use super::kept::{KeptResults, Tag};
use super::queue::{Busy, Check, Queue};
use crate::platform::lower_priority;

/// What the workers and the thread share.
#[derive(Debug)]
pub struct Shared {
    pub queue: Queue,
    pub kept: KeptResults,
    /// Chosen at the start of the process.
    key: hmac::Key,
    /// The checks with the results wrong and right.
    pub checks: [AtomicU64; 2],
}

impl Default for Shared {
    fn default() -> Self {
        let mut secret = [0; 32];
        aws_lc_rs::rand::fill(&mut secret).expect("the system has random numbers");
        Self {
            queue: Queue::default(),
            kept: KeptResults::default(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            checks: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }
}

impl Shared {
    /// What a result is kept under.
    pub fn tag(&self, login: &Login, hash: &BcryptHash) -> Tag {
        let mut digest = hmac::Context::with_key(&self.key);
        // The hash has always the same length, and no name has a colon.
        for part in [hash.as_str(), &login.user, ":", &login.password] {
            digest.update(part.as_bytes());
        }
        digest.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Whether the password is right. The hash is computed if the result is not known by now.
    fn result(&self, check: &Check) -> bool {
        let Check { login, hash, asked_at, .. } = check;
        let tag = self.tag(login, hash);
        if let Some(known) = self.kept.get(&tag, *asked_at) {
            return known;
        }
        // It fails only if the hash has another form than the table lets in.
        let is_right = bcrypt::verify(login.password.as_bytes(), hash.as_str()).unwrap_or(false);
        self.checks[usize::from(is_right)].fetch_add(1, Ordering::Relaxed);
        self.kept.keep(tag, is_right, *asked_at);
        is_right
    }
}

/// Starts the thread, if there is none.
pub fn ensure_thread(shared: &Arc<Shared>) -> Result<(), Busy> {
    if shared.queue.replace_has_thread(true) {
        return Ok(());
    }
    let own = Arc::clone(shared);
    let started = thread::Builder::new().name("passwords".to_owned()).spawn(move || run(&own));
    started.map(drop).map_err(|error| {
        shared.queue.replace_has_thread(false);
        error!(%error, "no thread can check passwords");
        Busy
    })
}

/// Another thread is started after one that has panicked.
struct Running<'s>(&'s Queue);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.end_check();
        self.0.replace_has_thread(false);
    }
}

fn run(shared: &Shared) {
    let _running = Running(&shared.queue);
    lower_priority();
    while let Some(check) = shared.queue.next() {
        let is_right = shared.result(&check);
        // Before the client can ask again.
        shared.queue.end_check();
        // The client may have left.
        let _ = check.answer.send(is_right);
    }
}
