//! The store without a gateway: Redis agrees with memory, wherever the counters of a
//! request are.
//!
//! The guarantees if the counters are in several slots of a cluster or on several shards: a
//! request is counted by all of its counters or, in the end, by none. No window ever admits
//! more than its limit. While a request is in progress, a counter may hold units that
//! another counter refuses, and may then refuse a request for which there was room. Memory
//! never does this.

use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, spawn_local};
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, Op, Quota, Retry, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket, Verdict,
};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Key, Principal, Secret, SharedSecret};
use tollgate_core::store::{Charge, Correction, Decided, MemoryStore, SharedStore, Source, Store};
use tollgate_core::time::{Clock, Span, Timestamp};
use tollgate_redis::{NodeState, RedisSettings};

use crate::support::StoreKind;

/// The reason why the chosen values are valid.
const FITS: &str = "it is within the bounds";
const FEW: &str = "there are few";
const KINDS: [StoreKind; 3] = [StoreKind::Standalone, StoreKind::Cluster, StoreKind::Sharded];
const PRINCIPALS: u64 = 12;
const REQUESTS: usize = 1500;
/// The largest difference between the clocks of several servers, and between reported
/// times.
const SLACK_US: u64 = 1_000_000;

/// One policy of each kind. The limits are reached soon, and the windows do not end during
/// the test.
fn policies() -> Vec<Algorithm> {
    let quota = |limit| Quota::new(limit, Span::DAY).expect(FITS);
    vec![
        Algorithm::SlidingWindow(SlidingWindow::new(quota(9))),
        Algorithm::SubWindows(SubWindows::new(quota(8), 10).expect(FITS)),
        Algorithm::SlidingLog(SlidingLog::new(quota(7)).expect(FITS)),
        Algorithm::FixedWindow(FixedWindow::new(quota(10))),
        Algorithm::TokenBucket(TokenBucket::new(quota(20), 6).expect(FITS)),
        Algorithm::LeakyBucket(LeakyBucket::new(quota(20), Span::DAY, Some(5)).expect(FITS)),
        Algorithm::Concurrency(Concurrency::new(5).expect(FITS)),
    ]
}

pub(super) fn key(principal: u64, policy: usize) -> Key {
    // Uniformly distributed, like digests.
    let bits = u128::from(principal + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let counter = u64::try_from(policy).expect(FEW) * 0x0001_2345;
    Key { principal: Principal::from_bits(bits), counter: Counter::from_bits(counter) }
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(1 << 16))
}

/// One worker of a separate node.
pub(super) async fn open(settings: &RedisSettings) -> Store {
    let [store] = open_workers(settings).await;
    store
}

/// This number of workers of one node.
pub(super) async fn open_workers<const COUNT: usize>(settings: &RedisSettings) -> [Store; COUNT] {
    let secret = Arc::new(SharedSecret::new(Secret::random()));
    let shared = Arc::new(NodeState::new(settings.clone(), memory(), secret));
    let workers = [(); COUNT]
        .map(|()| SharedStore::Remote(Arc::<NodeState>::clone(&shared)).open(Clock::System));
    for worker in &workers {
        worker.ready().await;
    }
    workers
}

pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.expect("a runtime").block_on(test);
}

/// Random charges, each on a different counter.
fn charges<'a>(random: &mut Rng, policies: &'a [Algorithm]) -> Vec<Charge<'a>> {
    let counters = 0..policies.len() * usize::try_from(PRINCIPALS).expect(FEW);
    let count = random.usize(1..=4);
    let chosen = random.choose_multiple(counters, count).into_iter();
    let charge = |counter: usize| {
        let policy = counter % policies.len();
        let principal = u64::try_from(counter / policies.len()).expect(FEW);
        let algorithm = &policies[policy];
        let cost = random.u64(0..=3);
        let binding = random.u32(..4) > 0;
        Charge {
            key: key(principal, policy),
            algorithm,
            cost,
            binding,
            consistency: Consistency::default(),
        }
    };
    chosen.map(charge).collect()
}

/// Compares the units exactly, and the times with a tolerance.
fn parts(verdict: &Verdict) -> ((bool, u64, u64, bool), [Span; 3]) {
    let Verdict { admitted, limit, remaining, retry, reset_after, delay } = *verdict;
    let wait = if let Retry::After(wait) = retry { wait } else { Span::ZERO };
    ((admitted, limit, remaining, retry == Retry::Never), [wait, reset_after, delay])
}

fn agree(found: &Decided, expected: &Decided) -> bool {
    found.answers.len() == expected.answers.len()
        && found.answers.iter().zip(&expected.answers).all(|(found, expected)| {
            let (found_units, found_times) = parts(&found.verdict);
            let (expected_units, expected_times) = parts(&expected.verdict);
            let close = |(a, b): (Span, Span)| a.as_micros().abs_diff(b.as_micros()) <= SLACK_US;
            found.source == Source::Store
                && found_units == expected_units
                && found_times.into_iter().zip(expected_times).all(close)
        })
}

/// A charge that was admitted, and its time.
type Taken<'a> = (Charge<'a>, Timestamp);

/// A random correction of a charge: a refund, or a higher cost.
fn correction<'a>(random: &mut Rng, taken: &mut Vec<Taken<'a>>) -> Option<Correction<'a>> {
    if taken.is_empty() || random.u32(..4) > 0 {
        return None;
    }
    let (charge, taken) = taken.swap_remove(random.usize(..taken.len()));
    let actual = random.u64(0..=charge.cost + 1);
    let op = match charge.algorithm {
        Algorithm::Concurrency(_) => Op::Give { cost: charge.cost, taken },
        // These algorithms use the time of a take to give it back. A request on several
        // servers has several decisions, and keeps the latest time. So the units that it
        // does not use may stay counted.
        Algorithm::LeakyBucket(_) | Algorithm::SlidingLog(_) => return None,
        _ => Op::Settle { reserved: charge.cost, actual, taken },
    };
    Some(Correction { charge, source: Source::Store, op })
}

async fn redis_agrees_with_memory(kind: StoreKind, seed: u64) {
    let redis = open(&kind.settings().expect("it is Redis")).await;
    let memory = Store::Memory(memory());
    let mut random = Rng::with_seed(seed);
    let policies = policies();
    let mut taken = Vec::new();
    let mut admitted = 0;
    let mut several = 0;
    for request in 0..REQUESTS {
        let charges = charges(&mut random, &policies);
        let found = redis.apply(&charges, Clock::System.now()).await;
        let expected = memory.apply(&charges, found.at).await;
        assert!(
            agree(&found, &expected),
            "{kind:?}, seed {seed}, request {request}: {charges:#?}\n{found:#?}\n{expected:#?}"
        );
        let judged = || charges.iter().zip(&found.answers);
        if judged().all(|(charge, answer)| answer.verdict.admitted || !charge.binding) {
            (admitted, several) = (admitted + 1, several + usize::from(charges.len() > 1));
            let counted = judged().filter(|(it, answer)| answer.verdict.admitted && it.cost > 0);
            taken.extend(counted.map(|(charge, _)| (*charge, found.at)));
        }
        if let Some(correction) = correction(&mut random, &mut taken) {
            redis.correct(&[correction], Clock::System.now());
            memory.correct(&[correction], Clock::System.now());
        }
    }
    assert!(admitted > REQUESTS / 10 && several > REQUESTS / 20, "{admitted}, {several}");
    assert!(admitted < REQUESTS * 9 / 10, "{admitted}");
}

#[test]
fn redis_agrees_with_memory_wherever_the_counters_of_a_request_are() {
    run(async {
        for kind in KINDS {
            redis_agrees_with_memory(kind, 1).await;
        }
    });
}

/// Concurrent requests of many tasks, each with two policies.
async fn ask_together(store: Rc<Store>, seed: u64) -> Vec<[u64; 2]> {
    let mut random = Rng::with_seed(seed);
    let algorithm = one_of_the_contended();
    let mut admitted = Vec::new();
    for _ in 0..REQUESTS_OF_A_TASK {
        let pair = random.choose_multiple(0..PRINCIPALS, 2);
        let pair = [pair[0], pair[1]];
        let charges = pair.map(|principal| charge(principal, &algorithm, 1));
        let decided = store.apply(&charges, Clock::System.now()).await;
        assert!(decided.answers.iter().all(|answer| answer.source == Source::Store));
        if decided.answers.iter().all(|answer| answer.verdict.admitted) {
            admitted.push(pair);
        }
    }
    admitted
}

const CONTENDED_LIMIT: u64 = 100;
const REQUESTS_OF_A_TASK: usize = 40;

fn one_of_the_contended() -> Algorithm {
    let quota = Quota::new(CONTENDED_LIMIT, Span::DAY).expect(FITS);
    Algorithm::SlidingWindow(SlidingWindow::new(quota))
}

/// A binding charge on the counter of a principal's first policy.
pub(super) fn charge(principal: u64, algorithm: &Algorithm, cost: u64) -> Charge<'_> {
    charge_of(principal, 0, algorithm, cost)
}

/// A binding charge on the counter of one of a principal's policies.
pub(super) fn charge_of(
    principal: u64,
    policy: usize,
    algorithm: &Algorithm,
    cost: u64,
) -> Charge<'_> {
    let consistency = Consistency::default();
    Charge { key: key(principal, policy), algorithm, cost, binding: true, consistency }
}

#[test]
fn a_request_is_counted_by_all_counters_or_by_none_under_concurrency() {
    run(async {
        for kind in KINDS {
            let settings = kind.settings().expect("it is Redis");
            let stores = [Rc::new(open(&settings).await), Rc::new(open(&settings).await)];
            let ask = |seed: u64| {
                let store = &stores[usize::try_from(seed % 2).expect(FEW)];
                spawn_local(ask_together(Rc::clone(store), seed))
            };
            let tasks: Vec<JoinHandle<_>> = (0..40).map(ask).collect();
            let mut admitted = Vec::new();
            for task in tasks {
                admitted.extend(task.await.expect("no task fails"));
            }
            assert!(admitted.len() < 40 * REQUESTS_OF_A_TASK, "{kind:?}: nothing was refused");
            // Refunds are in progress until here.
            for store in &stores {
                store.close(Clock::System.now()).await;
            }
            let fresh = open(&settings).await;
            let algorithm = one_of_the_contended();
            for principal in 0..PRINCIPALS {
                let units = admitted.as_flattened().iter().filter(|it| **it == principal).count();
                let charge = charge(principal, &algorithm, 0);
                let decided = fresh.apply(&[charge], Clock::System.now()).await;
                let left = decided.answers[0].verdict.remaining;
                let counted = usize::try_from(CONTENDED_LIMIT - left).expect(FEW);
                assert_eq!(counted, units, "{kind:?}, principal {principal}");
            }
        }
    });
}
