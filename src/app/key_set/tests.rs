//! The refresher in virtual time: when it fetches, and which set is in use.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use http::HeaderValue;
use http::uri::PathAndQuery;
use jsonwebtoken::Algorithm;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::*;
use crate::proxy::{DocumentSource, Target};

const SET: &str = include_str!("../../../crates/core/src/policy/jwt/test_keys/set.json");

fn source(refresh: Duration) -> KeySource {
    KeySource {
        document: DocumentSource {
            target: Target::Http("127.0.0.1:1".parse().unwrap()),
            tls: None,
            path: PathAndQuery::from_static("/keys"),
            accept: HeaderValue::from_static("*/*"),
        },
        algorithms: vec![Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA],
        refresh,
        shown: "http://127.0.0.1:1/keys".into(),
        signed: crate::config::Signed::Tokens,
    }
}

#[expect(clippy::disallowed_methods, reason = "this time is virtual")]
fn now() -> Instant {
    Instant::now()
}

/// An issuer without a network.
#[derive(Clone, Default)]
struct Issuer {
    answer: Rc<RefCell<Option<String>>>,
    /// The times of the requests, since the start.
    asked: Rc<RefCell<Vec<Duration>>>,
    /// How long a response takes.
    delay: Rc<Cell<Duration>>,
}

impl Issuer {
    /// Runs `test` with a set that is fetched from it, for [`LONGEST`] at most.
    async fn with(self, refresh: Duration, test: impl AsyncFnOnce(Issuer, Arc<KeySet>)) {
        let local = LocalSet::new();
        let all = local.run_until(async {
            let set = Arc::new(KeySet::new());
            let refresher = Refresher {
                set: Arc::downgrade(&set),
                condition: Arc::new(Condition::unknown("")),
                document: Arc::default(),
                source: source(refresh),
            };
            let (ended, first) = oneshot::channel();
            let issuer = self.clone();
            let start = now();
            let fetch = async move |_: &KeySource| {
                issuer.asked.borrow_mut().push(start.elapsed());
                sleep(issuer.delay.get()).await;
                let answer = issuer.answer.borrow().clone();
                let bytes = Bytes::from(answer.ok_or(FetchError::Unreachable)?);
                Ok(Document { bytes, fresh_for: None })
            };
            let refresher = spawn_local(refresher.run(fetch, ended));
            let _ = first.await;
            test(self, set).await;
            // No configuration uses the set any more.
            timeout(MIN_EARLY * 2, refresher).await.unwrap().unwrap();
        });
        timeout(LONGEST, all).await.expect("the test ends");
    }

    fn says(&self, text: &str) {
        self.answer.replace(Some(text.to_owned()));
    }

    fn asked(&self) -> usize {
        self.asked.borrow().len()
    }
}

/// Names an unknown key every 10 ms for `time`, as a flood of forged tokens does.
async fn flood(set: &KeySet, time: Duration) {
    let start = now();
    while start.elapsed() < time {
        set.request_refresh();
        sleep(Duration::from_millis(10)).await;
    }
}

const HOUR: Duration = Duration::from_secs(3600);
/// A test that takes longer waits for what never happens.
const LONGEST: Duration = Duration::from_secs(3 * 3600);

#[tokio::test(start_paused = true)]
async fn a_set_is_fetched_again_and_replaced_if_it_has_changed() {
    let issuer = Issuer::default();
    issuer.says(SET);
    issuer
        .with(Duration::from_secs(100), async |issuer, set| {
            assert_eq!((set.generation(), issuer.asked()), (1, 1));
            sleep(Duration::from_secs(101)).await;
            assert_eq!((set.generation(), issuer.asked()), (1, 2), "the same set is not replaced");
            issuer.says(&SET.replace("p256", "another"));
            sleep(Duration::from_secs(101)).await;
            assert_eq!((set.generation(), issuer.asked()), (2, 3));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_set_stays_in_use_while_its_issuer_is_unavailable_or_sends_something_else() {
    let issuer = Issuer::default();
    issuer.says(SET);
    issuer
        .with(Duration::from_secs(5), async |issuer, set| {
            for answer in [None, Some(""), Some("<html>"), Some("{\"keys\":[]}"), Some("[]")] {
                let before = issuer.asked();
                issuer.answer.replace(answer.map(str::to_owned));
                sleep(Duration::from_secs(60)).await;
                assert!(issuer.asked() > before + 5, "it is asked again");
                assert_eq!(set.generation(), 1, "{answer:?}");
                assert!(set.has_come());
            }
            issuer.says(&SET.replace("p256", "another"));
            sleep(Duration::from_secs(6)).await;
            assert_eq!(set.generation(), 2);
        })
        .await;
}

/// An empty response is a failure like the others.
#[tokio::test(start_paused = true)]
async fn until_the_first_set_arrives_attempts_are_frequent_and_bounded() {
    for answer in [None, Some(""), Some("<html>")] {
        let issuer = Issuer::default();
        issuer.answer.replace(answer.map(str::to_owned));
        issuer
            .with(HOUR, async |issuer, set| {
                assert!(!set.has_come());
                sleep(Duration::from_secs(16)).await;
                let asked = issuer.asked();
                assert!((5..=6).contains(&asked), "after 1, 2, 4 and 8 s, each up to a tenth less");
                sleep(HOUR).await;
                assert!((60..=70).contains(&issuer.asked()), "{}", issuer.asked());
                issuer.says(SET);
                sleep(Duration::from_secs(61)).await;
                assert!(set.has_come());
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_causes_a_fetch_at_once() {
    let issuer = Issuer::default();
    issuer.says(SET);
    issuer
        .with(HOUR, async |issuer, set| {
            sleep(MIN_EARLY).await;
            issuer.says(&SET.replace("p256", "another"));
            set.request_refresh();
            sleep(Duration::from_millis(1)).await;
            assert_eq!((set.generation(), issuer.asked()), (2, 2));
            // An unknown key during a fetch causes no further fetch.
            sleep(MIN_EARLY * 3).await;
            assert_eq!(issuer.asked(), 2);
        })
        .await;
}

/// Whatever clients send, the issuer gets at most one request in ten seconds.
#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_causes_few_fetches() {
    let issuer = Issuer::default();
    issuer.says(SET);
    issuer.delay.set(Duration::from_millis(300));
    issuer
        .with(HOUR, async |issuer, set| {
            flood(&set, Duration::from_secs(600)).await;
            let asked = issuer.asked.borrow().clone();
            assert!((55..=60).contains(&asked.len()), "{}", asked.len());
            assert!(asked.windows(2).all(|pair| pair[1] - pair[0] >= MIN_EARLY), "{asked:?}");
            issuer.answer.replace(None);
            let before = issuer.asked();
            flood(&set, Duration::from_secs(600)).await;
            // In an outage the first attempts come sooner, even without unknown keys.
            assert!(issuer.asked() - before <= 65, "{}", issuer.asked() - before);
        })
        .await;
}

/// The end of a fetch once cleared the notice that the set is dropped.
#[tokio::test(start_paused = true)]
async fn the_refresher_ends_if_its_set_is_dropped_during_a_fetch() {
    let issuer = Issuer::default();
    issuer.says(SET);
    issuer.delay.set(Duration::from_millis(300));
    issuer
        .with(HOUR, async |issuer, set| {
            set.request_refresh();
            while issuer.asked() == 1 {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
}
