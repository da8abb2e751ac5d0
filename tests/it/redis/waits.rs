//! What one decision waits for while Redis is in trouble: never longer than the
//! timeout, and not at all once that is known.
//!
//! The store is asked without a gateway, so that what is measured is its own.

use std::time::Duration;

use tokio::time::sleep;
use tollgate::algorithm::{Algorithm, FixedWindow, Quota};
use tollgate::store::redis::RedisSettings;
use tollgate::store::{Charge, Source, Store};
use tollgate::terms::Terms;
use tollgate::time::{Clock, Span};

use super::conformance::{key, open, run};
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{PATIENCE, now};

const TIMEOUT: Duration = Duration::from_millis(20);
/// How late the system may wake up who waits.
const NOISE: Duration = Duration::from_millis(10);
/// A decision that does not wait.
const AT_ONCE: Duration = Duration::from_millis(1);
/// How soon the store must be used again.
const RECOVERY: Duration = Duration::from_secs(2);
const LASTS: Duration = Duration::from_secs(1);

/// Who judged, and how long that took.
async fn ask(store: &Store) -> (Source, Duration) {
    let quota = Quota::new(1_000_000, Span::DAY).expect("it is a quota");
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
    let terms = Terms::default();
    let charge = Charge { key: key(1, 1), algorithm: &algorithm, cost: 1, binding: true, terms };
    let begin = now();
    let decided = store.apply(&[charge], Clock::System.now()).await;
    let wait = begin.elapsed();
    assert!(decided.answers[0].verdict.admitted);
    // Others have their turn: connections are mended meanwhile.
    sleep(Duration::from_millis(1)).await;
    (decided.answers[0].source, wait)
}

fn p99(mut waits: Vec<Duration>) -> Duration {
    waits.sort_unstable();
    waits[waits.len() * 99 / 100]
}

/// Asks while it lasts; how long it took, from the first answer of this node on.
async fn endure(store: &Store, what: &str) {
    let (begin, mut all, mut alone) = (now(), Vec::new(), Vec::new());
    while begin.elapsed() < LASTS {
        let (source, wait) = ask(store).await;
        all.push(wait);
        // Three failures in a row open the breaker, and each probe that comes
        // through lets one more decision wait.
        if source == Source::Local && wait < TIMEOUT {
            alone.push(wait);
        }
    }
    assert!(alone.len() * 10 > all.len() * 9, "{what}: {} of {} alone", alone.len(), all.len());
    let longest = all.iter().max().copied().unwrap_or_default();
    assert!(longest <= TIMEOUT + NOISE, "{what}: one waited for {longest:?}");
    assert!(p99(alone) < AT_ONCE, "{what}");
}

async fn through(port: u16, what: &str, begin: impl FnOnce(), end: impl FnOnce()) {
    let url = format!("redis://127.0.0.1:{port}");
    let mut settings = RedisSettings::parse_url(&url).expect("it is a good URL");
    settings.timeout = TIMEOUT;
    let store = open(&settings).await;
    let joined = now();
    while ask(&store).await.0 != Source::Store {
        assert!(joined.elapsed() < PATIENCE, "{what}: it has no store");
        store.housekeep(Clock::System.now());
    }
    begin();
    endure(&store, what).await;
    end();
    let mended = now();
    while ask(&store).await.0 != Source::Store {
        assert!(mended.elapsed() < RECOVERY, "{what}: not used again");
    }
}

#[test]
fn no_decision_waits_longer_than_the_timeout_and_soon_none_waits_at_all() {
    run(async {
        let redis = Redis::start(Options::default());
        through(redis.port(), "stopped", || redis.stop(), || redis.cont()).await;
        let pause = || drop(redis.cli(&["CLIENT", "PAUSE", "5000", "ALL"]));
        let unpause = || drop(redis.cli(&["CLIENT", "UNPAUSE"]));
        through(redis.port(), "paused", pause, unpause).await;
        let memory = |bytes| drop(redis.cli(&["CONFIG", "SET", "maxmemory", bytes]));
        through(redis.port(), "full", || memory("1"), || memory("0")).await;
        let wire = Wire::to(redis.port());
        let slow = Fault::Delay(Duration::from_millis(50));
        for fault in [Fault::Cut, Fault::Swallow, Fault::Garbage, slow] {
            let what = format!("{fault:?}");
            through(wire.port(), &what, || wire.set(fault), || wire.set(Fault::None)).await;
        }
    });
}
