//! The number of live keys, counted in steps.

use proptest::prelude::*;

use super::*;
use crate::store::memory::key_count::GROUPS_PER_STEP;

const SECOND_US: u64 = 1_000_000;

fn take(store: &MemoryStore, number: u64, window_s: u64, now: Timestamp) {
    let quota = Quota::new(10, Span::from_secs(window_s)).unwrap();
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(quota));
    let consistency = Consistency::default();
    let key = key(number);
    store.apply(&[Charge { key, algorithm: &algorithm, cost: 1, binding: true, consistency }], now);
}

/// Before, counting a store with room for a million keys read all of its slots at once.
#[test]
fn a_step_reads_a_bounded_part_of_a_store_of_any_size() {
    let most = (GROUPS_PER_STEP + 255) * WAYS;
    for max_keys in [1, 1000, 50_000, 1_000_000, 20_000_000] {
        let store = MemoryStore::with_shards(max_keys, MIN_SHARDS);
        let slots = MIN_SHARDS * store.groups * WAYS;
        let mut count = KeyCount::default();
        let mut read = 0;
        let mut steps = 0_usize;
        while read < slots {
            let step = store.count_keys(&mut count, at(0));
            assert!(step <= most.min(slots), "{step} of {slots}");
            read += step;
            steps += 1;
        }
        assert_eq!(store.counted_keys(&count), 0);
        assert!(steps <= max_keys.div_ceil(57_000) + 1, "{steps} steps for {max_keys} keys");
    }
}

proptest! {
    #[test]
    fn after_a_round_the_number_is_that_of_all_slots(
        takes in prop::collection::vec((0..5000_u64, 1..100_u64, 0..3 * SECOND_US), 0..400),
        max_keys in prop_oneof![Just(100_usize), Just(300_000)],
        idle_s in 0..120_u64,
    ) {
        let store = MemoryStore::with_shards(max_keys, MIN_SHARDS);
        let mut count = KeyCount::default();
        let mut now = at(1_795_246_126_000_000);
        for (number, window_s, gap_us) in takes {
            take(&store, number, window_s, now);
            now = now.plus(Span::from_micros(gap_us));
            store.count_keys(&mut count, now);
        }
        now = now.plus(Span::from_secs(idle_s));
        let slots = MIN_SHARDS * store.groups * WAYS;
        let mut read = 0;
        while read < slots {
            read += store.count_keys(&mut count, now);
        }
        prop_assert_eq!(store.counted_keys(&count), store.live_keys(now));
    }
}
