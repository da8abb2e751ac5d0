//! Key sets for tokens and of agents that are fetched from servers. A task on the control thread keeps
//! each up to date, and all workers see a change at once.
//!
//! A set stays in use until another one is fetched, however long its server is unavailable
//! or sends something else. A configuration that fetches the same document in another way has a set
//! of its own, which begins with these keys: if the configuration does not run after all, nothing has
//! changed.

mod condition;
mod probe;
mod schedule;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tollgate_core::policy::{
    Agent, Agents, KeyError, KeySet, LeftOut, RefreshRequest, TokenKeys, UsableKeys,
};
use tracing::{info, warn};

use crate::config::{Config, KeySource, Signed};
use crate::proxy::{Document, FetchError, fetch};
pub use condition::Condition;
pub use probe::{KeyCount, count_keys};
use schedule::{MIN_EARLY, Outcome, Schedule};

/// The largest set, in bytes. The sets of real servers have about a hundredth of that.
const MAX_BYTES: usize = 256 * 1024;
/// The time limit of one attempt.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a start or a reload waits for the first attempt.
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);

/// A set that is fetched, and its source.
#[derive(Clone)]
pub struct Fetched {
    source: KeySource,
    set: Arc<KeySet>,
    pub condition: Arc<Condition>,
    /// The last valid document, if there was one.
    document: Arc<Mutex<Option<Bytes>>>,
}

/// The first attempt to fetch a set.
pub struct FirstAttempt(Option<oneshot::Receiver<()>>);

impl FirstAttempt {
    /// Returns when it has ended, or has taken [`FIRST_TIMEOUT`].
    pub async fn ended(self) {
        if let Some(ended) = self.0 {
            let _ = timeout(FIRST_TIMEOUT, ended).await;
        }
    }
}

impl Fetched {
    /// A set that is empty.
    fn new(source: KeySource) -> Self {
        let condition = Arc::new(Condition::unknown(&source.shown));
        Self { source, set: Arc::default(), condition, document: Arc::default() }
    }

    /// A set with the keys of this one.
    fn continuing(&self, source: KeySource) -> Self {
        Self {
            source,
            set: Arc::new(KeySet::continuing(&self.set)),
            condition: Arc::new(Condition::continuing(&self.condition)),
            document: Arc::new(Mutex::new(self.document.lock().clone())),
        }
    }

    /// Begins to fetch the set.
    fn start(&self) -> FirstAttempt {
        let (ended, first) = oneshot::channel();
        let refresher = Refresher {
            set: Arc::downgrade(&self.set),
            condition: Arc::clone(&self.condition),
            document: Arc::clone(&self.document),
            source: self.source.clone(),
        };
        let fetch =
            async |source: &KeySource| fetch(&source.document, MAX_BYTES, FETCH_TIMEOUT).await;
        spawn_local(refresher.run(fetch, ended));
        FirstAttempt(Some(first))
    }
}

/// The set of this source. If `before` has the same source, that set is used. If only the way differs
/// in which it is fetched, its keys are used until others are fetched.
fn fetched<'f>(
    source: KeySource,
    before: impl IntoIterator<Item = &'f Fetched>,
) -> (Fetched, FirstAttempt) {
    let known = before.into_iter().find(|it| it.source.has_keys_of(&source));
    match known.filter(|known| known.source == source || known.set.has_come()) {
        Some(same) if same.source == source => (same.clone(), FirstAttempt(None)),
        Some(known) => {
            let fetched = known.continuing(source);
            // Nothing has to wait for it: there are keys.
            fetched.start();
            (fetched, FirstAttempt(None))
        }
        None => {
            let fetched = Fetched::new(source);
            let first = fetched.start();
            (fetched, first)
        }
    }
}

/// Begins to fetch the set of a configuration, if it has one. The set of `before` is used if it is
/// the same.
pub fn begin(config: &mut Config, before: Option<&Fetched>) -> (Option<Fetched>, FirstAttempt) {
    let source = config.key_source.take();
    let keys = config.client.token_keys_mut();
    let (Some(source), Some(TokenKeys::Fetched(set))) = (source, keys) else {
        return (None, FirstAttempt(None));
    };
    let (fetched, first) = fetched(source, before);
    *set = Arc::clone(&fetched.set);
    (Some(fetched), first)
}

/// The sets of agents, which are fetched in the background: a start or a reload does not wait for them.
/// The set of an agent in `before` is used if it is the same.
pub fn begin_agents(config: &mut Config, before: &[Fetched]) -> Vec<Fetched> {
    let sources = std::mem::take(&mut config.agent_sources);
    let Some(agents) = config.client.agents.take() else { return Vec::new() };
    let fetched: Vec<_> = sources.into_iter().map(|source| fetched(source, before).0).collect();
    let with_sets = agents.iter().zip(&fetched).map(|(agent, fetched)| Agent {
        name: Arc::clone(&agent.name),
        keys: Arc::clone(&fetched.set),
    });
    config.client.agents =
        Some(Arc::new(Agents::new(with_sets.collect(), agents.invitation().is_some())));
    fetched
}

/// How the key sets of a configuration are, whose sets that are fetched are `keys` and `agents`.
pub fn conditions(
    config: &Config,
    keys: Option<&Fetched>,
    agents: &[Fetched],
) -> Vec<Arc<Condition>> {
    let of_file = config.key_file.as_ref().map(|it| Condition::of_file(&it.name, it.left_out));
    let of_tokens = keys.map(|keys| Arc::clone(&keys.condition));
    let of_tokens = of_tokens.or_else(|| of_file.map(Arc::new));
    of_tokens.into_iter().chain(agents.iter().map(|it| Arc::clone(&it.condition))).collect()
}

/// Keeps a set up to date as long as a configuration uses it.
struct Refresher {
    set: Weak<KeySet>,
    condition: Arc<Condition>,
    source: KeySource,
    /// The last valid document, if there was one.
    document: Arc<Mutex<Option<Bytes>>>,
}

impl Refresher {
    async fn run(
        self,
        fetch: impl AsyncFn(&KeySource) -> Result<Document, FetchError>,
        first: oneshot::Sender<()>,
    ) {
        let mut schedule = Schedule::new(self.source.refresh);
        let mut rng = Rng::new();
        let mut first = Some(first);
        while let Some(refresh) = self.set.upgrade().map(|set| set.refresh()) {
            let outcome = self.apply(fetch(&self.source).await);
            self.condition.set_fetched(matches!(outcome, Outcome::Good { .. }));
            refresh.clear();
            // The set may have been dropped meanwhile, and its request with it cleared.
            if self.set.strong_count() == 0 {
                return;
            }
            drop(first.take());
            let wait = schedule.after(outcome, rng.f64());
            // A token with an unknown key shortens the wait.
            let _ = timeout(wait, requested(&refresh)).await;
        }
    }

    /// Puts a fetched document into use if it is valid.
    fn apply(&self, fetched: Result<Document, FetchError>) -> Outcome {
        let document = match fetched {
            Ok(document) => document,
            Err(error) => return self.failed(&error.to_string()),
        };
        let fresh_for = document.fresh_for;
        if self.document.lock().as_ref() == Some(&document.bytes) {
            return Outcome::Good { fresh_for };
        }
        let UsableKeys { keys, left_out, passed_over } =
            match UsableKeys::read(&document.bytes, &self.source.algorithms) {
                Ok(usable) => usable,
                Err(error) => return self.failed(&shown(&error)),
            };
        if let Some(set) = self.set.upgrade() {
            let url = &self.source.shown;
            let count = keys.len();
            set.replace(keys);
            self.condition.set_left_out(&left_out);
            info!(url, keys = count, passed_over, "a new key set is in use");
            for LeftOut { name, error } in left_out {
                let message = match self.source.signed {
                    Signed::Tokens => {
                        "a key of the set is left out: no token that it has signed is valid"
                    }
                    Signed::Requests => {
                        "a key of an agent is left out: no request that it has signed has an agent"
                    }
                };
                warn!(url, key = name, %error, "{message}");
            }
        }
        *self.document.lock() = Some(document.bytes);
        Outcome::Good { fresh_for }
    }

    fn failed(&self, error: &str) -> Outcome {
        let url = &self.source.shown;
        let meanwhile = match (self.document.lock().is_none(), self.source.signed) {
            (false, _) => "the previous one stays in use",
            (true, Signed::Tokens) => "until then, no token is valid",
            (true, Signed::Requests) => "until then, no request has this agent",
        };
        warn!(url, error, "the key set cannot be fetched: {meanwhile}");
        Outcome::Failed
    }
}

/// Returns when a token has named an unknown key, but not soon after the last attempt.
async fn requested(refresh: &RefreshRequest) {
    sleep(MIN_EARLY).await;
    refresh.requested().await;
}

/// An error as the log shows it. A JSON error would quote what the server has sent.
fn shown(error: &KeyError) -> String {
    match error {
        KeyError::Jwks(json) => format!(
            "the response is not a JSON Web Key Set: it has a mistake in line {}, column {}",
            json.line(),
            json.column()
        ),
        other => other.to_string(),
    }
}
