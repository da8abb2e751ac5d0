//! The rates of the last ten minutes, each as a line of bars.

use serde_json::Value;

use super::super::figures::{Figures, items};
use super::super::form::rate;

/// The bars, the lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The columns beside the bars: the name, and the highest rate.
const BESIDE: usize = 25;
/// Fewer bars tell nothing.
const LEAST_BARS: usize = 8;

/// A rate of the last ten minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    Requests,
    Refused,
}

impl Rate {
    /// All of them, in the order of their lines.
    pub(crate) const ALL: [Self; 2] = [Self::Requests, Self::Refused];

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Requests => ("REQ/S", "requests"),
            Self::Refused => ("REFUSED/S", "refused"),
        }
    }

    /// The rate over time in one line of this width: a bar for each ten seconds, the newest at
    /// the right. None: nothing is known of it, or there is no room.
    pub(crate) fn chart(self, figures: &Figures, width: usize) -> Option<String> {
        let (head, field) = self.names();
        let rates = sums(figures, field);
        let bars = width.checked_sub(BESIDE).filter(|room| *room >= LEAST_BARS)?;
        let most = rates.iter().copied().reduce(f64::max)?;
        let shown = rates.iter().skip(rates.len().saturating_sub(bars));
        let line: String = shown.map(|it| bar(*it, most)).collect();
        let minutes = rates.len().div_ceil(6);
        Some(format!("{head:<9}  {line}  max {} in {minutes} min", rate(Some(most))))
    }
}

/// The bar of a rate, if `most` is the highest. Any rate but none is above the lowest bar.
fn bar(rate: f64, most: f64) -> char {
    if rate <= 0.0 {
        return BARS[0];
    }
    let mut steps = (1_u8..).zip(&BARS[1..]);
    let step = steps.find(|(step, _)| rate * 7.0 <= most * f64::from(*step));
    step.map_or(BARS[BARS.len() - 1], |(_, bar)| *bar)
}

/// The rates of complete steps, the oldest first. Those of several gateways are summed: their
/// steps begin at the same times.
fn sums(figures: &Figures, field: &str) -> Vec<f64> {
    let mut newest_first: Vec<f64> = Vec::new();
    for (_, told) in figures.told() {
        let step = told.history["step"].as_f64().unwrap_or(0.0);
        let is_complete = |it: &&Value| it["seconds"].as_f64().unwrap_or(0.0) > 0.9 * step;
        let complete = items(&told.history).iter().rev().filter(is_complete);
        for (index, item) in complete.enumerate() {
            let rate = item["per_second"][field].as_f64().unwrap_or(0.0);
            match newest_first.get_mut(index) {
                Some(sum) => *sum += rate,
                None => newest_first.push(rate),
            }
        }
    }
    newest_first.reverse();
    newest_first
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::figures;
    use super::*;

    #[test]
    fn a_line_has_a_bar_for_each_complete_step() {
        let line = |width| Rate::Requests.chart(&figures(1), width);
        assert_eq!(line(80).as_deref(), Some("REQ/S      ▃▅█▅  max 2400 in 1 min"));
        let refused = Rate::Refused.chart(&figures(2), 80);
        assert_eq!(refused.as_deref(), Some("REFUSED/S  ▁▂█▅  max 80.0 in 1 min"));
        assert_eq!((line(20), Rate::Refused.chart(&figures(0), 80)), (None, None));
    }

    #[test]
    fn bars_follow_the_share() {
        let bars: String =
            [0.0, 0.001, 0.1, 0.2, 0.5, 0.9, 1.0].map(|it| bar(it, 1.0)).iter().collect();
        assert_eq!(bars, "▁▂▂▃▅██");
        assert_eq!(bar(0.0, 0.0), '▁');
    }
}
