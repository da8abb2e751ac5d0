//! What a request would get is what it then gets, and looking counts nothing.

use std::sync::Arc;

use fastrand::Rng;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tollgate_core::algorithm::{
    Algorithm, Ban, Concurrency, FixedWindow, LeakyBucket, Quota, Retry, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket,
};
use tollgate_core::consistency::{Consistency, StoreMode};
use tollgate_core::decision::{Decision, Ending, Headroom, Outcome, RateLimiter, Report};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::{
    ClientSettings, Clients, Cost, Count, Elastic, KeyExpr, MissingKey, Mode, Penalty, Plan, Plans,
    Policy,
};
use tollgate_core::request::RequestView;
use tollgate_core::store::{Source, Store};
use tollgate_core::time::{Clock, Span};
use tollgate_redis::RedisSettings;

use super::conformance::{open, run};
use crate::support::StoreKind;
use crate::support::redis::shared_server;

/// The reason why the chosen values are valid.
const FITS: &str = "it is within the bounds";
const X: HeaderName = HeaderName::from_static("x");
const PLAN: HeaderName = HeaderName::from_static("x-plan");
/// Waits are those of the time of the call.
const SLACK: Span = Span::from_secs(5);

/// Limits that are reached soon, in windows that do not end during the test.
fn algorithm(random: &mut Rng) -> Algorithm {
    let limit = random.u64(2..12);
    let quota = Quota::new(limit, Span::DAY).expect(FITS);
    match random.u8(..7) {
        0 => Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        1 => Algorithm::SubWindows(SubWindows::new(quota, 10).expect(FITS)),
        2 => Algorithm::SlidingLog(SlidingLog::new(quota).expect(FITS)),
        3 => Algorithm::FixedWindow(FixedWindow::new(quota)),
        4 => Algorithm::TokenBucket(TokenBucket::new(quota, limit).expect(FITS)),
        5 => Algorithm::LeakyBucket(LeakyBucket::new(quota, Span::DAY, Some(3)).expect(FITS)),
        _ => Algorithm::Concurrency(Concurrency::new(limit).expect(FITS)),
    }
}

fn policy(random: &mut Rng, index: usize) -> Arc<Policy> {
    let algorithm = algorithm(random);
    let day =
        |limit| Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::DAY).expect(FITS)));
    let is_bucket = matches!(algorithm, Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_));
    let larger = |more| algorithm.with_capacity(algorithm.capacity() + more).ok();
    let pro = |algorithm| ("1".into(), Plan::Limited { algorithm, soft: None });
    let limits = algorithm.with_limit(algorithm.limit() + 2).ok().map(pro);
    let limits = limits.into_iter().chain([("2".into(), Plan::Unlimited)]).collect();
    let hour = Ban::new(Span::from_secs(3600), Span::DAY).expect(FITS);
    let key = if random.bool() { KeyExpr::Header(X) } else { KeyExpr::Global };
    Arc::new(Policy {
        missing_key: [MissingKey::Ip, MissingKey::Skip, MissingKey::Deny][random.usize(..3)],
        soft: larger(random.u64(1..3)).filter(|_| random.bool()),
        elastic: random.bool().then(|| Elastic {
            beyond: day(2),
            latency_below: Some(Span::SECOND),
            in_flight_below_percent: None,
        }),
        penalty: random.bool().then(|| Penalty {
            after: day(3),
            ban: Algorithm::Ban(hour),
            delay: Span::ZERO,
        }),
        plans: random.bool().then_some(Plans { from: KeyExpr::Header(PLAN), limits }),
        // What is given back to a bucket depends on the microsecond.
        count: match random.bool() && !is_bucket {
            true => Count::statuses(vec![StatusCode::NOT_FOUND]),
            false => Count::All,
        },
        cost: Cost::Fixed(random.u64(0..3)),
        mode: if random.u8(..5) == 0 { Mode::Shadow } else { Mode::Enforce },
        ..Policy::new(&format!("p{index}"), key, algorithm)
    })
}

/// What must be the same exactly, and the wait.
fn told(decision: &Decision<&Arc<Policy>>) -> (String, Span) {
    let (outcome, wait) = match decision.outcome {
        Outcome::Admit => ("admit", Span::ZERO),
        Outcome::Refuse(Retry::After(wait)) => ("refuse", wait),
        Outcome::Refuse(_) => ("never", Span::ZERO),
        Outcome::Deny(_) => ("deny", Span::ZERO),
        ref other => panic!("{other:?}"),
    };
    let binding = decision.binding().map(|report| &*report.policy.name);
    (format!("{outcome} {binding:?} {}", decision.is_soft()), wait)
}

fn numbers(report: &Report<&Arc<Policy>>) -> String {
    let verdict = (report.verdict.admitted, report.verdict.limit, report.verdict.remaining);
    let counted = (report.used, report.cost, report.choice, report.client);
    format!("{} {:?} {verdict:?} {counted:?}", report.policy.name, report.ruling)
}

/// Requests of a few clients under random policies, each first explained and then made.
/// Returns the number of refused ones.
async fn compare(
    limiter: &RateLimiter,
    random: &mut Rng,
    requests: usize,
    states: impl Fn() -> String,
) -> usize {
    let secret = Arc::new(SharedSecret::new(Secret::random()));
    let clients = Clients::new(ClientSettings::default(), [], secret);
    let count = random.usize(1..=4);
    let policies: Vec<_> = (0..count).map(|index| policy(random, index)).collect();
    let mut leases = Vec::new();
    let mut refused = 0;
    for number in 0..requests {
        let mut headers = HeaderMap::new();
        if random.u8(..8) > 0 {
            headers.insert(X, HeaderValue::from(random.u16(..3)));
        }
        headers.insert(PLAN, HeaderValue::from(random.u16(..4)));
        let request = RequestView::sample("a.test", "/", &headers);
        let now = Clock::System.now();
        let subject = clients.subject(&request, None, now);
        let latency = random.bool().then_some(Span::ZERO);
        let room = Headroom { latency, ..Headroom::default() };
        let peek = async || limiter.peek(&policies, &subject, room, Clock::System.now()).await;
        let first = peek().await;
        if number % 50 == 0 {
            let before = states();
            assert_eq!(told(&peek().await.decision).0, told(&first.decision).0);
            assert_eq!(before, states(), "a look has changed the counters");
        }
        let decision = limiter.decide(&policies, &subject, room, Clock::System.now()).await;
        let ((expected, its_wait), (found, wait)) = (told(&first.decision), told(&decision));
        assert_eq!(expected, found, "{policies:#?}");
        let difference = its_wait.as_micros().abs_diff(wait.as_micros());
        assert!(difference < SLACK.as_micros(), "{its_wait} and {wait}");
        assert_eq!(first.decision.reports.len(), decision.reports.len());
        for (expected, found) in first.decision.reports.iter().zip(&decision.reports) {
            // A worker that knows of a refusal does not ask for the other counters.
            if found.source != Source::Unasked {
                assert_eq!(numbers(expected), numbers(found), "request {number}");
                assert_eq!(expected.source, found.source);
            }
        }
        refused += usize::from(!matches!(decision.outcome, Outcome::Admit));
        leases.push(decision.lease);
        if random.bool() {
            let lease = leases.swap_remove(random.usize(..leases.len()));
            let status = [StatusCode::OK, StatusCode::NOT_FOUND][random.usize(..2)];
            let ending = Ending { status: Some(status), ..Ending::default() };
            limiter.end(&lease, &ending, Clock::System.now());
        }
    }
    for lease in leases {
        limiter.end(&lease, &Ending::default(), Clock::System.now());
    }
    refused
}

/// All counters under a prefix.
fn states(settings: &RedisSettings) -> String {
    let script = "local all = {} local keys = redis.call('KEYS', ARGV[1]) table.sort(keys) \
                  for _, key in ipairs(keys) do if not string.find(key, 'meta') then \
                  all[#all + 1] = key all[#all + 1] = redis.sha1hex(redis.call('DUMP', key)) end end \
                  return table.concat(all, ' ')";
    shared_server().cli(&["EVAL", script, "0", &format!("{}*", settings.prefix)])
}

#[test]
fn a_thousand_requests_get_what_was_told_and_telling_counts_nothing() {
    run(async {
        let mut random = Rng::with_seed(7);
        let mut refused = 0;
        let settings = StoreKind::Standalone.settings().expect("it is Redis");
        let limiter = RateLimiter::new(open(&settings).await);
        for _ in 0..10 {
            refused += compare(&limiter, &mut random, 100, || states(&settings)).await;
        }
        assert!((100..900).contains(&refused), "{refused} of 1,000 were refused");
        let cluster = StoreKind::Cluster.settings().expect("it is Redis");
        let limiter = RateLimiter::new(open(&cluster).await);
        for _ in 0..4 {
            compare(&limiter, &mut random, 50, String::new).await;
        }
    });
}

#[test]
fn while_redis_is_away_a_request_gets_what_was_told_too() {
    run(async {
        let mut settings = RedisSettings::parse_url("redis://127.0.0.1:1").expect("a URL");
        settings.prefix = "away".to_owned();
        let store = open(&settings).await;
        assert!(matches!(&store, Store::Remote(_)));
        let limiter = RateLimiter::new(store);
        let mut random = Rng::with_seed(8);
        let mut refused = 0;
        for _ in 0..10 {
            refused += compare(&limiter, &mut random, 50, String::new).await;
        }
        assert!((50..450).contains(&refused), "{refused} of 500 were refused");
    });
}

/// Leased units count as used: their node may still admit requests by them.
#[test]
fn a_leased_limit_is_told_as_redis_has_counted_it() {
    run(async {
        let settings = StoreKind::Standalone.settings().expect("it is Redis");
        let limiter = RateLimiter::new(open(&settings).await);
        let quota = Quota::new(1000, Span::DAY).expect(FITS);
        let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(quota));
        let consistency = Consistency { mode: StoreMode::Leased, ..Consistency::default() };
        let policy = Policy::new("leased", KeyExpr::Global, algorithm);
        let policies = [Arc::new(Policy { consistency, ..policy })];
        let secret = Arc::new(SharedSecret::new(Secret::random()));
        let clients = Clients::new(ClientSettings::default(), [], secret);
        let headers = HeaderMap::new();
        let request = RequestView::sample("a.test", "/", &headers);
        let subject = clients.subject(&request, None, Clock::System.now());
        let room = Headroom::default();
        for made in 0..50 {
            let now = Clock::System.now();
            let peeked = limiter.peek(&policies, &subject, room, now).await;
            let report = &peeked.decision.reports[0];
            assert_eq!(report.source, Source::Store);
            assert!(report.used > made, "{} used after {made} requests", report.used);
            let decision = limiter.decide(&policies, &subject, room, now).await;
            assert!(matches!(decision.outcome, Outcome::Admit));
        }
    });
}
