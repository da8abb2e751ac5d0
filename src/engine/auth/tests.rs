//! Keys that are not in the configuration: what a directory is asked, and when, and the decision after
//! it.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::FutureExt as _;
use http::Request;
use tollgate_core::algorithm::{Quota, Retry, SlidingLog, SlidingWindow};
use tollgate_core::api_keys::{KeyEntry, KeyForm, KeyRecord, NewKey, Sought};
use tollgate_core::decision::{Headroom, Outcome};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::{
    ApiKeySettings, ClientSettings, Clients, KeyExpr, KeySettings, Policy,
};
use tollgate_core::request::RequestView;
use tollgate_core::routes::{Route, Rules};
use tollgate_core::store::{MemoryStore, Store};
use tollgate_core::time::Clock;

use super::*;
use crate::engine::{Engine, Placed, Seen};
use crate::telemetry::{
    Forwarders, Metrics, RefusalRings, TopHistory, UnsettledWarnings, WorkerForwarders,
    WorkerRefusals, WorkerTop,
};

/// A store that knows one key.
#[derive(Debug)]
struct OneKey {
    entry: Arc<KeyEntry>,
    /// Whether it is read, or its answers are known.
    is_read: bool,
    asked: Rc<Cell<usize>>,
    /// Advances by this when it is read.
    clock: Clock,
    takes: Rc<Cell<Span>>,
}

impl KeyDirectory for OneKey {
    fn find(&self, sought: Sought, _: Timestamp) -> KeyLookup<'_> {
        self.asked.set(self.asked.get() + 1);
        let is_it = sought == Sought::Id(self.entry.key.id);
        let found = if is_it { Found::Known(Arc::clone(&self.entry)) } else { Found::Unknown };
        match self.is_read {
            true => KeyLookup::Later(Box::pin(async move {
                tokio::task::yield_now().await;
                self.clock.advance(self.takes.get());
                found
            })),
            false => KeyLookup::Now(found),
        }
    }

    fn knows(&self, sought: Sought, _: Timestamp) -> bool {
        !self.is_read && sought == Sought::Id(self.entry.key.id)
    }
}

/// Clients who may send two wrong keys in an hour.
fn clients() -> Clients {
    Clients::new(settings(), [], Arc::new(SharedSecret::new(Secret::from_bytes([3; 16]))))
}

fn settings() -> ClientSettings {
    let quota = Quota::new(2, Span::from_secs(3600)).expect("it is one");
    let keys = KeySettings {
        form: KeyForm::default(),
        file: None,
        table: Arc::default(),
        foreign: false,
        forward: false,
        identity_headers: Vec::new(),
        is_shadow: false,
        in_store: true,
    };
    let headers = vec!["x-api-key".parse().expect("a name")];
    ClientSettings {
        api_key: ApiKeySettings { headers, ..ApiKeySettings::default() },
        keys: Some(Box::new(keys)),
        failures: Some(Box::new(Algorithm::SlidingWindow(SlidingWindow::new(quota)))),
        ..ClientSettings::default()
    }
}

/// What a request with this key gets on a route that demands one.
fn outcome(auth: &Authentication, clients: &Clients, key: &str) -> Result<(), AuthFault> {
    let request = Request::get("/").header("host", "a.test").header("x-api-key", key);
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let view = RequestView::of(&head, [192, 0, 2, 1].into()).expect("it is clear");
    let now = Timestamp::from_micros(1_795_246_126_000_000);
    let subject = clients.subject(&view, None, now);
    let mut looked_up = Box::pin(auth.look_up_key(&subject, now));
    // A store that is read answers at the second poll.
    let ready = (0..2).any(|_| looked_up.as_mut().now_or_never().is_some());
    assert!(ready, "the lookup ends");
    drop(looked_up);
    let counts = Counts { accepted: true, wrong: true, password: true };
    let (_, refusal) = auth.prove(&[AuthMethod::ApiKey], &subject, now, counts);
    refusal.map_or(Ok(()), |refusal| Err(refusal.fault))
}

impl OneKey {
    fn new(key: &NewKey, is_read: bool, clock: Clock) -> Self {
        let entry = Arc::new(KeyEntry { key: KeyRecord::new(key.id, key.digest), team: None });
        Self { entry, is_read, asked: Rc::default(), clock, takes: Rc::default() }
    }
}

fn store(key: &NewKey, is_read: bool) -> (Authentication, Rc<Cell<usize>>) {
    let directory = OneKey::new(key, is_read, Clock::System);
    let asked = Rc::clone(&directory.asked);
    let metrics = AuthMetrics::new(&Rc::new(Metrics::new(1000).worker()));
    (Authentication::new(SharedAuth::default(), Some(Box::new(directory)), metrics), asked)
}

#[test]
fn a_stored_key_passes_and_a_text_that_is_not_a_key_is_not_looked_up() {
    let key = NewKey::generate(&KeyForm::default());
    let (auth, asked) = store(&key, true);
    let clients = clients();
    assert!(!auth.knows_at_once(&clients));
    assert_eq!(outcome(&auth, &clients, &key.text), Ok(()));
    assert_eq!(asked.get(), 1);
    let unknown = AuthFault::Key(tollgate_core::api_keys::KeyRefusal::Unknown);
    let mistyped = format!("{}x", &key.text[..key.text.len() - 1]);
    assert_eq!(outcome(&auth, &clients, &mistyped), Err(unknown));
    assert_eq!(outcome(&auth, &clients, "x"), Err(unknown));
    assert_eq!(asked.get(), 1, "a wrong checksum costs no lookup");
}

/// An address with too many failures causes no more lookups. A key that the worker knows passes.
#[test]
fn after_too_many_failures_only_known_keys_pass() {
    let key = NewKey::generate(&KeyForm::default());
    let invented = || NewKey::generate(&KeyForm::default()).text;
    let clients = clients();
    for is_read in [true, false] {
        let (auth, asked) = store(&key, is_read);
        for _ in 0..2 {
            let refused = outcome(&auth, &clients, &invented());
            assert!(matches!(refused, Err(AuthFault::Key(_))), "{refused:?}");
        }
        assert_eq!(asked.get(), 2);
        let refused = outcome(&auth, &clients, &invented());
        assert!(matches!(refused, Err(AuthFault::TooManyFailures(_))), "{refused:?}");
        assert_eq!(asked.get(), 2, "it is not looked up");
        let known = outcome(&auth, &clients, &key.text);
        assert_eq!(known.is_ok(), !is_read, "{known:?}");
    }
}

fn engine(directory: OneKey, clock: Clock) -> Engine {
    let metrics = Rc::new(Metrics::new(1000).worker());
    let directory: Option<Box<dyn KeyDirectory>> = Some(Box::new(directory));
    let auth = Authentication::new(SharedAuth::default(), directory, AuthMetrics::new(&metrics));
    let seen = Seen {
        top: WorkerTop::new(&Arc::new(TopHistory::default())),
        refusals: WorkerRefusals::new(&Arc::new(RefusalRings::default())),
        forwarders: WorkerForwarders::new(&Forwarders::default(), &metrics),
        unsettled: UnsettledWarnings::default(),
        budgets: Arc::default(),
    };
    let limiter = RateLimiter::new(Store::Memory(Arc::new(MemoryStore::new(100))));
    Engine::new(limiter, auth, clock, &metrics, seen)
}

/// Regression: a request counted when it had arrived. So requests whose lookups took long left their
/// window before they were decided, and a full limit passed beside them.
#[tokio::test]
async fn a_request_counts_when_its_key_is_known() {
    let key = NewKey::generate(&KeyForm::default());
    let clock = Clock::manual(Timestamp::from_micros(1_795_246_126_000_000));
    let directory = OneKey::new(&key, true, clock.clone());
    let takes = Rc::clone(&directory.takes);
    let engine = engine(directory, clock.clone());
    let window = Span::from_secs(10);
    let quota = Quota::new(1, window).expect("it is one");
    let log = Algorithm::SlidingLog(SlidingLog::new(quota).expect("it is short"));
    let policies = vec![Arc::new(Policy::new("p", KeyExpr::Global, log))];
    let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
    let rules = Rules::new(vec![Route::for_all(policies)], settings(), secret);
    let request = Request::get("/").header("host", "a.test").header("x-api-key", &*key.text);
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let view = RequestView::of(&head, [192, 0, 2, 1].into()).expect("it is clear");
    for (lookup, retry) in [(window, None), (Span::ZERO, Some(Retry::After(window)))] {
        takes.set(lookup);
        let moment = clock.moment();
        let placed = Placed::find(&rules, &view, moment.wall).expect("the route");
        let headroom = |_| Headroom::default();
        let judgement = engine.judge(&rules, &placed, moment, headroom, |_| true).await;
        let refused = match judgement.decision.outcome {
            Outcome::Refuse(retry) => Some(retry),
            _ => None,
        };
        assert_eq!(refused, retry);
        assert_eq!(judgement.now, clock.now());
    }
}
