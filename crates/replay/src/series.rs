//! Counts over time, in a bounded number of steps that begin at round times.

use serde::Serialize;

/// The most steps. When time goes on, several steps become one.
const MAX_STEPS: usize = 960;
/// The lengths of steps in seconds. Each one is a multiple of the one before; beyond the last
/// one, they double.
const LENGTHS: [u64; 13] = [1, 2, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400];
/// The lengths of steps that are shown.
const SHOWN_LENGTHS: [u64; 19] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200,
];
const DAY_S: u64 = 86_400;

/// How many requests were judged and refused in each step of time.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Series {
    /// When the first step begins, in seconds since the epoch.
    pub(super) start_s: u64,
    /// The length of a step in seconds.
    pub(super) step_s: u64,
    /// Requests that were judged.
    pub(super) judged: Vec<u64>,
    /// Requests that were refused.
    pub(super) refused: Vec<u64>,
}

impl Series {
    /// Counts one request. Times do not go back.
    pub(super) fn add(&mut self, now_s: u64, is_refused: bool) {
        if self.judged.is_empty() {
            (self.start_s, self.step_s) = (now_s, 1);
        }
        let mut index = self.index(now_s);
        while index >= MAX_STEPS {
            *self = self.in_steps_of(longer(self.step_s));
            index = self.index(now_s);
        }
        if index >= self.judged.len() {
            self.judged.resize(index + 1, 0);
            self.refused.resize(index + 1, 0);
        }
        self.judged[index] += 1;
        self.refused[index] += u64::from(is_refused);
    }

    fn index(&self, now_s: u64) -> usize {
        let steps = now_s.saturating_sub(self.start_s) / self.step_s.max(1);
        usize::try_from(steps).unwrap_or(usize::MAX)
    }

    /// The same counts in at most so many steps.
    pub(super) fn within(&self, most: usize) -> Self {
        let days = std::iter::successors(Some(DAY_S), |length| length.checked_mul(2));
        let lengths = SHOWN_LENGTHS.into_iter().chain(days);
        let own = self.step_s.max(1);
        let mut lengths = lengths.filter(|length| *length >= own && length % own == 0);
        lengths
            .find_map(|length| {
                let shown = self.in_steps_of(length);
                (shown.judged.len() <= most.max(1)).then_some(shown)
            })
            .unwrap_or_default()
    }

    /// The refusals in the steps of another series.
    pub(super) fn refused_within(&self, whole: &Self) -> Vec<u64> {
        let mut refused = vec![0; whole.judged.len()];
        for (step, count) in (0_u64..).zip(&self.refused) {
            let at_s = self.start_s + step * self.step_s;
            if let Some(sum) = refused.get_mut(whole.index(at_s)) {
                *sum += count;
            }
        }
        refused
    }

    /// The same counts in steps of a multiple of the length.
    fn in_steps_of(&self, step_s: u64) -> Self {
        let start_s = self.start_s / step_s * step_s;
        let mut longer = Self { start_s, step_s, ..Self::default() };
        for (step, (judged, refused)) in (0_u64..).zip(self.judged.iter().zip(&self.refused)) {
            let index = longer.index(self.start_s + step * self.step_s);
            if index >= longer.judged.len() {
                longer.judged.resize(index + 1, 0);
                longer.refused.resize(index + 1, 0);
            }
            longer.judged[index] += judged;
            longer.refused[index] += refused;
        }
        longer
    }
}

/// The next length of a step.
fn longer(step_s: u64) -> u64 {
    LENGTHS.into_iter().find(|length| *length > step_s).unwrap_or(step_s.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(counts: &[u64]) -> u64 {
        counts.iter().sum()
    }

    #[test]
    fn no_count_is_lost_when_steps_become_longer() {
        let mut series = Series::default();
        let last = 5 * 86_400;
        for second in (0..=last).step_by(7) {
            series.add(100 + second, second % 2 == 0);
        }
        let count = last / 7 + 1;
        assert!(series.judged.len() <= MAX_STEPS && series.judged.len() > MAX_STEPS / 5);
        assert_eq!((series.start_s, series.step_s), (0, 600));
        assert_eq!((sum(&series.judged), sum(&series.refused)), (count, count.div_ceil(2)));
        let short = series.within(60);
        assert_eq!((short.start_s, short.step_s, short.judged.len()), (0, 10_800, 41));
        assert_eq!((sum(&short.judged), sum(&short.refused)), (count, count.div_ceil(2)));
    }

    #[test]
    fn each_length_is_a_multiple_of_the_one_before() {
        let mut length = 1;
        while length < 1 << 40 {
            assert_eq!(longer(length) % length, 0, "{length}");
            length = longer(length);
        }
    }

    /// A policy that judges from a later second on has other steps.
    #[test]
    fn refusals_fall_into_the_steps_of_all_requests() {
        let mut whole = Series::default();
        let mut part = Series::default();
        for second in 55..4000 {
            whole.add(second, second >= 3700);
            if second >= 3700 {
                part.add(second, true);
            }
        }
        let shown = whole.within(60);
        assert_eq!((shown.start_s, shown.step_s), (0, 120));
        assert_eq!(part.refused_within(&shown), shown.refused);
    }
}
