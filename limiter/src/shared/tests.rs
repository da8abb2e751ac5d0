//! Decisions from many threads: in memory, and by a store on lanes.

use tollgate_core::algorithm::{Algorithm, Concurrency, FixedWindow, Quota};
use tollgate_core::consistency::{Consistency, OnFailure};
use tollgate_core::decision::{Outcome, OwnedDecision};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::{ClientSettings, Clients, KeyExpr};
use tollgate_core::request::RequestView;
use tollgate_core::time::Span;

use super::*;

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

fn memory() -> MemoryStore {
    MemoryStore::new(1000)
}

/// A limiter as an application holds it.
#[derive(Clone, Debug)]
struct Held(Arc<SharedLimiter>);

impl AsRef<SharedLimiter> for Held {
    fn as_ref(&self) -> &SharedLimiter {
        &self.0
    }
}

impl Held {
    fn on_lanes(lanes: NonZeroUsize, bound: NonZeroUsize) -> Self {
        let store = SharedStore::Memory(Arc::new(memory()));
        let of_lane = LaneStore {
            store,
            overrides: None,
            #[cfg(all(feature = "keys", feature = "redis"))]
            keys: None,
            clock: Clock::System,
        };
        let limiter = SharedLimiter::on_lanes(of_lane, [lanes, bound]);
        Self(Arc::new(limiter.unwrap()))
    }

    fn check(&self, claims: Claims<Arc<Policy>>) -> Check<Self> {
        SharedLimiter::check(self.clone(), claims)
    }

    fn end(&self, lease: Lease) {
        self.0.end(lease, &Ending::default());
    }
}

/// All kinds of limiters, without counted requests.
fn limiters() -> [Held; 2] {
    let bound = NonZeroUsize::new(1000).unwrap();
    let in_memory = SharedLimiter::in_memory(memory(), Clock::System);
    [Held(Arc::new(in_memory)), Held::on_lanes(SEVERAL, bound)]
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
    is_sync::<Held>();
    is_send::<Check<Held>>();
    is_unpin::<Check<Held>>();
    is_send::<OwnedDecision>();
    is_send::<Claims<Arc<Policy>>>();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_admit_exactly_the_limit() {
    for limiter in limiters() {
        let policy = Arc::new(daily(100));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let limiter = limiter.clone();
                let policy = Arc::clone(&policy);
                spawn(async move {
                    let mut admitted = 0;
                    for _ in 0..50 {
                        let (decision, _) = limiter.check(claims(&policy, [192, 0, 2, 1])).await;
                        admitted += usize::from(is_admitted(&decision));
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
        let ask = async || limiter.check(claims(&policy, [192, 0, 2, 1])).await.0;
        let first = ask().await;
        assert!(is_admitted(&first) && !is_admitted(&ask().await));
        limiter.end(first.lease);
        assert!(is_admitted(&ask().await), "{limiter:?}");
    }
}

/// A client that disconnects drops its check: before the answer arrives, or between its
/// arrival and its receipt.
#[tokio::test]
async fn a_check_that_is_dropped_leaves_nothing_in_flight() {
    for limiter in limiters() {
        let policy = in_flight(1);
        let ask = || limiter.check(claims(&policy, [192, 0, 2, 1]));
        drop(ask());
        // A lane answers in order, so it has judged the dropped check.
        let (next, _) = ask().await;
        assert!(is_admitted(&next), "{limiter:?}");
        limiter.end(next.lease);
        let answered = ask();
        // The answer to the later request shows that the earlier one has arrived, too.
        assert!(!is_admitted(&ask().await.0));
        drop(answered);
        assert!(is_admitted(&ask().await.0), "{limiter:?}");
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
            let (decision, _) = limiter.check(claims).await;
            let end = std::ptr::from_ref(lane_of(decision.lease.spread(), lanes));
            assert_eq!(lane, end, "the lane that has judged the request settles it");
            limiter.end(decision.lease);
        }
    }
    assert!(used.iter().all(|count| *count > 10), "{used:?}");
}

#[tokio::test]
async fn beyond_the_bound_the_store_counts_as_unavailable() {
    let limiter = Held::on_lanes(NonZeroUsize::MIN, NonZeroUsize::MIN);
    let of = |on_failure| {
        let consistency = Consistency { on_failure, ..Consistency::default() };
        Arc::new(Policy { consistency, ..daily(100) })
    };
    for (on_failure, admits) in
        [(OnFailure::Allow, true), (OnFailure::Local, false), (OnFailure::Deny, false)]
    {
        let policy = of(on_failure);
        let ask = || limiter.check(claims(&policy, [192, 0, 2, 1]));
        // The number of requests that a lane finishes meanwhile depends on the machine, so
        // the test sends many.
        let checks: Vec<Check<Held>> = (0..1000).map(|_| ask()).collect();
        let mut unjudged = 0;
        for check in checks {
            let (decision, _) = check.await;
            if decision.reports[0].source == tollgate_core::store::Source::Policy {
                unjudged += 1;
                assert_eq!(is_admitted(&decision), admits, "{on_failure:?}");
                let is_unavailable = matches!(decision.outcome, Outcome::Unavailable(_));
                assert_eq!(is_unavailable, !admits, "{on_failure:?}");
            }
        }
        assert!(unjudged > 0, "a thousand simultaneous requests exceed a bound of one");
    }
}

#[tokio::test]
async fn a_cost_is_settled_where_it_was_charged() {
    for limiter in limiters() {
        let policy = Arc::new(daily(10));
        let ask = async |cost| {
            let client = tollgate_core::digest::Principal::from_bits(7 << 64 | 9);
            limiter.check(Claims::of_client(&policy, client, cost)).await.0
        };
        let mut decision = ask(5).await;
        decision.lease.open_all(&decision.reports);
        limiter.0.settle(decision.lease, 2);
        assert_eq!(ask(0).await.reports[0].verdict.remaining, 8, "{limiter:?}");
    }
}

#[tokio::test]
async fn after_the_end_of_the_lanes_the_store_counts_as_unavailable() {
    let [_, limiter] = limiters();
    let policy = Arc::new(daily(10));
    limiter.0.ready().await;
    let ask = || limiter.check(claims(&policy, [192, 0, 2, 1]));
    assert!(is_admitted(&ask().await.0));
    limiter.0.close().await;
    let (decision, _) = ask().await;
    assert!(matches!(decision.outcome, Outcome::Unavailable(_)));
    limiter.0.close().await;
}
