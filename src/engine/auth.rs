//! Credentials: between the route of a request and the decision of its policies.
//!
//! A wrong credential counts against the address that it comes from. An address with too many of
//! them learns no more whether a credential is right, unless that is known without a question. So
//! known clients behind the same address go on. The failures are in the memory of this node.

mod password;

use std::sync::Arc;

use http::StatusCode;
use tollgate_core::algorithm::{Algorithm, Retry};
use tollgate_core::api_keys::{Found, KeyDirectory, KeyLookup};
use tollgate_core::consistency::Consistency;
use tollgate_core::decision::{Decision, Headroom, Outcome, RateLimiter};
use tollgate_core::digest::{Counter, Key};
use tollgate_core::policy::{
    AuthFault, AuthMethod, AuthRefusal, Clients, Count, KnownKey, Policy, Subject,
};
use tollgate_core::routes::Route;
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::{Span, Timestamp};

use super::passwords::Passwords;
use crate::telemetry::AuthMetrics;

/// The most addresses whose failures are counted. If there are more, those with the fewest failures
/// are forgotten.
const MAX_ADDRESSES: usize = 65_536;
/// What a request that would be refused has in the log in shadow mode.
const SHADOW: &str = "shadow_unauthorized";

/// The wrong credentials of each address.
#[derive(Debug)]
pub struct Failures(MemoryStore);

/// What a request has proved.
#[derive(Clone, Debug, Default)]
pub struct Credential<'r> {
    /// The API key whose secret the request has.
    pub key: Option<KnownKey<'r>>,
    /// Whether this key is accepted.
    pub is_accepted: bool,
    /// The method by which the request has passed, or one word for why it would not pass in
    /// enforcing mode. None: its route demands nothing.
    pub word: Option<&'static str>,
}

impl<'r> Credential<'r> {
    /// The same, which does not borrow the configuration.
    pub fn into_owned(self) -> Credential<'static> {
        let Self { key, is_accepted, word } = self;
        Credential { key: key.map(KnownKey::into_owned), is_accepted, word }
    }

    /// The API key of the request, if it is accepted.
    pub fn accepted(&self) -> Option<&KnownKey<'r>> {
        self.key.as_ref().filter(|_| self.is_accepted)
    }
}

impl Default for Failures {
    fn default() -> Self {
        Self(MemoryStore::new(MAX_ADDRESSES))
    }
}

impl Failures {
    /// Counts one failure of the client's address. The time until another one may follow, if there
    /// were too many.
    fn count(&self, subject: &Subject<'_, '_>, limit: &Algorithm, now: Timestamp) -> Option<Span> {
        let verdict = self.0.apply(&[failure(subject, limit)], now).pop()?;
        wait(verdict.admitted, verdict.retry)
    }

    /// Whether the client's address has had too many failures.
    fn are_used_up(&self, subject: &Subject<'_, '_>, limit: &Algorithm, now: Timestamp) -> bool {
        self.left(subject, limit, now) == 0
    }

    /// How many failures the client's address may have now.
    fn left(&self, subject: &Subject<'_, '_>, limit: &Algorithm, now: Timestamp) -> u64 {
        let verdict = self.0.look(&failure(subject, limit), now);
        if verdict.admitted { verdict.remaining.max(1) } else { 0 }
    }
}

fn failure<'a>(subject: &Subject<'_, '_>, algorithm: &'a Algorithm) -> Charge<'a> {
    let counter = Counter::of(|digest| digest.value(b"failures"));
    let key = Key { principal: subject.address(), counter };
    Charge { key, algorithm, cost: 1, binding: true, consistency: Consistency::default() }
}

fn wait(admitted: bool, retry: Retry) -> Option<Span> {
    match retry {
        _ if admitted => None,
        Retry::After(wait) => Some(wait),
        Retry::Now | Retry::Never => Some(Span::SECOND),
    }
}

/// What an engine checks credentials with.
#[derive(Debug)]
pub struct Authentication {
    failures: Arc<Failures>,
    /// Where keys are looked up that the configuration does not contain.
    directory: Option<Box<dyn KeyDirectory>>,
    passwords: Arc<Passwords>,
    metrics: AuthMetrics,
}

/// What all workers check credentials with.
#[derive(Clone, Debug, Default)]
pub struct SharedAuth {
    /// The wrong credentials of each address.
    pub failures: Arc<Failures>,
    /// What checks passwords.
    pub passwords: Arc<Passwords>,
}

/// Which policies of a route were asked, before its authorizer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedPolicies {
    All,
    /// The body was not read: those that do not need it.
    WithoutBody,
    /// The request has no right credential: those that count such responses, and do not need the
    /// body.
    Unproved,
}

/// What a check of a credential counts.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Requests that pass.
    accepted: bool,
    /// Wrong credentials.
    wrong: bool,
    /// A wrong password, if wrong credentials count.
    password: bool,
}

/// How far the credentials of a request were checked before.
#[derive(Clone, Copy, Debug)]
pub struct EarlierCheck {
    /// Whether they are checked once more when the body was read. The request counts then.
    pub again: bool,
    /// Whether a wrong password was counted.
    pub has_failed: bool,
}

impl Authentication {
    /// Counts failures and checks passwords beside other workers, and looks up keys in this
    /// directory.
    pub fn new(
        shared: SharedAuth,
        directory: Option<Box<dyn KeyDirectory>>,
        metrics: AuthMetrics,
    ) -> Self {
        let SharedAuth { failures, passwords } = shared;
        Self { failures, directory, passwords, metrics }
    }

    /// Regular housekeeping.
    pub fn housekeep(&self, now: Timestamp) {
        self.failures.0.housekeep(now);
        if let Some(directory) = &self.directory {
            self.metrics.set_lookups(directory.lookups());
        }
    }

    /// Whether all credentials are known without a question. `clients` are the settings.
    pub fn knows_at_once(&self, clients: &Clients) -> bool {
        self.directory.is_none() && clients.settings().passwords().is_none()
    }

    /// Looks up the key of a request, if the configuration does not contain it. A key for which the
    /// directory would have to ask is not looked up for an address with too many failures.
    pub async fn look_up_key(&self, subject: &Subject<'_, '_>, now: Timestamp) {
        let Some(directory) = &self.directory else { return };
        let Some(sought) = subject.sought_elsewhere() else { return };
        let limit = subject.failures();
        if !directory.knows(sought, now)
            && limit.is_some_and(|limit| self.failures.are_used_up(subject, limit, now))
        {
            return subject.answer_key(Found::Unknown);
        }
        let found = match directory.find(sought, now) {
            KeyLookup::Now(found) => found,
            KeyLookup::Later(found) => found.await,
        };
        subject.answer_key(found);
    }

    /// Has the directory note the use of a key that it has found.
    fn note_use(&self, subject: &Subject<'_, '_>, now: Timestamp) {
        let (Some(directory), Some(KnownKey::Found(entry))) =
            (&self.directory, subject.known_key())
        else {
            return;
        };
        if let Some(sought) = subject.sought_elsewhere() {
            directory.used(sought, entry.key.id, now);
        }
    }

    /// What the request has proved. The refusal is none if the request passes.
    pub fn check<'r>(
        &self,
        route: &Route,
        subject: &Subject<'r, '_>,
        now: Timestamp,
        EarlierCheck { again, has_failed }: EarlierCheck,
    ) -> (Credential<'r>, Option<AuthRefusal>) {
        let counts = Counts { accepted: !again, wrong: true, password: !has_failed };
        let (word, refusal) = self.prove(&route.auth, subject, now, counts);
        if refusal.is_none() && !again {
            self.note_use(subject, now);
        }
        let key = subject.right_key().cloned();
        let is_accepted = key.is_some() && subject.known_key().is_some();
        (Credential { key, is_accepted, word }, refusal)
    }

    /// Whether the API key of a client is accepted. A wrong one counts if `counts`.
    ///
    /// # Errors
    /// If it is not.
    pub async fn check_key(
        &self,
        subject: &Subject<'_, '_>,
        now: Timestamp,
        counts: bool,
    ) -> Result<(), AuthFault> {
        self.look_up_key(subject, now).await;
        let counts = Counts { accepted: true, wrong: counts, password: counts };
        match self.prove(&[AuthMethod::ApiKey], subject, now, counts).1 {
            Some(refusal) => Err(refusal.fault),
            None => {
                self.note_use(subject, now);
                Ok(())
            }
        }
    }

    /// What the request has proved by one of these methods, and what it is refused with.
    fn prove(
        &self,
        methods: &[AuthMethod],
        subject: &Subject<'_, '_>,
        now: Timestamp,
        counts: Counts,
    ) -> (Option<&'static str>, Option<AuthRefusal>) {
        if methods.is_empty() {
            return (None, None);
        }
        let fault = match subject.authenticate(methods) {
            Ok(method) => {
                if counts.accepted {
                    self.metrics.count(Some(method), "passed");
                }
                return (Some(method.word()), None);
            }
            Err(fault) => fault,
        };
        if subject.is_shadow() {
            if counts.accepted {
                self.metrics.count(fault.method(), SHADOW);
            }
            return (Some(SHADOW), None);
        }
        // A fault that is told first hides no wrong password.
        let is_wrong = match subject.has_wrong_password() {
            true if methods.contains(&AuthMethod::User) => {
                counts.password || fault.is_wrong() && fault.method() != Some(AuthMethod::User)
            }
            _ => fault.is_wrong(),
        };
        let too_many = match subject.failures() {
            Some(limit) if counts.wrong && is_wrong => self.failures.count(subject, limit, now),
            _ => None,
        };
        let told = too_many.map_or(fault, AuthFault::TooManyFailures);
        self.metrics.count(fault.method(), told.word());
        let challenges = subject.challenges(methods);
        (None, Some(AuthRefusal { fault: told, challenges }))
    }
}

/// The decision on a request that is refused before its policies are asked. Policies that count
/// such responses for clients that need not prove anything are asked, and can refuse it first.
pub async fn refuse<'r>(
    limiter: &RateLimiter,
    policies: impl Iterator<Item = &'r Arc<Policy>>,
    subject: &Subject<'_, '_>,
    refusal: AuthRefusal,
    now: Timestamp,
) -> Decision<&'r Arc<Policy>> {
    let outcome = Outcome::Unauthenticated(refusal);
    if !refusal.is_unauthorized() {
        return Decision::uncounted(outcome);
    }
    let counting = policies.filter(|policy| AskedPolicies::Unproved.contain(policy));
    let mut decision = limiter.decide(counting, subject, Headroom::default(), now).await;
    if let Outcome::Admit = decision.outcome {
        decision.outcome = outcome;
        decision.delay = Span::ZERO;
    }
    decision
}

impl AskedPolicies {
    /// Those for a request that is refused so, or whose body is not read yet.
    pub const fn of(refusal: Option<AuthRefusal>, awaits_body: bool) -> Self {
        match refusal {
            Some(_) => Self::Unproved,
            None if awaits_body => Self::WithoutBody,
            None => Self::All,
        }
    }

    /// Whether a policy of the route is among them.
    pub fn contain(self, policy: &Policy) -> bool {
        match self {
            Self::All => true,
            Self::WithoutBody => !policy.needs_body(),
            Self::Unproved => counts_unauthorized(policy) && !policy.needs_body(),
        }
    }
}

/// Whether a policy counts the responses to clients without a right credential.
fn counts_unauthorized(policy: &Policy) -> bool {
    let counts = match &policy.count {
        Count::All => false,
        Count::Statuses { statuses, .. } => statuses.contains(&StatusCode::UNAUTHORIZED),
    };
    counts && !policy.key.is_identity()
}

#[cfg(test)]
mod tests;
