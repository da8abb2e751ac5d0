//! Lookups of one worker over a storage that fails when a test says so.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, join_all};
use tokio::time::sleep;

use super::*;
use crate::api_keys::KeyDigest;
use crate::store::keys::{OnFailure, SharedKeys};
use crate::testing::after;

const STALE: Span = Span::from_secs(600);

/// A storage in memory.
#[derive(Debug, Default)]
struct Fake {
    keys: RefCell<Vec<KeyRecord>>,
    teams: RefCell<Vec<TeamRecord>>,
    is_away: Cell<bool>,
    is_silent: Cell<bool>,
    /// The keys of each call.
    asked: RefCell<Vec<Vec<Sought>>>,
    uses: RefCell<Vec<KeyId>>,
}

impl ReadKeys for Fake {
    fn keys<'a>(&'a self, sought: &'a [Sought]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        async move {
            self.asked.borrow_mut().push(sought.to_vec());
            if self.is_silent.get() {
                sleep(Duration::from_secs(3600)).await;
            }
            let read = |sought: &Sought| {
                let keys = self.keys.borrow();
                let found = keys.iter().find(|key| *sought == Sought::Id(key.id));
                match (self.is_away.get(), found) {
                    (true, _) => ReadRecord::Away,
                    (false, None) => ReadRecord::Absent,
                    (false, Some(key)) => versioned(&key.to_stored().unwrap()),
                }
            };
            sought.iter().map(read).collect()
        }
        .boxed_local()
    }

    fn teams<'a>(&'a self, names: &'a [Arc<str>]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        let read = |name: &Arc<str>| {
            let teams = self.teams.borrow();
            let found = teams.iter().find(|team| team.name == *name);
            found.map_or(ReadRecord::Absent, |team| versioned(&team.to_stored().unwrap()))
        };
        let records = names.iter().map(read).collect();
        std::future::ready(records).boxed_local()
    }

    fn store_uses<'a>(&'a self, uses: &'a [(KeyId, Timestamp)]) -> LocalBoxFuture<'a, ()> {
        self.uses.borrow_mut().extend(uses.iter().map(|(id, _)| *id));
        std::future::ready(()).boxed_local()
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn listen(self: Rc<Self>, _: Arc<KeysCondition>, _: Clock) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }
}

fn versioned(record: &[u8]) -> ReadRecord {
    ReadRecord::Record([&b"0123456789abcdef"[..], record].concat())
}

fn id(number: u64) -> KeyId {
    KeyId::from_bits(number)
}

fn sought(number: u64) -> Sought {
    Sought::Id(id(number))
}

fn record(number: u64) -> KeyRecord {
    KeyRecord::new(id(number), KeyDigest::from_bytes([7; 32]))
}

struct Scene {
    fake: Rc<Fake>,
    shared: SharedKeys,
    keys: StoredKeys,
}

impl Scene {
    fn new(on_failure: OnFailure) -> Self {
        let fake = Rc::new(Fake::default());
        let shared = SharedKeys::in_store(on_failure);
        let keys = StoredKeys::new(&shared.node, Rc::clone(&fake) as Rc<dyn ReadKeys>);
        Self { fake, shared, keys }
    }

    async fn find(&self, sought: Sought, ms: u64) -> Found {
        match self.keys.find(sought, after(ms)) {
            KeyLookup::Now(found) => found,
            KeyLookup::Later(found) => found.await,
        }
    }

    fn calls(&self) -> usize {
        self.fake.asked.borrow().len()
    }
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build_local(Default::default());
    runtime.expect("a runtime").block_on(test);
}

#[test]
fn a_key_is_looked_up_once_for_all_requests_that_wait_for_it() {
    run(async {
        let scene = Scene::new(OnFailure::Local(STALE));
        let team = TeamRecord { plan: Some("pro".into()), ..TeamRecord::new("acme") };
        scene.fake.teams.borrow_mut().push(team.clone());
        let key = KeyRecord { team: Some("acme".into()), ..record(1) };
        scene.fake.keys.borrow_mut().push(key.clone());
        let found = join_all((0..50).map(|_| scene.find(sought(1), 0))).await;
        let entry = KeyEntryOf { key, team: Some(team) };
        assert!(found.iter().all(|found| entry.is(found)));
        assert_eq!(scene.calls(), 1);
        assert!(scene.keys.knows(sought(1), after(10)));
        assert!(matches!(scene.find(sought(1), 10).await, Found::Known(_)));
        assert_eq!(scene.find(sought(2), 10).await, Found::Unknown);
        assert_eq!(scene.find(sought(2), 11).await, Found::Unknown);
        assert_eq!(scene.calls(), 2);
        let counts = KeyLookups { hit: 1, unknown: 1, asked: 51, ..KeyLookups::default() };
        assert_eq!(scene.keys.lookups(), counts);
    });
}

struct KeyEntryOf {
    key: KeyRecord,
    team: Option<TeamRecord>,
}

impl KeyEntryOf {
    fn is(&self, found: &Found) -> bool {
        let Found::Known(entry) = found else { return false };
        entry.key == self.key && entry.team.as_deref() == self.team.as_ref()
    }
}

#[test]
fn while_the_storage_is_away_known_keys_pass_for_a_time_and_others_are_not_unknown() {
    for is_silent in [false, true] {
        run(async {
            let scene = Scene::new(OnFailure::Local(STALE));
            scene.fake.keys.borrow_mut().push(record(1));
            assert!(matches!(scene.find(sought(1), 0).await, Found::Known(_)));
            scene.fake.is_away.set(!is_silent);
            scene.fake.is_silent.set(is_silent);
            assert!(matches!(scene.find(sought(1), 599_999).await, Found::Known(_)));
            assert_eq!(scene.find(sought(1), 600_000).await, Found::Away);
            assert_eq!(scene.find(sought(2), 10).await, Found::Away);
            scene.shared.set_on_failure(OnFailure::Deny);
            assert_eq!(scene.find(sought(1), 10_000).await, Found::Away);
            let KeyLookups { stale, away, .. } = scene.keys.lookups();
            assert_eq!((stale, away), (1, 3));
        });
    }
}

#[test]
fn a_record_that_cannot_be_read_is_not_an_unknown_key() {
    run(async {
        let scene = Scene::new(OnFailure::Deny);
        let broken = ReadRecord::Record(b"0123456789abcdef{".to_vec());
        assert!(broken.record().is_some_and(|it| KeyRecord::from_stored(it).is_err()));
        scene.fake.is_away.set(true);
        assert_eq!(scene.find(sought(1), 0).await, Found::Away);
        scene.fake.is_away.set(false);
        assert_eq!(scene.find(sought(1), 1).await, Found::Unknown);
    });
}

#[test]
fn pending_lookups_have_a_bound() {
    run(async {
        let scene = Scene::new(OnFailure::Deny);
        scene.fake.is_silent.set(true);
        let found = join_all((0..6000).map(|number| scene.find(sought(number), 0))).await;
        assert!(found.iter().all(|found| *found == Found::Away));
        assert_eq!(scene.keys.0.pending.borrow().keys.len(), MAX_WANTED);
        assert!(scene.fake.asked.borrow().iter().all(|asked| asked.len() <= MAX_BATCH));
    });
}

#[test]
fn a_use_is_stored_once_in_ten_minutes_for_all_workers_of_a_node() {
    run(async {
        let scene = Scene::new(OnFailure::Deny);
        scene.fake.keys.borrow_mut().push(record(1));
        let other = StoredKeys::new(&scene.shared.node, Rc::clone(&scene.fake) as Rc<dyn ReadKeys>);
        assert!(matches!(scene.find(sought(1), 0).await, Found::Known(_)));
        let KeyLookup::Later(found) = other.find(sought(1), after(0)) else {
            panic!("it has a cache of its own");
        };
        found.await;
        for worker in [&scene.keys, &other, &scene.keys] {
            worker.used(sought(1), id(1), after(5));
        }
        scene.keys.used(sought(2), id(2), after(5));
        sleep(USES_INTERVAL * 2).await;
        assert_eq!(*scene.fake.uses.borrow(), [id(1)]);
        other.used(sought(1), id(1), after(600_005));
        sleep(USES_INTERVAL * 2).await;
        assert_eq!(*scene.fake.uses.borrow(), [id(1), id(1)]);
    });
}

#[test]
fn a_worker_trusts_what_another_one_has_read_last() {
    run(async {
        let scene = Scene::new(OnFailure::Local(STALE));
        let other = StoredKeys::new(&scene.shared.node, Rc::clone(&scene.fake) as Rc<dyn ReadKeys>);
        let find = async |ms| match other.find(sought(1), after(ms)) {
            KeyLookup::Now(found) => found,
            KeyLookup::Later(found) => found.await,
        };
        scene.fake.keys.borrow_mut().push(record(1));
        assert!(matches!(scene.find(sought(1), 0).await, Found::Known(_)));
        scene.fake.is_away.set(true);
        assert!(matches!(find(10_000).await, Found::Known(_)), "it has never read it");
        scene.fake.is_away.set(false);
        scene.fake.keys.borrow_mut()[0].disabled = true;
        assert!(matches!(find(20_000).await, Found::Known(_)));
        scene.fake.is_away.set(true);
        assert!(
            scene.keys.knows(sought(1), after(30_000)) && !scene.keys.knows(sought(2), after(0))
        );
        let Found::Known(entry) = scene.find(sought(1), 30_000).await else {
            panic!("it is trusted");
        };
        assert!(entry.key.disabled, "the other worker has read it later");
    });
}
