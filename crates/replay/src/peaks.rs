//! The most that each key has used in any 1 s, 10 s, 1 m, 1 h and 1 d.
//!
//! A window moves in steps of a quarter of its length. So a peak may miss at most what falls
//! into the quarters at both ends, and is never too high.
//!
//! A key takes 64 bytes. Its quarters take 80 more, from the moment when it comes back after
//! more than the shortest quarter until it has been away for longer than a day.

use std::net::IpAddr;

use tollgate_core::time::{Span, Timestamp};

use super::key_table::{KeyTable, PolicyKey};

/// The lengths of the windows.
pub(super) const WINDOWS: [Span; 5] =
    [Span::SECOND, Span::from_secs(10), Span::from_secs(60), Span::from_secs(3600), Span::DAY];
const QUARTERS: usize = 4;
/// A quarter of the shortest window. All quarters are multiples of it.
const TICK_US: u64 = 250_000;
/// The quarters of the windows, in ticks.
const QUARTER: [u64; WINDOWS.len()] = {
    let mut ticks = [0; WINDOWS.len()];
    let mut window = 0;
    while window < WINDOWS.len() {
        ticks[window] = WINDOWS[window].as_micros() / 4 / TICK_US;
        window += 1;
    }
    ticks
};
/// The most keys of all policies together. Beyond it, a sample by their digests is kept.
const MAX_KEYS: usize = 1_000_000;
/// How many quarters are kept before those of keys that are away are looked for.
const FIRST_SEARCH: usize = 4096;

/// What each key has used.
#[derive(Debug)]
pub(super) struct Peaks {
    keys: KeyTable<Peak>,
    /// The quarters of keys that came back.
    recent: Vec<Recent>,
    free: Vec<u32>,
    /// Search when so many are kept.
    search_at: usize,
    /// Since the epoch.
    first_tick: Option<u64>,
    halvings: u32,
}

impl Default for Peaks {
    fn default() -> Self {
        Self {
            keys: KeyTable::default(),
            recent: Vec::new(),
            free: Vec::new(),
            search_at: FIRST_SEARCH,
            first_tick: None,
            halvings: 0,
        }
    }
}

/// What one key has used.
#[derive(Clone, Debug)]
pub(super) struct Peak {
    /// The client of the latest request with this key.
    pub(super) client: IpAddr,
    /// When that was, in ticks since the first request.
    last: u32,
    quarters: Quarters,
    most: [u32; WINDOWS.len()],
}

/// What a key has used in the last four quarters of each window.
type Recent = [[u32; QUARTERS]; WINDOWS.len()];

/// Where the quarters of a key are. It takes 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quarters(u32);

impl Quarters {
    /// All units of the key are in its last tick.
    const ONE_TICK: Self = Self(u32::MAX);
    /// The key was away for so long that no quarter counts any more.
    const NONE: Self = Self(u32::MAX - 1);

    const fn has_place(self) -> bool {
        self.0 < Self::NONE.0
    }
}

impl Peak {
    /// The most in any of the [`WINDOWS`] with this index.
    pub(super) const fn most(&self, window: usize) -> u32 {
        self.most[window]
    }
}

impl Peaks {
    /// Counts units that a key has used. Times do not go back.
    pub(super) fn add(
        &mut self,
        policy: usize,
        digest: u64,
        units: u64,
        client: IpAddr,
        now: Timestamp,
    ) {
        let policy = u16::try_from(policy).unwrap_or(u16::MAX);
        self.add_up_to(MAX_KEYS, (policy, digest), units, client, now);
    }

    fn add_up_to(
        &mut self,
        most: usize,
        key: PolicyKey,
        units: u64,
        client: IpAddr,
        now: Timestamp,
    ) {
        if !self.is_measured(key.1) {
            return;
        }
        let now = now.as_micros() / TICK_US;
        let first = *self.first_tick.get_or_insert(now);
        let now = u32::try_from(now.saturating_sub(first)).unwrap_or(u32::MAX);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        if let Some(peak) = self.keys.get_mut(key) {
            peak.client = client;
            if peak.quarters == Quarters::ONE_TICK && peak.last == now {
                peak.most = [peak.most[0].saturating_add(units); WINDOWS.len()];
            } else {
                self.add_recent(key, units, now, first);
            }
            return;
        }
        while self.keys.len() >= most {
            self.halve();
        }
        if self.is_measured(key.1) {
            let quarters = Quarters::ONE_TICK;
            let most = [units; WINDOWS.len()];
            self.keys.insert(key, Peak { client, last: now, quarters, most });
        }
    }

    /// Counts units of a key that came back in a later tick.
    fn add_recent(&mut self, key: PolicyKey, units: u32, now: u32, first: u64) {
        let has_place = self.keys.get(key).is_some_and(|peak| peak.quarters.has_place());
        let place = (!has_place).then(|| self.place(now, first));
        let Some(peak) = self.keys.get_mut(key) else { return };
        if let Some(place) = place {
            let last = if peak.quarters == Quarters::ONE_TICK { peak.most[0] } else { 0 };
            self.recent[usize::try_from(place).unwrap_or(0)] = [[0, 0, 0, last]; WINDOWS.len()];
            peak.quarters = Quarters(place);
        }
        let place = usize::try_from(peak.quarters.0).unwrap_or(usize::MAX);
        let Some(recent) = self.recent.get_mut(place) else { return };
        let last = std::mem::replace(&mut peak.last, now).min(now);
        let tick = |ticks: u32| first.saturating_add(u64::from(ticks));
        for (window, counts) in recent.iter_mut().enumerate() {
            let passed = tick(now) / QUARTER[window] - tick(last) / QUARTER[window];
            if passed > 0 {
                let passed = usize::try_from(passed).unwrap_or(QUARTERS).min(QUARTERS);
                counts.copy_within(passed.., 0);
                counts[QUARTERS - passed..].fill(0);
            }
            counts[QUARTERS - 1] = counts[QUARTERS - 1].saturating_add(units);
            let sum = counts.iter().fold(0_u32, |sum, count| sum.saturating_add(*count));
            peak.most[window] = peak.most[window].max(sum);
        }
    }

    /// A place for quarters: that of a key that is away, or a new one.
    fn place(&mut self, now: u32, first: u64) -> u32 {
        if self.free.is_empty() && self.recent.len() >= self.search_at {
            let day = |ticks: u32| (first + u64::from(ticks)) / QUARTER[WINDOWS.len() - 1];
            for peak in self.keys.values_mut() {
                if peak.quarters.has_place()
                    && day(now) - day(peak.last.min(now)) >= QUARTERS as u64
                {
                    self.free.push(peak.quarters.0);
                    peak.quarters = Quarters::NONE;
                }
            }
            let kept = self.recent.len() - self.free.len();
            self.search_at = (2 * kept).max(FIRST_SEARCH);
        }
        self.free.pop().unwrap_or_else(|| {
            self.recent.push(Recent::default());
            u32::try_from(self.recent.len() - 1).unwrap_or(Quarters::NONE.0)
        })
    }

    /// Forgets half of the keys.
    fn halve(&mut self) {
        self.halvings += 1;
        let halvings = self.halvings;
        let free = &mut self.free;
        for (key, peak) in self.keys.iter() {
            if key.1.trailing_zeros() < halvings && peak.quarters.has_place() {
                free.push(peak.quarters.0);
            }
        }
        self.keys.retain(|(_, digest)| digest.trailing_zeros() >= halvings);
    }

    /// Whether a key is in the sample, or no sample is needed.
    fn is_measured(&self, digest: u64) -> bool {
        digest.trailing_zeros() >= self.halvings
    }

    /// All keys of a policy.
    pub(super) fn of(&self, policy: usize) -> impl Iterator<Item = &Peak> {
        let keys = self.keys.iter();
        keys.filter(move |(key, _)| usize::from(key.0) == policy).map(|(_, peak)| peak)
    }

    /// All keys.
    pub(super) fn all(&self) -> impl Iterator<Item = (PolicyKey, &Peak)> {
        self.keys.iter()
    }

    /// One of how many keys was measured: 1 if all were.
    pub(super) const fn sampled_one_of(&self) -> u64 {
        1 << self.halvings
    }

    /// How many slots of the table were read.
    #[cfg(test)]
    pub(super) fn probes(&self) -> u64 {
        self.keys.probes.get()
    }
}

#[cfg(test)]
mod tests;
