//! Chooses the endpoint for the next request. Pure: loads, keys and random numbers are
//! arguments.

mod affinity;
mod candidate;

use fastrand::Rng;

use super::settings::Balance;
pub use candidate::Candidate;

/// Chooses among endpoints by weight. Each worker has one for each upstream, and makes
/// a new one whenever the endpoints or their health change.
#[derive(Debug)]
pub struct Balancer {
    method: Balance,
    candidates: Vec<Candidate>,
    /// Prefix sums of the weights, each including its own endpoint. The last is the total.
    sums: Vec<u64>,
    /// How far each endpoint is behind its share. Only round robin uses it.
    credits: Vec<i64>,
}

impl Balancer {
    /// Chooses among these endpoints.
    pub fn new(method: Balance, candidates: Vec<Candidate>) -> Self {
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

    /// Whether the endpoint is chosen at all.
    pub fn serves(&self, index: usize) -> bool {
        self.candidates[index].weight > 0
    }

    /// The same balancer without the endpoints that a request has tried, for its next
    /// attempt. It has no credits, so that round robin becomes a random choice.
    pub fn without(&self, is_tried: impl Fn(usize) -> bool) -> Self {
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

    /// The index of the endpoint for the next request; none if all weights are 0. `load`
    /// returns how many requests an endpoint has in flight. `affinity` is the request's
    /// key, which only hashing uses.
    pub fn choose(
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
                // Both may be the same endpoint. With few endpoints this balances slightly
                // less well, but it needs no loop.
                let one = self.draw(rng, total);
                let other = self.draw(rng, total);
                self.less_loaded(one, other, load)
            }
        })
    }

    /// A random endpoint, with a probability proportional to its weight.
    fn draw(&self, rng: &mut Rng, total: u64) -> usize {
        let number = rng.u64(0..total);
        self.sums.partition_point(|sum| *sum <= number)
    }

    /// The one of two with fewer requests in flight relative to its weight (M.
    /// Mitzenmacher, "The power of two choices in randomized load balancing").
    fn less_loaded(&self, one: usize, other: usize, load: impl Fn(usize) -> usize) -> usize {
        let share = |index: usize, of: usize| {
            let requests = u128::try_from(load(index)).unwrap_or(u128::MAX >> 32);
            (requests + 1) * u128::from(self.candidates[of].weight)
        };
        if share(other, one) < share(one, other) { other } else { one }
    }

    /// Smooth weighted round robin: each endpoint gains its weight as credit, and the one
    /// with the most credit is chosen and loses the total. Weights 3 and 1 give a a b a.
    fn next_in_turn(&mut self) -> usize {
        let total: i64 = self.candidates.iter().map(|it| i64::from(it.weight)).sum();
        for (credit, candidate) in self.credits.iter_mut().zip(&self.candidates) {
            *credit += i64::from(candidate.weight);
        }
        let mut chosen = None;
        for (index, credit) in self.credits.iter().enumerate() {
            let has_more = chosen.is_none_or(|best: usize| *credit > self.credits[best]);
            if self.candidates[index].weight > 0 && has_more {
                chosen = Some(index);
            }
        }
        let chosen = chosen.expect("the total is above 0, and therefore one of the weights");
        self.credits[chosen] -= total;
        chosen
    }
}

#[cfg(test)]
mod tests;
