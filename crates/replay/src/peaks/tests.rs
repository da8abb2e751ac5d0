//! Peaks agree with a plain count, and keys take the memory that is documented.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn at_ms(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1000)
}

fn most(peaks: &Peaks, policy: usize) -> [u32; WINDOWS.len()] {
    peaks.of(policy).next().expect("a key").most
}

#[test]
fn a_peak_is_the_most_in_a_window_wherever_it_begins() {
    let mut peaks = Peaks::default();
    // Ten in each second from 57 to 63, across the edge of a minute, and five 20 hours later.
    for ms in (57_000..64_000).step_by(100) {
        peaks.add(3, 8, 1, CLIENT, at_ms(ms));
    }
    peaks.add(3, 8, 5, CLIENT, at_ms(72_000_000));
    assert_eq!(most(&peaks, 3), [10, 70, 70, 70, 75]);
    assert_eq!((peaks.of(2).count(), peaks.sampled_one_of()), (0, 1));
}

/// What lies in the four quarters that end with that of the last request, by all requests.
fn plain(requests: &[(u64, u64)]) -> [u32; WINDOWS.len()] {
    let mut most = [0; WINDOWS.len()];
    for (most, window) in most.iter_mut().zip(WINDOWS) {
        let quarter = |ms: u64| ms * 1000 / (window.as_micros() / 4);
        for (index, (now, _)) in requests.iter().enumerate() {
            let counts = |(ms, _): &&(u64, u64)| quarter(*ms) + 4 > quarter(*now);
            let sum: u64 = requests[..=index].iter().filter(counts).map(|(_, units)| units).sum();
            *most = u32::try_from(sum).expect("few").max(*most);
        }
    }
    most
}

proptest! {
    #[test]
    fn peaks_agree_with_a_plain_count(
        requests in prop::collection::vec(
            (
                prop_oneof![
                    4 => 0..400_u64, 3 => 0..20_000_u64, 2 => 0..3_000_000_u64,
                    1 => 0..200_000_000_u64,
                ],
                0..4_u64,
                1..4_u64,
            ),
            1..60,
        ),
        start_ms in 0..100_000_000_u64,
        search_at in prop_oneof![Just(0_usize), Just(FIRST_SEARCH)],
    ) {
        let mut peaks = Peaks::default();
        let mut plainly = HashMap::<u64, Vec<_>>::new();
        let mut ms = start_ms;
        for (gap_ms, key, units) in requests {
            // Places are looked for with each key that comes back.
            peaks.search_at = search_at;
            ms += gap_ms;
            peaks.add(1, key << 3, units, CLIENT, at_ms(ms));
            plainly.entry(key).or_default().push((ms, units));
        }
        for (key, peak) in peaks.all() {
            prop_assert_eq!(peak.most, plain(&plainly[&(key.1 >> 3)]));
        }
        prop_assert_eq!(peaks.of(1).count(), plainly.len());
        prop_assert!(peaks.recent.len() <= plainly.len());
    }
}

#[test]
fn memory_is_bounded_by_a_sample_of_keys() {
    let mut peaks = Peaks::default();
    for number in 0..8000_u64 {
        // Each key comes twice, so that it has quarters.
        let key = (1, (number / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        peaks.add_up_to(1000, key, 1, CLIENT, at_ms(number * 300));
        assert!(peaks.keys.len() <= 1000 && peaks.recent.len() <= 1001);
    }
    assert!((4..=8).contains(&peaks.sampled_one_of()), "{}", peaks.sampled_one_of());
    assert!(peaks.of(1).count() > 400);
}

/// The quarters of keys that are away serve others.
#[test]
fn keys_that_are_away_have_no_quarters() {
    let mut peaks = Peaks::default();
    for day in 0..20_u64 {
        for visit in 0..2 {
            for key in 0..3000 {
                let ms = (day * 86_400 + visit * 60) * 1000;
                peaks.add(0, (day * 3000 + key) << 20, 1, CLIENT, at_ms(ms));
            }
        }
    }
    assert_eq!(peaks.of(0).count(), 60_000);
    assert!(peaks.recent.len() <= 4 * 3000, "{}", peaks.recent.len());
}

/// 72 bytes with the index, and 80 more for a key that has come back.
#[test]
fn a_key_takes_the_bytes_that_are_documented() {
    let mut peaks = Peaks::default();
    let keys = 1_u64 << 16;
    for (visit_ms, bytes) in [(0, 72), (1000, 152)] {
        for key in 0..keys {
            peaks.add(0, key << 7, 1, CLIENT, at_ms(visit_ms));
        }
        let all = peaks.keys.bytes() + peaks.recent.capacity() * size_of::<Recent>();
        assert!(all <= bytes << 16, "{all} bytes for 2^16 keys");
    }
    assert_eq!(size_of::<Recent>(), 80);
}
