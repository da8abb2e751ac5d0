//! The waits of refusals that are made without a call, or beside other policies: a refused
//! client is told the longest wait of all of them, as a node that knows nothing and asks Redis
//! for all of them tells it.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::algorithm::{Algorithm, Ban, FixedWindow, Op, Quota, Retry, SlidingWindow};
use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};
use tollgate_core::store::{Charge, Correction, Source, Store};
use tollgate_core::time::{Clock, Span};
use tollgate_redis::RedisSettings;

use super::conformance::{charge_of, open, run};
use crate::support::redis::{Options, Redis};

const FITS: &str = "it is within the bounds";
/// A busy machine must not look like an unavailable store.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longer than a state is used to tell a wait.
const OLD: Duration = Duration::from_millis(30);
const CLIENT: u64 = 7;

fn daily(limit: u64) -> Algorithm {
    Algorithm::SlidingWindow(SlidingWindow::new(Quota::new(limit, Span::DAY).expect(FITS)))
}

fn short(limit: u64) -> Algorithm {
    let quota = Quota::new(limit, Span::from_secs(20)).expect(FITS);
    Algorithm::SlidingWindow(SlidingWindow::new(quota))
}

fn in_mode(mode: StoreMode, charge: Charge<'_>) -> Charge<'_> {
    Charge { consistency: Consistency { mode, on_failure: OnFailure::Local }, ..charge }
}

/// The wait of a request, unless it is admitted.
async fn wait(store: &Store, charges: &[Charge<'_>]) -> Option<Span> {
    let decided = store.apply(charges, Clock::System.now()).await;
    let refused = decided.answers.iter().filter(|it| !it.verdict.admitted);
    let waits = refused.map(|it| match it.verdict.retry {
        Retry::After(wait) if it.source == Source::Store => wait,
        retry => panic!("{retry:?}, {:?}", it.source),
    });
    waits.max()
}

/// Checks that a request is told at least the wait that Redis tells a node that has just
/// started, and the same within a tenth of a second.
async fn assert_told(settings: &RedisSettings, store: &Store, charges: &[Charge<'_>], what: &str) {
    let told = wait(store, charges).await.expect("it is refused");
    let exact: Vec<_> = charges.iter().map(|it| in_mode(StoreMode::Exact, *it)).collect();
    let fresh = open(settings).await;
    let truth = wait(&fresh, &exact).await.expect("it is refused by Redis, too");
    let told = Duration::from(told);
    let truth = Duration::from(truth);
    assert!(told >= truth, "{what}: {told:?} is told, and Redis says {truth:?}");
    assert!(told <= truth + PATIENCE, "{what}: {told:?} is told, and Redis says {truth:?}");
}

fn settings(redis: &Redis) -> RedisSettings {
    let mut settings = RedisSettings::parse_url(&redis.url()).expect("it is a good URL");
    settings.timeout = PATIENCE;
    settings
}

/// Admits a request of these charges, in Redis.
async fn consume(settings: &RedisSettings, charges: &[Charge<'_>]) {
    let other = open(settings).await;
    assert_eq!(wait(&other, charges).await, None);
}

/// Regression: a node told waits by states that were up to a minute old.
#[test]
fn a_wait_includes_what_other_nodes_have_counted_since() {
    run(async {
        let redis = Redis::start(Options::default());
        let settings = settings(&redis);
        let first = short(2);
        let second = daily(10);
        let charges = [charge_of(CLIENT, 0, &first, 2), charge_of(CLIENT, 1, &second, 5)];
        let store = open(&settings).await;
        assert_eq!(wait(&store, &charges).await, None);
        assert_told(&settings, &store, &charges, "the short limit is used up").await;
        sleep(OLD).await;
        consume(&settings, &charges[1..]).await;
        assert_told(&settings, &store, &charges, "another node used up the long one").await;
    });
}

/// Regression: a node that counts later refused by its own account, and neither asked nor named
/// the other policy.
#[test]
fn a_wait_includes_the_policies_beside_one_that_this_node_counts() {
    for mode in [StoreMode::WriteBack, StoreMode::Leased] {
        run(async {
            let redis = Redis::start(Options::default());
            let settings = settings(&redis);
            let first = short(20);
            let second = daily(100);
            let own = in_mode(mode, charge_of(CLIENT, 0, &first, 1));
            let charges = [own, charge_of(CLIENT, 1, &second, 1)];
            let store = open(&settings).await;
            while wait(&store, &charges).await.is_none() {}
            store.housekeep(Clock::System.now());
            sleep(OLD).await;
            assert_told(&settings, &store, &charges, "the short limit is used up").await;
            consume(&settings, &[Charge { cost: 80, ..charges[1] }]).await;
            sleep(OLD).await;
            assert_told(&settings, &store, &charges, "another node used up the long one").await;
        });
    }
}

/// Regression: a known ban refused, and the limit beside it was left unasked.
#[test]
fn a_wait_includes_the_limit_beside_a_ban() {
    run(async {
        let redis = Redis::start(Options::default());
        let settings = settings(&redis);
        let ban = Ban::new(Span::from_secs(5), Span::from_secs(60)).expect(FITS);
        let limit = daily(3);
        let ban = Algorithm::Ban(ban);
        let banned = in_mode(StoreMode::Leased, charge_of(CLIENT, 1, &ban, 1));
        let charges = [in_mode(StoreMode::Leased, charge_of(CLIENT, 0, &limit, 3)), banned];
        let store = open(&settings).await;
        assert_eq!(wait(&store, &charges).await, None);
        let now = Clock::System.now();
        let op = Op::Settle { reserved: 0, actual: 1, taken: now };
        store.correct(&[Correction { charge: banned, source: Source::Store, op }], now);
        for _ in 0..3 {
            sleep(OLD).await;
            assert_told(&settings, &store, &charges, "it is banned, and its limit used up").await;
        }
    });
}

/// A ban, or a window that ends when it ends, hides no wait that is longer: then no request
/// causes a call, however many come.
#[test]
fn a_certain_wait_costs_no_call() {
    run(async {
        let redis = Redis::start(Options::default());
        let settings = settings(&redis);
        let quota = Quota::new(1, Span::DAY).expect(FITS);
        let day = Algorithm::FixedWindow(FixedWindow::new(quota));
        let short = short(1000);
        let charges = [charge_of(CLIENT, 0, &day, 1), charge_of(CLIENT, 1, &short, 1)];
        let store = open(&settings).await;
        assert_eq!(wait(&store, &charges).await, None);
        assert!(wait(&store, &charges).await.is_some());
        let calls = || redis.cli(&["INFO", "commandstats"]).matches("cmdstat_evalsha").count();
        let _ = redis.cli(&["CONFIG", "RESETSTAT"]);
        for _ in 0..20 {
            sleep(OLD).await;
            assert!(wait(&store, &charges).await.is_some());
        }
        assert_eq!(calls(), 0);
    });
}
