//! A request that is known to be refused causes no call, wherever its counters are. The
//! store is asked again as soon as units are given back.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::algorithm::{Algorithm, FixedWindow, Op, Quota};
use tollgate_core::store::{Charge, Correction, Source, Store};
use tollgate_core::time::{Clock, Span, Timestamp};
use tollgate_redis::RedisSettings;

use super::conformance::{charge_of, open, open_workers, run};
use crate::support::redis::{Fault, Options, Redis, Wire};

const FITS: &str = "it is within the bounds";
const CLIENTS: u64 = 16;
const REQUESTS: u64 = 100;
const ALL: u64 = 1 << 40;
/// The timeout is long, so that a busy machine does not look like an unavailable store.
const PATIENCE: Duration = Duration::from_secs(2);

fn shards() -> [Redis; 2] {
    [(); 2].map(|()| Redis::start(Options::default()))
}

fn settings(shards: &[Redis; 2]) -> RedisSettings {
    let urls = shards.each_ref().map(Redis::url);
    let mut settings =
        RedisSettings::parse_shards(urls.iter().map(String::as_str)).expect("they are good URLs");
    settings.timeout = PATIENCE;
    settings
}

/// The number of decision calls to the servers.
fn decisions(shards: &[Redis; 2]) -> u64 {
    let calls = |redis: &Redis| {
        let stats = redis.cli(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|line| line.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    shards.iter().map(calls).sum()
}

fn day(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::DAY).expect(FITS)))
}

async fn is_admitted(store: &Store, charges: &[Charge<'_>]) -> bool {
    let decided = store.apply(charges, Clock::System.now()).await;
    decided.answers.iter().all(|it| it.verdict.admitted)
}

#[test]
fn clients_over_their_own_limits_do_not_ask_though_their_counters_lie_in_several_places() {
    run(async {
        let shards = shards();
        let store = open(&settings(&shards)).await;
        let own = day(1);
        let all = day(1_000_000);
        let of = |client| [charge_of(client, 0, &own, 1), charge_of(ALL, 1, &all, 1)];
        for client in 0..CLIENTS {
            assert!(is_admitted(&store, &of(client)).await);
            assert!(!is_admitted(&store, &of(client)).await);
        }
        for _ in 0..2 {
            let before = decisions(&shards);
            for request in 0..CLIENTS * REQUESTS {
                let decided = store.apply(&of(request % CLIENTS), Clock::System.now()).await;
                let [own, all] = &decided.answers[..] else { panic!("two answers") };
                assert!(!own.verdict.admitted && own.source == Source::Store);
                assert!(all.verdict.admitted);
            }
            let asked = decisions(&shards) - before;
            // If the machine pauses, some updates may come too late.
            assert!(asked < 4 * CLIENTS, "{asked} questions");
            // Longer than a refusal is trusted without an update.
            sleep(Duration::from_secs(4)).await;
        }
    });
}

/// Waits until the store admits the charges, and returns the time that this took.
async fn until_admitted(store: &Store, charges: &[Charge<'_>]) -> Span {
    let start = Clock::System.now();
    while !is_admitted(store, charges).await {
        let waited = Clock::System.now().since(start);
        assert!(waited < Span::from_secs(20), "what was given back was not heard of");
        sleep(Duration::from_millis(20)).await;
    }
    Clock::System.now().since(start)
}

/// Whether a request is refused without a call, at the latest after the node's next update.
async fn is_known(store: &Store, shards: &[Redis; 2], charge: Charge<'_>) -> bool {
    for _ in 0..5 {
        sleep(Duration::from_millis(1100)).await;
        let before = decisions(shards);
        assert!(!is_admitted(store, &[charge]).await);
        if decisions(shards) == before {
            return true;
        }
    }
    false
}

/// Otherwise the refusal would be trusted for a minute.
#[test]
fn a_refund_by_another_node_is_known_within_two_seconds() {
    run(async {
        let shards = shards();
        let [here, there] = [open(&settings(&shards)).await, open(&settings(&shards)).await];
        let policy = day(2);
        for client in 0..3 {
            let two = charge_of(client, 0, &policy, 2);
            let decided = there.apply(&[two], Clock::System.now()).await;
            let one = charge_of(client, 0, &policy, 1);
            assert!(!is_admitted(&here, &[one]).await);
            sleep(Duration::from_secs(3)).await;
            assert!(is_known(&here, &shards, one).await, "it is asked for each time");
            give_back(&there, two, decided.at);
            let waited = until_admitted(&here, &[one]).await;
            // Twice the time, for a machine that is busy with other tests.
            assert!(waited < Span::from_secs(4), "{waited}");
        }
    });
}

/// Regression: a client was over its limit until units were given back. In the next outage
/// it was refused until the end of its window.
#[test]
fn units_that_were_given_back_before_an_outage_are_available_in_it() {
    run(async {
        for gives_itself in [true, false] {
            let redis = Redis::start(Options::default());
            let wire = Wire::to(redis.port());
            let mut settings = RedisSettings::parse_url(&wire.url()).expect("it is a good URL");
            settings.timeout = PATIENCE;
            // The first worker of a node refuses. The second worker, or another node, gives
            // back.
            let [here, beside] = open_workers(&settings).await;
            let there = open(&settings).await;
            let policy = day(10);
            let [four, six, one] = [4, 6, 1].map(|cost| charge_of(1, 0, &policy, cost));
            let giver = if gives_itself { &beside } else { &there };
            let decided = giver.apply(&[four], Clock::System.now()).await;
            assert!(is_admitted(&here, &[six]).await && !is_admitted(&here, &[one]).await);
            give_back(giver, four, decided.at);
            sleep(Duration::from_millis(200)).await;
            if !gives_itself {
                until_admitted(&here, &[one]).await;
            }
            wire.set(Fault::Cut);
            let mut source = Source::Store;
            let mut admitted = false;
            for _ in 0..100 {
                let decided = here.apply(&[one], Clock::System.now()).await;
                (source, admitted) =
                    (decided.answers[0].source, decided.answers[0].verdict.admitted);
                if source == Source::Local {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
            assert_eq!((source, admitted), (Source::Local, true), "itself: {gives_itself}");
        }
    });
}

fn give_back(store: &Store, charge: Charge<'_>, taken: Timestamp) {
    let op = Op::Give { cost: charge.cost, taken };
    store.correct(&[Correction { charge, source: Source::Store, op }], Clock::System.now());
}

#[test]
fn a_refund_at_the_end_of_a_node_is_known_too() {
    run(async {
        let shards = shards();
        let [here, there] = [open(&settings(&shards)).await, open(&settings(&shards)).await];
        let policy = day(2);
        let two = charge_of(1, 0, &policy, 2);
        let decided = there.apply(&[two], Clock::System.now()).await;
        let one = charge_of(1, 0, &policy, 1);
        assert!(!is_admitted(&here, &[one]).await);
        give_back(&there, two, decided.at);
        there.close(Clock::System.now()).await;
        drop(there);
        until_admitted(&here, &[one]).await;
    });
}
