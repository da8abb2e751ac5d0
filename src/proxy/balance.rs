//! Which of several endpoints gets the next request. Pure: loads, keys and
//! random numbers come in as arguments.

mod affinity;

use fastrand::Rng;

use super::Balance;

/// Chooses among endpoints by weight. One for each worker and upstream, made
/// anew whenever an endpoint comes, goes, falls ill or recovers.
#[derive(Debug)]
pub(super) struct Balancer {
    method: Balance,
    candidates: Vec<Candidate>,
    /// Sums of the weights up to and with each endpoint; the last is the total.
    sums: Vec<u64>,
    /// How far each endpoint is behind its share; round robin only.
    credits: Vec<i64>,
}

/// An endpoint as the balancer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Who it is, on every gateway and after every restart: keys stay with it.
    pub(super) identity: u64,
    /// Its share against the others'; 0: it gets nothing.
    pub(super) weight: u32,
}

impl Balancer {
    /// Chooses among these endpoints.
    pub(super) fn new(method: Balance, candidates: Vec<Candidate>) -> Self {
        let sums = candidates
            .iter()
            .scan(0_u64, |sum, candidate| {
                *sum += u64::from(candidate.weight);
                Some(*sum)
            })
            .collect();
        let credits = vec![0; candidates.len()];
        Self { method, candidates, sums, credits }
    }

    /// The same, without the endpoints that a request has tried: for its next
    /// attempt. Whose turn it would be is not known then, so it is drawn.
    pub(super) fn without(&self, is_tried: impl Fn(usize) -> bool) -> Self {
        let rest = self.candidates.iter().enumerate().map(|(index, candidate)| {
            let weight = if is_tried(index) { 0 } else { candidate.weight };
            Candidate { weight, ..*candidate }
        });
        let method = match self.method {
            Balance::RoundRobin => Balance::Random,
            other => other,
        };
        Self::new(method, rest.collect())
    }

    /// The index of the endpoint for the next request, if any may have it.
    /// `load` tells how many requests an endpoint has in flight; `affinity` is
    /// the request's key, which only hashing looks at.
    pub(super) fn choose(
        &mut self,
        rng: &mut Rng,
        affinity: Option<u64>,
        load: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        let total = self.sums.last().copied().filter(|total| *total > 0)?;
        if self.candidates.len() == 1 {
            return Some(0);
        }
        Some(match (self.method, affinity) {
            (Balance::Random, _) => self.draw(rng, total),
            (Balance::RoundRobin, _) => self.next_in_turn(),
            (Balance::Hash, Some(key)) => affinity::choose(&self.candidates, key, load),
            (Balance::LeastRequests | Balance::Hash, _) => {
                // Both may be the same: that costs a little balance with few
                // endpoints, and saves a loop.
                let (one, other) = (self.draw(rng, total), self.draw(rng, total));
                self.less_loaded(one, other, load)
            }
        })
    }

    /// One at random, each as often as its weight says.
    fn draw(&self, rng: &mut Rng, total: u64) -> usize {
        let ticket = rng.u64(0..total);
        self.sums.partition_point(|sum| *sum <= ticket)
    }

    /// The one with fewer requests in flight for its weight (M. Mitzenmacher,
    /// "The power of two choices in randomized load balancing").
    fn less_loaded(&self, one: usize, other: usize, load: impl Fn(usize) -> usize) -> usize {
        let share = |index: usize, of: usize| {
            let requests = u128::try_from(load(index)).unwrap_or(u128::MAX >> 32);
            (requests + 1) * u128::from(self.candidates[of].weight)
        };
        if share(other, one) < share(one, other) { other } else { one }
    }

    /// Smooth weighted round robin: everybody gains their weight, the richest
    /// is chosen and pays the total, so that weights 3 and 1 give a a b a.
    fn next_in_turn(&mut self) -> usize {
        let total: i64 = self.candidates.iter().map(|it| i64::from(it.weight)).sum();
        for (credit, candidate) in self.credits.iter_mut().zip(&self.candidates) {
            *credit += i64::from(candidate.weight);
        }
        let mut richest = None;
        for (index, credit) in self.credits.iter().enumerate() {
            let is_richer = richest.is_none_or(|best: usize| *credit > self.credits[best]);
            if self.candidates[index].weight > 0 && is_richer {
                richest = Some(index);
            }
        }
        let richest = richest.expect("the total is above 0, so a weight is");
        self.credits[richest] -= total;
        richest
    }
}

#[cfg(test)]
mod tests;
