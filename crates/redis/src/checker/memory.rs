//! What the memory store forgets when it is full, with the same exact count.

use fastrand::Rng;
use tollgate_core::algorithm::{Algorithm, Quota, SlidingWindow};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::{Span, Timestamp};

use super::world::START_US;

/// Clients that are over their limit when the flood comes.
const KNOWN: u64 = 100;
const LIMIT: u64 = 100;
/// Keys for which there is room, and keys that come.
const ROOM: usize = 2000;
const FLOOD: u64 = 20_000;

/// A flood of clients under a limit per day, while others are over their limit
/// per minute. How many of these are admitted all the same, and how often one
/// client is admitted within the minute that does not stop asking.
pub(super) fn flood(seed: u64) -> (u64, u64) {
    let mut random = Rng::with_seed(seed);
    let sliding = |limit, window| {
        let quota = Quota::new(limit, window).expect("a quota");
        Algorithm::SlidingWindow(SlidingWindow::new(quota))
    };
    let minute = sliding(LIMIT, Span::from_secs(60));
    let day = sliding(20_000, Span::DAY);
    let store = MemoryStore::new(ROOM);
    let start = Timestamp::from_micros(START_US + 5_000_000);
    let principal =
        |client: u64| Principal::from_bits(Rng::with_seed(seed ^ (client << 20)).u128(..));
    let charge = |client, counter: u64, algorithm, cost| {
        let key = Key { principal: principal(client), counter: Counter::from_bits(counter) };
        Charge { key, algorithm, cost, binding: true, consistency: Consistency::default() }
    };
    let asks = |client: u64, now| {
        let charges = [charge(client, 1, &minute, 1), charge(client, 2, &day, 1)];
        store.apply(&charges, now).iter().all(|verdict| verdict.admitted)
    };
    for client in 1..=KNOWN {
        store.apply(&[charge(client, 1, &minute, LIMIT)], start);
    }
    let mut greedy = 0;
    for new in 0..FLOOD {
        let now = start.plus(Span::from_millis(new * 2));
        asks(1_000_000 + new, now);
        if random.u32(0..10) == 0 {
            greedy += u64::from(asks(999_999, now));
        }
    }
    let later = start.plus(Span::from_millis(FLOOD * 2));
    let reset = (1..=KNOWN)
        .filter(|&client| store.apply(&[charge(client, 1, &minute, LIMIT)], later)[0].admitted);
    (u64::try_from(reset.count()).expect("a few clients"), greedy)
}
