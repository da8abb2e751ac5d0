//! All messages to Redis for one request share one deadline. An error of the script affects
//! only one request.

use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use tokio::task::yield_now;
use tokio::time::sleep;
use tollgate_core::algorithm::{Algorithm, FixedWindow, Quota};
use tollgate_core::store::Source;
use tollgate_core::time::{Clock, Span};
use tollgate_redis::RedisSettings;
use tollgate_redis::layout::Layout;

use super::conformance::{charge, key, open, run};
use super::{node_of, wait_for_store};
use crate::support::now;
use crate::support::redis::{Fault, Options, Redis, Wire};

const TIMEOUT: Duration = Duration::from_millis(200);
const ROUND_TRIP: Duration = Duration::from_millis(150);
/// The additional time on a busy machine.
const NOISE: Duration = Duration::from_millis(80);

/// The longest wait of three requests under this policy.
fn longest_wait(policy: &str) -> Duration {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\", timeout: {}ms", wire.url(), TIMEOUT.as_millis());
    let policies = format!("each: {{ key: \"header:x-client\", {policy} }}");
    let gateway = node_of(&store, &policies, "[each]", 1);
    wait_for_store(&gateway);
    wire.set(Fault::Delay(ROUND_TRIP));
    let mut client = gateway.client();
    let waits = (0..3).map(|_| {
        let sent = now();
        client.get("/", &["X-Client: ann"]);
        sent.elapsed()
    });
    waits.max().expect("there are three")
}

/// Regression: the timeouts of two and three round trips were added.
#[test]
fn a_request_waits_for_all_that_is_asked_for_it_no_longer_than_the_timeout() {
    for policy in [
        "limit: 9/day, overrides: true",
        "limit: 1/day, penalty: { after: 1/day, ban: 1h, max_ban: 1h }",
    ] {
        let wait = longest_wait(policy);
        assert!(wait < TIMEOUT + NOISE, "{policy}: {wait:?}");
    }
}

/// Regression: 38 of 39 requests were judged without the store, and may have been counted.
#[test]
fn one_request_at_which_the_script_fails_leaves_the_others_their_answers() {
    const CLIENTS: u64 = 39;
    run(async {
        let redis = Redis::start(Options::default());
        let mut settings = RedisSettings::parse_url(&redis.url()).expect("it is a good URL");
        settings.timeout = Duration::from_secs(2);
        let store = open(&settings).await;
        let quota = Quota::new(100, Span::DAY).expect("it is a quota");
        let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
        let charge = |principal: u64, cost: u64| charge(principal, &algorithm, cost);
        // A value of another type is stored under the last key.
        let layout = Layout::new(&settings.prefix, settings.expected_clients);
        let taken = layout.key(key(CLIENTS - 1, 0).principal);
        let taken = std::str::from_utf8(&taken).expect("it is text");
        redis.cli(&["SET", taken, "x"]);
        let all: Vec<_> = (0..CLIENTS).map(|client| [charge(client, 1)]).collect();
        let decided =
            join_all(all.iter().map(|charges| store.apply(charges, Clock::System.now()))).await;
        let judged_alone =
            decided.iter().filter(|it| it.answers[0].source == Source::Local).count();
        assert_eq!((judged_alone, decided[38].answers[0].source), (1, Source::Local));
        redis.cli(&["DEL", taken]);
        for _ in 0..20 {
            store.housekeep(Clock::System.now());
            sleep(Duration::from_millis(20)).await;
        }
        for client in 0..CLIENTS {
            let decided = store.apply(&[charge(client, 0)], Clock::System.now()).await;
            assert_eq!(decided.answers[0].source, Source::Store);
            let counted = 100 - decided.answers[0].verdict.remaining;
            assert_eq!(counted, u64::from(client + 1 < CLIENTS), "client {client}");
        }
    });
}

/// Questions are under way, and others wait behind them, when the process does not run for twice
/// the timeout.
#[test]
fn a_standstill_of_the_process_leaves_all_questions_their_answers() {
    const ROUNDS: usize = 50;
    const WAVES: usize = 4;
    run(async {
        let redis = Redis::start(Options::default());
        let mut settings = RedisSettings::parse_url(&redis.url()).expect("it is a good URL");
        settings.timeout = Duration::from_millis(20);
        let store = open(&settings).await;
        let quota = Quota::new(1_000_000, Span::DAY).expect("it is a quota");
        let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
        let all: Vec<_> = (0..8).map(|client| [charge(client, &algorithm, 1)]).collect();
        let mut alone = 0;
        for _ in 0..ROUNDS {
            let mut waves = Vec::new();
            for _ in 0..WAVES {
                let mut wave =
                    join_all(all.iter().map(|charges| store.apply(charges, Clock::System.now())));
                assert!(poll!(&mut wave).is_pending(), "it asks Redis");
                waves.push(wave);
                // The calls of a wave are sent, as long as fewer than two batches are under way.
                for _ in 0..4 {
                    yield_now().await;
                }
            }
            thread::sleep(2 * settings.timeout);
            let decided = join_all(waves).await;
            alone +=
                decided.iter().flatten().filter(|it| it.answers[0].source == Source::Local).count();
            sleep(settings.timeout).await;
        }
        assert!(alone <= ROUNDS * WAVES * all.len() / 100, "{alone} were judged without Redis");
    });
}
