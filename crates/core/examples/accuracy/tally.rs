//! Compares the decisions of an algorithm with those of the ideal window.

use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::time::Timestamp;

use crate::LIMIT;
use crate::ideal::Ideal;

/// Counts over all clients. docs/accuracy.md defines them.
#[derive(Default)]
pub(crate) struct Tally {
    requests: u64,
    admitted: u64,
    /// Admitted by an ideal window with a history of its own.
    ideal: u64,
    wrongly_admitted: u64,
    wrongly_refused: u64,
    most_in_a_window: u64,
}

impl Tally {
    /// Judges the requests of every client, one client after the other, because
    /// clients are independent.
    pub(crate) fn of(clients: &[Vec<Timestamp>], algorithm: &Algorithm) -> Self {
        let mut tally = Self::default();
        for requests in clients {
            tally.judge(requests, algorithm);
        }
        tally
    }

    fn judge(&mut self, requests: &[Timestamp], algorithm: &Algorithm) {
        let mut state = None;
        let mut truth = Ideal::default();
        let mut ideal = Ideal::default();
        for &now in requests {
            let (next, verdict) = algorithm.apply(state.as_ref(), Op::Take(1), now);
            state = next.or(state);
            let right = truth.has_room(now);
            if verdict.admitted {
                truth.admit(now);
            }
            if ideal.has_room(now) {
                ideal.admit(now);
                self.ideal += 1;
            }
            self.requests += 1;
            self.admitted += u64::from(verdict.admitted);
            self.wrongly_admitted += u64::from(verdict.admitted && !right);
            self.wrongly_refused += u64::from(!verdict.admitted && right);
            self.most_in_a_window = self.most_in_a_window.max(truth.count());
        }
    }

    /// The last five columns of the table.
    pub(crate) fn row(&self) -> String {
        let sign = if self.admitted < self.ideal { "−" } else { "+" };
        format!(
            "{} | {sign}{} | {} | {} | {} %",
            percent(self.admitted, self.requests),
            percent(self.admitted.abs_diff(self.ideal), self.ideal),
            percent(self.wrongly_admitted, self.requests),
            percent(self.wrongly_refused, self.requests),
            self.most_in_a_window * 100 / LIMIT,
        )
    }
}

/// A percentage with three decimals, rounded to the nearest.
fn percent(part: u64, whole: u64) -> String {
    let thousandths = (part * 100_000 + whole / 2) / whole;
    format!("{}.{:03} %", thousandths / 1000, thousandths % 1000)
}
