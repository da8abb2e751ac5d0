//! The most that each key has used in any 1 s, 10 s, 1 m, 1 h and 1 d.
//!
//! A window moves in steps of a quarter of its length. So a peak may miss at most what falls
//! into the quarters at both ends, and is never too high.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;

use tollgate_limiter::time::{Span, Timestamp};

/// The lengths of the windows.
pub(super) const WINDOWS: [Span; 5] =
    [Span::SECOND, Span::from_secs(10), Span::from_secs(60), Span::from_secs(3600), Span::DAY];
const QUARTERS: usize = 4;
/// The most keys of all policies together. Beyond it, a sample by their digests is kept.
const MAX_KEYS: usize = 1_000_000;

/// Hashes a policy and a digest, all bits of which are as good as random.
#[derive(Clone, Copy, Debug, Default)]
struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, policy: u32) {
        self.write_u64(u64::from(policy));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What each key has used.
#[derive(Debug, Default)]
pub(super) struct Peaks {
    index: HashMap<(u32, u64), u32, BuildHasherDefault<DigestHasher>>,
    keys: Vec<Peak>,
    halvings: u32,
}

/// What one key has used.
#[derive(Clone, Debug)]
pub(super) struct Peak {
    /// The policy.
    pub(super) policy: u32,
    digest: u64,
    /// The client of the latest request with this key.
    pub(super) client: IpAddr,
    windows: [Window; WINDOWS.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// The number of the quarter that counts last, since the epoch.
    quarter: u64,
    counts: [u32; QUARTERS],
    most: u32,
}

impl Window {
    fn add(&mut self, quarter: u64, units: u32) {
        let passed = quarter.saturating_sub(self.quarter);
        let passed = usize::try_from(passed).unwrap_or(QUARTERS).min(QUARTERS);
        self.counts.copy_within(passed.., 0);
        self.counts[QUARTERS - passed..].fill(0);
        self.quarter = self.quarter.max(quarter);
        self.counts[QUARTERS - 1] = self.counts[QUARTERS - 1].saturating_add(units);
        let sum = self.counts.iter().fold(0_u32, |sum, count| sum.saturating_add(*count));
        self.most = self.most.max(sum);
    }
}

impl Peak {
    /// The most in any of the [`WINDOWS`] with this index.
    pub(super) const fn most(&self, window: usize) -> u32 {
        self.windows[window].most
    }
}

impl Peaks {
    /// Counts units that a key has used.
    pub(super) fn add(
        &mut self,
        policy: usize,
        digest: u64,
        units: u64,
        client: IpAddr,
        now: Timestamp,
    ) {
        let policy = u32::try_from(policy).unwrap_or(u32::MAX);
        self.add_up_to(MAX_KEYS, (policy, digest), units, client, now);
    }

    fn add_up_to(
        &mut self,
        most: usize,
        (policy, digest): (u32, u64),
        units: u64,
        client: IpAddr,
        now: Timestamp,
    ) {
        if digest.trailing_zeros() < self.halvings {
            return;
        }
        let place = match self.index.get(&(policy, digest)) {
            Some(&place) => place,
            None => {
                if self.keys.len() >= most {
                    self.halve();
                    return self.add_up_to(most, (policy, digest), units, client, now);
                }
                let place = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
                self.index.insert((policy, digest), place);
                let windows = Default::default();
                self.keys.push(Peak { policy, digest, client, windows });
                place
            }
        };
        let Some(peak) = usize::try_from(place).ok().and_then(|at| self.keys.get_mut(at)) else {
            return;
        };
        peak.client = client;
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        for (window, length) in peak.windows.iter_mut().zip(WINDOWS) {
            window.add(now.as_micros() / (length.as_micros() / 4), units);
        }
    }

    /// Forgets half of the keys.
    fn halve(&mut self) {
        self.halvings += 1;
        let halvings = self.halvings;
        self.keys.retain(|peak| peak.digest.trailing_zeros() >= halvings);
        let places = self.keys.iter().map(|peak| (peak.policy, peak.digest));
        self.index = places.zip(0..).collect();
    }

    /// What a key has used, if it was measured.
    pub(super) fn get(&self, policy: usize, digest: u64) -> Option<&Peak> {
        let place = *self.index.get(&(u32::try_from(policy).ok()?, digest))?;
        self.keys.get(usize::try_from(place).ok()?)
    }

    /// All keys of a policy.
    pub(super) fn of(&self, policy: usize) -> impl Iterator<Item = &Peak> {
        self.keys.iter().filter(move |peak| usize::try_from(peak.policy) == Ok(policy))
    }

    /// One of how many keys was measured: 1 if all were.
    pub(super) const fn sampled_one_of(&self) -> u64 {
        1 << self.halvings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_peak_is_the_most_in_a_window_wherever_it_begins() {
        let mut peaks = Peaks::default();
        // Ten in each second from 57 to 63, across the edge of a minute, and five 20 hours later.
        for ms in (57_000..64_000).step_by(100) {
            peaks.add(3, 8, 1, CLIENT, Timestamp::from_micros(ms * 1000));
        }
        peaks.add(3, 8, 5, CLIENT, Timestamp::from_micros(72_000_000_000));
        let peak = peaks.of(3).next().expect("a key");
        let most: Vec<u32> = (0..WINDOWS.len()).map(|window| peak.most(window)).collect();
        assert_eq!(most, [10, 70, 70, 70, 75]);
        assert_eq!((peaks.of(2).count(), peaks.sampled_one_of()), (0, 1));
    }

    #[test]
    fn memory_is_bounded_by_a_sample_of_keys() {
        let mut peaks = Peaks::default();
        for number in 0..4000_u64 {
            let key = (1, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            peaks.add_up_to(1000, key, 1, CLIENT, Timestamp::from_micros(number));
            assert!(peaks.keys.len() <= 1000 && peaks.index.len() == peaks.keys.len());
        }
        assert!((4..=8).contains(&peaks.sampled_one_of()), "{}", peaks.sampled_one_of());
        assert!(peaks.of(1).count() > 400);
    }
}
