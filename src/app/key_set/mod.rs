//! The set of keys that tokens are verified with, where it is fetched: a task on
//! the control thread keeps it up to date, and all workers see it change at once.
//!
//! A set that is in force stays so until another one comes, however long its server
//! is away or sends something else.

mod schedule;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::config::{Config, KeySource};
use crate::policy::{KeyError, KeySet, RefreshRequest, TokenKeys, VerifyingKey};
use crate::proxy::{Document, FetchError, fetch};
use schedule::{MIN_EARLY, Outcome, Schedule};

/// The largest set, in bytes. Those of real servers have a hundredth of it.
const MAX_BYTES: usize = 256 * 1024;
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a start, or a reload, waits for the first attempt.
const FIRST_PATIENCE: Duration = Duration::from_secs(3);

/// A set that is fetched, and from where.
#[derive(Clone)]
pub(super) struct Fetched {
    source: KeySource,
    set: Arc<KeySet>,
}

/// The first attempt to fetch a set.
pub(super) struct FirstAttempt(Option<oneshot::Receiver<()>>);

impl FirstAttempt {
    /// Returns when it has ended, or has taken [`FIRST_PATIENCE`].
    pub(super) async fn ended(self) {
        if let Some(ended) = self.0 {
            let _ = timeout(FIRST_PATIENCE, ended).await;
        }
    }
}

/// Begins to fetch the set of a configuration, if it has one. If that comes from
/// where the one of `before` comes from, it is the same one.
pub(super) fn begin(
    config: &mut Config,
    before: Option<&Fetched>,
) -> (Option<Fetched>, FirstAttempt) {
    let source = config.key_source.take();
    let keys = config.client.token_keys_mut();
    let (Some(source), Some(TokenKeys::Fetched(set))) = (source, keys) else {
        return (None, FirstAttempt(None));
    };
    if let Some(same) = before.filter(|before| before.source == source) {
        *set = Arc::clone(&same.set);
        return (Some(same.clone()), FirstAttempt(None));
    }
    let (ended, first) = oneshot::channel();
    let fetched = Fetched { source: source.clone(), set: Arc::clone(set) };
    let keeper = Keeper { set: Arc::downgrade(set), in_force: Bytes::new(), source };
    let ask = async |source: &KeySource| fetch(&source.document, MAX_BYTES, PATIENCE).await;
    spawn_local(keeper.keep(ask, ended));
    (Some(fetched), FirstAttempt(Some(first)))
}

/// Keeps a set up to date while a configuration uses it.
struct Keeper {
    set: Weak<KeySet>,
    source: KeySource,
    /// What was fetched last that was good.
    in_force: Bytes,
}

impl Keeper {
    async fn keep(
        mut self,
        ask: impl AsyncFn(&KeySource) -> Result<Document, FetchError>,
        first: oneshot::Sender<()>,
    ) {
        let (mut schedule, mut rng) = (Schedule::new(self.source.refresh), Rng::new());
        let mut first = Some(first);
        while let Some(refresh) = self.set.upgrade().map(|set| set.refresh()) {
            let outcome = self.learn(ask(&self.source).await);
            refresh.clear();
            drop(first.take());
            let wait = schedule.after(outcome, rng.f64());
            // Until then, unless a key is missed.
            let _ = timeout(wait, requested(&refresh)).await;
        }
    }

    /// Puts into force what was fetched, if it is good.
    fn learn(&mut self, fetched: Result<Document, FetchError>) -> Outcome {
        let document = match fetched {
            Ok(document) => document,
            Err(error) => return self.failed(&error.to_string()),
        };
        let fresh_for = document.fresh_for;
        if document.bytes == self.in_force {
            return Outcome::Good { fresh_for };
        }
        let read = VerifyingKey::from_published(&document.bytes, &self.source.algorithms);
        let published = match read {
            Ok(published) => published,
            Err(error) => return self.failed(&shown(&error)),
        };
        let (keys, passed_over) = (published.keys.len(), published.passed_over);
        if let Some(set) = self.set.upgrade() {
            set.replace(published.keys);
            info!(url = self.source.shown, keys, passed_over, "a new key set is in force");
        }
        self.in_force = document.bytes;
        Outcome::Good { fresh_for }
    }

    fn failed(&self, error: &str) -> Outcome {
        let url = &self.source.shown;
        if self.in_force.is_empty() {
            warn!(url, error, "the key set cannot be had: until it comes, no token is verified");
        } else {
            warn!(url, error, "the key set cannot be had: the one of before stays in force");
        }
        Outcome::Failed
    }
}

/// Returns when a key has been missed, but not soon after the last attempt.
async fn requested(refresh: &RefreshRequest) {
    sleep(MIN_EARLY).await;
    refresh.requested().await;
}

/// An error as the log shows it: a parser would quote what a server has sent.
fn shown(error: &KeyError) -> String {
    match error {
        KeyError::Jwks(json) => format!(
            "the answer is no JSON Web Key Set: there is a mistake in its line {}, column {}",
            json.line(),
            json.column()
        ),
        other => other.to_string(),
    }
}
