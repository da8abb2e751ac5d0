//! The waits of single decisions while Redis fails: never longer than the timeout, and none
//! after the failure is known.
//!
//! The tests use the store without a gateway, so that they measure only its waits.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tollgate_core::algorithm::{Algorithm, FixedWindow, Quota};
use tollgate_core::consistency::Consistency;
use tollgate_core::store::{Charge, Source, Store};
use tollgate_core::time::{Clock, Span};
use tollgate_redis::RedisSettings;

use super::conformance::{key, open, run};
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{PATIENCE, now};

const TIMEOUT: Duration = Duration::from_millis(20);
/// Timers are rounded up, once in the test and once in the store.
const ROUNDED: Duration = Duration::from_millis(5);
/// Other tasks run this number of times before a decision counts as late. After a pause of
/// the machine several timers expire at once, and the order in which tasks are woken has no
/// meaning.
const TURNS: usize = 100;
/// The time within which the store must be used again.
const RECOVERY: Duration = Duration::from_secs(2);
const LASTS: Duration = Duration::from_secs(1);
/// Three failures in a row open the breaker, and each probe that succeeds lets one more
/// decision wait: after 100 ms, and then each time after twice as long.
const MOST_WAITS: usize = 8;

/// The way in which a decision was made.
struct Asked {
    source: Source,
    /// The decision did not wait at all. This is checked instead of its duration, which
    /// depends on the load of the machine.
    at_once: bool,
}

async fn ask(store: &Store, what: &str) -> Asked {
    let quota = Quota::new(1_000_000, Span::DAY).expect("it is a quota");
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
    let consistency = Consistency::default();
    let charges =
        [Charge { key: key(1, 1), algorithm: &algorithm, cost: 1, binding: true, consistency }];
    let mut decision = pin!(store.apply(&charges, Clock::System.now()));
    let (at_once, decided) = match poll_once(decision.as_mut()).await {
        Poll::Ready(decided) => (true, decided),
        Poll::Pending => (false, in_time(decision, what).await),
    };
    assert!(decided.answers[0].verdict.admitted);
    // Other tasks run: connections are reopened meanwhile.
    sleep(Duration::from_millis(1)).await;
    Asked { source: decided.answers[0].source, at_once }
}

pub(super) async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// The result of `future`, if it is ready in time.
async fn in_time<T>(mut future: Pin<&mut impl Future<Output = T>>, what: &str) -> T {
    if let Ok(given) = timeout(TIMEOUT + ROUNDED, &mut future).await {
        return given;
    }
    for _ in 0..TURNS {
        if let Poll::Ready(given) = poll_once(future.as_mut()).await {
            return given;
        }
        yield_now().await;
    }
    panic!("{what}: a decision waits for longer than the timeout")
}

/// Makes decisions for this time.
async fn endure(store: &Store, what: &str) {
    let begin = now();
    let mut waited = 0;
    let mut alone = 0;
    while begin.elapsed() < LASTS {
        let asked = ask(store, what).await;
        waited += usize::from(!asked.at_once);
        alone += usize::from(asked.source == Source::Local);
    }
    assert!(waited <= MOST_WAITS, "{what}: {waited} decisions waited");
    assert!(alone > MOST_WAITS, "{what}: {alone} were made alone");
}

async fn through(port: u16, what: &str, begin: impl FnOnce(), end: impl FnOnce()) {
    let url = format!("redis://127.0.0.1:{port}");
    let mut settings = RedisSettings::parse_url(&url).expect("it is a good URL");
    settings.timeout = TIMEOUT;
    let store = open(&settings).await;
    let joined = now();
    while ask(&store, what).await.source != Source::Store {
        assert!(joined.elapsed() < PATIENCE, "{what}: it has no store");
        store.housekeep(Clock::System.now());
    }
    begin();
    endure(&store, what).await;
    end();
    let mended = now();
    while ask(&store, what).await.source != Source::Store {
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
