//! Many questions at once to a healthy Redis: no mode admits more than the limit, and no question
//! is judged without the store before its deadline.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tollgate_core::algorithm::{Algorithm, FixedWindow, Quota};
use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};
use tollgate_core::store::{Charge, Source, Store};
use tollgate_core::time::{Clock, Span};
use tollgate_redis::RedisSettings;

use super::conformance::{charge, open, run};
use crate::support::redis::{Options, Redis};

/// Longer than all answers take, also on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How many of twice this number of questions are admitted, and how many the store has not judged.
/// So many are asked at once, and then another one after each answer.
async fn at_once(store: &Store, charge: Charge<'_>, crowd: usize) -> (usize, usize) {
    let charges = [charge];
    let questions = (0..2 * crowd).map(|_| store.apply(&charges, Clock::System.now()));
    let answers: Vec<_> = stream::iter(questions).buffer_unordered(crowd).collect().await;
    store.housekeep(Clock::System.now());
    let answers = answers.iter().map(|decided| &decided.answers[0]);
    let admitted = answers.clone().filter(|answer| answer.verdict.admitted).count();
    (admitted, answers.filter(|answer| answer.source != Source::Store).count())
}

/// Regression: in write-back mode, the first reply opened the account of a client, and the node
/// admitted all free units itself while its other questions waited at Redis. In the other modes,
/// of more than 4,096 waiting questions each further one was judged by this node's share.
#[test]
fn a_crowd_at_once_is_admitted_up_to_the_limit() {
    let daily = |limit| {
        let quota = Quota::new(limit, Span::DAY).expect("it is a quota");
        Algorithm::FixedWindow(FixedWindow::new(quota))
    };
    run(async {
        let redis = Redis::start(Options::default());
        let mut settings = RedisSettings::parse_url(&redis.url()).expect("it is a good URL");
        settings.timeout = TIMEOUT;
        let store = open(&settings).await;
        let mut client = 0;
        for mode in [StoreMode::WriteBack, StoreMode::Exact, StoreMode::Leased] {
            for (limit, crowd) in [(700, 1_272), (500, 9_000)] {
                client += 1;
                let algorithm = daily(limit);
                let consistency = Consistency { mode, on_failure: OnFailure::Local };
                let one = Charge { consistency, ..charge(client, &algorithm, 1) };
                let found = at_once(&store, one, crowd).await;
                let expected = (usize::try_from(limit).expect("it is small"), 0);
                assert_eq!(found, expected, "{mode:?}, {crowd} at once");
            }
        }
    });
}

/// Regression: without Redis, a gateway admitted its share as if nothing had been counted: 192 of
/// 100.
#[test]
fn what_remained_at_the_last_answer_bounds_what_a_gateway_admits_alone() {
    let quota = Quota::new(100, Span::DAY).expect("it is a quota");
    let daily = Algorithm::FixedWindow(FixedWindow::new(quota));
    for mode in [StoreMode::Exact, StoreMode::Leased, StoreMode::WriteBack] {
        run(async {
            let mut redis = Redis::start(Options::default());
            let mut settings = RedisSettings::parse_url(&redis.url()).expect("it is a good URL");
            settings.timeout = Duration::from_secs(2);
            let store = open(&settings).await;
            let consistency = Consistency { mode, on_failure: OnFailure::Local };
            let charges = [Charge { consistency, ..charge(1, &daily, 1) }];
            let mut admitted = 0;
            for step in 0..300 {
                if step == 92 {
                    redis.kill();
                }
                let decided = store.apply(&charges, Clock::System.now()).await;
                store.housekeep(Clock::System.now());
                admitted += u32::from(decided.answers[0].verdict.admitted);
            }
            assert_eq!(admitted, 100, "{mode:?}");
        });
    }
}
