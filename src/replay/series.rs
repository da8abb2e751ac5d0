//! Counts over time, in a bounded number of steps.

use serde::Serialize;

/// The most steps. When time goes on, two steps become one.
const MAX_STEPS: usize = 960;

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
            self.step_s *= 2;
            for counts in [&mut self.judged, &mut self.refused] {
                *counts = pairs(counts, 2);
            }
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
        let factor = self.judged.len().div_ceil(most.max(1)).max(1);
        let step_s = self.step_s * u64::try_from(factor).unwrap_or(1);
        let [judged, refused] = [&self.judged, &self.refused].map(|counts| pairs(counts, factor));
        Self { start_s: self.start_s, step_s, judged, refused }
    }
}

fn pairs(counts: &[u64], factor: usize) -> Vec<u64> {
    counts.chunks(factor).map(|chunk| chunk.iter().sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_lost_when_steps_become_longer() {
        let mut series = Series::default();
        let last = 5 * 86_400;
        for second in (0..=last).step_by(7) {
            series.add(100 + second, second % 2 == 0);
        }
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let count = last / 7 + 1;
        assert!(series.judged.len() <= MAX_STEPS && series.judged.len() > MAX_STEPS / 3);
        assert_eq!((series.start_s, series.step_s), (100, 512));
        assert_eq!((sum(&series.judged), sum(&series.refused)), (count, count.div_ceil(2)));
        let short = series.within(60);
        assert!(short.judged.len() <= 60);
        assert_eq!((sum(&short.judged), sum(&short.refused)), (count, count.div_ceil(2)));
    }
}
