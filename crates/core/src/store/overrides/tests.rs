//! The number of lookups, the time that requests wait, and the limits that apply meanwhile.

use std::collections::HashMap;

use tokio::time::sleep;
use tokio::time::timeout;

use futures_util::future::LocalBoxFuture;

use super::*;
use crate::digest::{Counter, Principal};
use crate::time::Span;

/// A backend whose answers a test sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Fake(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    kept: HashMap<Key, Override>,
    is_away: bool,
    answers_after: Duration,
    /// The number of keys in each call.
    calls: Vec<usize>,
}

impl ReadOverrides for Fake {
    fn fetch<'a>(&'a self, keys: &'a [Key], _settled: bool) -> LocalBoxFuture<'a, Vec<Stored>> {
        Box::pin(self.answer(keys))
    }
}

impl Fake {
    async fn answer(&self, keys: &[Key]) -> Vec<Stored> {
        self.0.borrow_mut().calls.push(keys.len());
        let pause = self.0.borrow().answers_after;
        sleep(pause).await;
        let state = self.0.borrow();
        keys.iter().map(|key| (!state.is_away).then(|| state.kept.get(key).copied())).collect()
    }

    fn keep(&self, key: Key, units: u64) {
        self.0.borrow_mut().kept.insert(key, limit(units));
    }

    fn calls(&self) -> usize {
        self.0.borrow().calls.len()
    }
}

const TIMEOUT: Duration = Duration::from_millis(20);

fn limit(units: u64) -> Override {
    Override::Limited { units, window: None }
}

fn key(bits: u128) -> Key {
    Key { principal: Principal::from_bits(bits), counter: Counter::from_bits(1) }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::default().plus(Span::from_millis(1_000_000 + ms))
}

fn overrides() -> (Overrides, Fake, Arc<Marks>) {
    let fake = Fake::default();
    let marks = Arc::new(Marks::default());
    (Overrides::new(Rc::new(fake.clone()), Arc::clone(&marks), TIMEOUT), fake, marks)
}

/// Runs a test in virtual time, so that waits take no real time.
fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build_local(Default::default());
    runtime.unwrap().block_on(test);
}

#[test]
fn a_known_key_costs_no_call_whether_it_has_a_limit_or_not() {
    run(async {
        let (overrides, fake, marks) = overrides();
        fake.keep(key(1), 500);
        for ms in (0..10_000).step_by(100) {
            marks.hear([], at(ms));
            let found = overrides.look_up(&[key(1), key(2)], at(ms), None).await;
            assert_eq!(found[..], [Some(limit(500)), None]);
        }
        assert_eq!(fake.calls(), 1);
        let known = Lookups { hit: 99, negative: 99, asked: 2, late: 0 };
        assert_eq!(overrides.lookups(), known);
        fake.0.borrow_mut().is_away = true;
        overrides.look_up(&[key(3)], at(10_000), None).await;
        assert_eq!(overrides.lookups(), Lookups { late: 1, ..known });
    });
}

#[test]
fn only_announced_changes_are_looked_up() {
    run(async {
        let (overrides, fake, marks) = overrides();
        overrides.look_up(&[key(1), key(2)], at(0), None).await;
        fake.keep(key(1), 500);
        fake.keep(key(2), 500);
        marks.hear([(1, 77)], at(500));
        let found = overrides.look_up(&[key(1), key(2)], at(600), None).await;
        assert_eq!(found[..], [Some(limit(500)), None], "the other part has the same mark");
        assert_eq!(fake.0.borrow().calls, [2, 1]);
    });
}

#[test]
fn requests_for_one_key_wait_for_one_lookup() {
    run(async {
        let (overrides, fake, _) = overrides();
        fake.keep(key(1), 500);
        fake.0.borrow_mut().answers_after = Duration::from_millis(5);
        let asking = (0..1000).map(|_| async {
            assert_eq!(overrides.look_up(&[key(1)], at(0), None).await[..], [Some(limit(500))]);
        });
        futures_util::future::join_all(asking).await;
        assert_eq!(fake.calls(), 1);
    });
}

#[test]
fn keys_that_come_during_a_lookup_are_looked_up_in_bounded_batches() {
    run(async {
        let (overrides, fake, _) = overrides();
        fake.0.borrow_mut().answers_after = Duration::from_millis(1);
        let keys: Vec<_> = (0..1000).map(key).collect();
        let asking = keys.chunks(1).map(|keys| overrides.look_up(keys, at(0), None));
        futures_util::future::join_all(asking).await;
        let calls = &fake.0.borrow().calls;
        assert_eq!(calls.iter().sum::<usize>(), 1000);
        assert!(calls.iter().all(|keys| *keys <= MAX_BATCH), "{calls:?}");
        assert!(calls.len() <= 5, "{calls:?}");
    });
}

#[test]
fn no_request_waits_longer_than_the_timeout_and_the_last_known_limit_holds() {
    run(async {
        let (overrides, fake, marks) = overrides();
        fake.keep(key(1), 500);
        overrides.look_up(&[key(1)], at(0), None).await;
        fake.keep(key(1), 900);
        marks.hear([(1, 77)], at(1000));
        fake.0.borrow_mut().answers_after = Duration::from_secs(3600);
        let asked = tokio::time::Instant::from_std(crate::time::monotonic());
        let began = asked.elapsed();
        let found = overrides.look_up(&[key(1), key(2)], at(1000), None).await;
        assert_eq!(found[..], [Some(limit(500)), None]);
        assert!(asked.elapsed() - began <= TIMEOUT + Duration::from_millis(1));
    });
}

#[test]
fn while_the_backend_is_away_the_last_known_limit_holds_and_then_the_new_one() {
    run(async {
        let (overrides, fake, _) = overrides();
        fake.keep(key(1), 500);
        overrides.look_up(&[key(1)], at(0), None).await;
        fake.0.borrow_mut().is_away = true;
        fake.keep(key(1), 900);
        for ms in [2000, 100_000] {
            let found = overrides.look_up(&[key(1), key(2)], at(ms), None).await;
            assert_eq!(found[..], [Some(limit(500)), None], "after {ms} ms");
        }
        fake.0.borrow_mut().is_away = false;
        assert_eq!(overrides.look_up(&[key(1)], at(100_001), None).await[..], [Some(limit(900))]);
    });
}

#[test]
fn lookups_and_stored_keys_are_bounded_in_a_flood_of_new_keys() {
    run(async {
        let (overrides, fake, _) = overrides();
        fake.0.borrow_mut().answers_after = Duration::from_secs(3600);
        for first in 0..200 {
            let keys: Vec<_> = (0..100).map(|n| key(first * 100 + n)).collect();
            overrides.look_up(&keys, at(0), None).await;
        }
        assert_eq!(overrides.0.pending.borrow().keys.len(), MAX_WANTED);
        assert!(overrides.0.pending.borrow().waiting.len() <= MAX_WANTED);
        let (overrides, ..) = self::overrides();
        for first in 0..120 {
            let keys: Vec<_> = (0..1000).map(|n| key(first * 1000 + n)).collect();
            overrides.look_up(&keys, at(0), None).await;
        }
        assert!(overrides.0.cache.borrow().len() <= MAX_KNOWN);
    });
}

#[test]
fn a_client_that_disconnects_takes_no_answer_from_others() {
    run(async {
        let (overrides, fake, _) = overrides();
        fake.keep(key(1), 500);
        fake.0.borrow_mut().answers_after = Duration::from_millis(10);
        let keys = [key(1)];
        let gone = timeout(Duration::from_millis(1), overrides.look_up(&keys, at(0), None)).await;
        assert!(gone.is_err());
        assert_eq!(overrides.look_up(&keys, at(1), None).await[..], [Some(limit(500))]);
        assert_eq!(fake.calls(), 1);
    });
}
