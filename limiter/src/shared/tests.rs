//! Decisions from many threads: in memory, and by a store on lanes.

use super::*;
use crate::algorithm::{Algorithm, Concurrency, FixedWindow, Quota};
use crate::consistency::{Consistency, OnFailure};
use crate::decision::{Outcome, OwnedDecision};
use crate::digest::{Secret, SharedSecret};
use crate::policy::{ClientSettings, Clients, KeyExpr};
use crate::request::RequestView;
use crate::time::Span;

const SEVERAL: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn daily(limit: u64) -> Policy {
    let quota = Quota::new(limit, Span::DAY).unwrap();
    Policy::new("p", KeyExpr::Ip, Algorithm::FixedWindow(FixedWindow::new(quota)))
}

/// The claims of a policy for a request from this address.
fn claims(policy: &Arc<Policy>, address: [u8; 4]) -> Claims<Arc<Policy>> {
    claims_of(std::slice::from_ref(policy), address)
}

fn claims_of(policies: &[Arc<Policy>], address: [u8; 4]) -> Claims<Arc<Policy>> {
    let settings = ClientSettings::default();
    let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
    let clients = Clients::new(settings, [], secret);
    let (head, ()) =
        http::Request::builder().header("host", "a.test").body(()).unwrap().into_parts();
    let request = RequestView::of(&head, address.into()).unwrap();
    let subject = clients.subject(&request, None, Clock::System.now());
    Claims::new(policies, &subject).unwrap().into_owned()
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(1000))
}

/// All kinds of limiters, without counted requests.
fn limiters() -> [SharedLimiter; 2] {
    let store = SharedStore::Memory(memory());
    let bound = NonZeroUsize::new(1000).unwrap();
    [
        SharedLimiter::in_memory(memory(), Clock::System),
        SharedLimiter::on_lanes(&store, SEVERAL, bound, Clock::System).unwrap(),
    ]
}

fn is_admitted(decision: &OwnedDecision) -> bool {
    matches!(decision.outcome, Outcome::Admit)
}

/// The requirements of a service on a multi-threaded runtime.
#[test]
fn decisions_can_be_sent_between_threads() {
    const fn is_send<T: Send + 'static>() {}
    const fn is_sync<T: Send + Sync + Clone + 'static>() {}
    const fn is_unpin<T: Unpin>() {}
    is_sync::<SharedLimiter>();
    is_send::<Check>();
    is_unpin::<Check>();
    is_send::<OwnedDecision>();
    is_send::<Claims<Arc<Policy>>>();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_admit_exactly_the_limit() {
    for limiter in limiters() {
        let policy = Arc::new(daily(100));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (limiter, policy) = (limiter.clone(), Arc::clone(&policy));
                spawn(async move {
                    let mut admitted = 0;
                    for _ in 0..50 {
                        let decision =
                            limiter.check(claims(&policy, [192, 0, 2, 1]), Headroom::default());
                        admitted += usize::from(is_admitted(&decision.await));
                    }
                    admitted
                })
            })
            .collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert_eq!(admitted, 100, "{limiter:?}");
    }
}

#[allow(clippy::disallowed_methods, reason = "a service on a multi-threaded runtime")]
fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

fn in_flight(limit: u64) -> Arc<Policy> {
    let algorithm = Algorithm::Concurrency(Concurrency::new(limit).unwrap());
    Arc::new(Policy::new("p", KeyExpr::Ip, algorithm))
}

#[tokio::test]
async fn units_in_flight_are_released_with_their_lease() {
    for limiter in limiters() {
        let policy = in_flight(1);
        let ask =
            async || limiter.check(claims(&policy, [192, 0, 2, 1]), Headroom::default()).await;
        let first = ask().await;
        assert!(is_admitted(&first) && !is_admitted(&ask().await));
        limiter.end(first.lease, &Ending::default());
        assert!(is_admitted(&ask().await), "{limiter:?}");
    }
}

/// A client that disconnects drops its check: before the answer arrives, or between its
/// arrival and its receipt.
#[tokio::test]
async fn a_check_that_is_dropped_leaves_nothing_in_flight() {
    for limiter in limiters() {
        let policy = in_flight(1);
        let ask = || limiter.check(claims(&policy, [192, 0, 2, 1]), Headroom::default());
        drop(ask());
        // A lane answers in order, so it has judged the dropped check.
        let next = ask().await;
        assert!(is_admitted(&next), "{limiter:?}");
        limiter.end(next.lease, &Ending::default());
        let answered = ask();
        // The answer to the later request shows that the earlier one has arrived, too.
        assert!(!is_admitted(&ask().await));
        drop(answered);
        assert!(is_admitted(&ask().await), "{limiter:?}");
    }
}

/// Regression: all requests used the first lane, and their settlements used the lane of
/// another key.
#[tokio::test]
async fn requests_are_spread_over_the_lanes_and_settled_where_they_were_judged() {
    let [_, limiter] = limiters();
    let Storage::Lanes(lanes) = &limiter.0.storage else { panic!("the limiter has lanes") };
    let by_all = Policy::new("all", KeyExpr::Global, daily(1000).algorithm);
    let mut used = [0; 2];
    for last in 0..64 {
        let claims = claims_of(&[Arc::new(by_all.clone()), in_flight(1)], [192, 0, 2, last]);
        let alone = claims_of(&[in_flight(1)], [192, 0, 2, last]);
        for claims in [claims, alone] {
            let lane = std::ptr::from_ref(lane_of(claims.spread(), lanes));
            used[usize::from(std::ptr::eq(lane, &raw const lanes[1]))] += 1;
            let decision = limiter.check(claims, Headroom::default()).await;
            let end = std::ptr::from_ref(lane_of(decision.lease.spread(), lanes));
            assert_eq!(lane, end, "the lane that has judged the request settles it");
            limiter.end(decision.lease, &Ending::default());
        }
    }
    assert!(used.iter().all(|count| *count > 10), "{used:?}");
}

#[tokio::test]
async fn beyond_the_bound_the_store_counts_as_unavailable() {
    let store = SharedStore::Memory(memory());
    let one = NonZeroUsize::MIN;
    let limiter = SharedLimiter::on_lanes(&store, one, one, Clock::System).unwrap();
    let of = |on_failure| {
        let consistency = Consistency { on_failure, ..Consistency::default() };
        Arc::new(Policy { consistency, ..daily(100) })
    };
    for (on_failure, admits) in
        [(OnFailure::Allow, true), (OnFailure::Local, false), (OnFailure::Deny, false)]
    {
        let policy = of(on_failure);
        let ask = || limiter.check(claims(&policy, [192, 0, 2, 1]), Headroom::default());
        // The number of requests that a lane finishes meanwhile depends on the machine, so
        // the test sends many.
        let checks: Vec<Check> = (0..1000).map(|_| ask()).collect();
        let mut unjudged = 0;
        for check in checks {
            let decision = check.await;
            if decision.reports[0].source == crate::store::Source::Policy {
                unjudged += 1;
                assert_eq!(is_admitted(&decision), admits, "{on_failure:?}");
                let is_unavailable = matches!(decision.outcome, Outcome::Unavailable(_));
                assert_eq!(is_unavailable, !admits, "{on_failure:?}");
            }
        }
        assert!(unjudged > 0, "a thousand simultaneous requests exceed a bound of one");
    }
}
