//! Which of several endpoints gets the next request. Pure: loads and random
//! numbers come in as arguments.

use fastrand::Rng;

use super::Balance;

/// Chooses among endpoints by weight. One for each worker and upstream.
#[derive(Debug)]
pub(super) struct Balancer {
    method: Balance,
    weights: Vec<u32>,
    /// Sums of the weights up to and with each endpoint; the last is the total.
    sums: Vec<u64>,
    /// How far each endpoint is behind its share; round robin only.
    credits: Vec<i64>,
}

impl Balancer {
    /// Chooses among endpoints of these weights, of which there is at least one.
    pub(super) fn new(method: Balance, weights: Vec<u32>) -> Self {
        let sums = weights
            .iter()
            .scan(0_u64, |sum, weight| {
                *sum += u64::from(*weight);
                Some(*sum)
            })
            .collect();
        let credits = vec![0; weights.len()];
        Self { method, weights, sums, credits }
    }

    /// The index of the endpoint for the next request; `load` tells how many
    /// requests an endpoint has in flight.
    pub(super) fn choose(&mut self, rng: &mut Rng, load: impl Fn(usize) -> usize) -> usize {
        if self.weights.len() == 1 {
            return 0;
        }
        match self.method {
            Balance::Random => self.draw(rng),
            Balance::RoundRobin => self.next_in_turn(),
            Balance::LeastRequests => {
                // Both may be the same: that costs a little balance with few
                // endpoints, and saves a loop.
                let (one, other) = (self.draw(rng), self.draw(rng));
                self.less_loaded(one, other, load)
            }
        }
    }

    /// One at random, each as often as its weight says.
    fn draw(&self, rng: &mut Rng) -> usize {
        let total = self.sums.last().copied().unwrap_or(1);
        let ticket = rng.u64(0..total);
        self.sums.partition_point(|sum| *sum <= ticket)
    }

    /// The one with fewer requests in flight for its weight (M. Mitzenmacher,
    /// "The power of two choices in randomized load balancing").
    fn less_loaded(&self, one: usize, other: usize, load: impl Fn(usize) -> usize) -> usize {
        let share = |index: usize, of: usize| {
            let requests = u128::try_from(load(index)).unwrap_or(u128::MAX >> 32);
            (requests + 1) * u128::from(self.weights[of])
        };
        if share(other, one) < share(one, other) { other } else { one }
    }

    /// Smooth weighted round robin: everybody gains their weight, the richest
    /// is chosen and pays the total, so that weights 3 and 1 give a a b a.
    fn next_in_turn(&mut self) -> usize {
        let total: i64 = self.weights.iter().copied().map(i64::from).sum();
        for (credit, weight) in self.credits.iter_mut().zip(&self.weights) {
            *credit += i64::from(*weight);
        }
        let mut richest = 0;
        for index in 1..self.credits.len() {
            if self.credits[index] > self.credits[richest] {
                richest = index;
            }
        }
        self.credits[richest] -= total;
        richest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(
        method: Balance,
        weights: &[u32],
        load: impl Fn(usize) -> usize + Copy,
    ) -> Vec<usize> {
        let mut balancer = Balancer::new(method, weights.to_vec());
        let mut rng = Rng::with_seed(7);
        let mut shares = vec![0; weights.len()];
        for _ in 0..6000 {
            shares[balancer.choose(&mut rng, load)] += 1;
        }
        shares
    }

    #[test]
    fn round_robin_is_exact_and_smooth() {
        assert_eq!(shares(Balance::RoundRobin, &[1, 1, 1], |_| 0), [2000, 2000, 2000]);
        assert_eq!(shares(Balance::RoundRobin, &[3, 2, 1], |_| 0), [3000, 2000, 1000]);
        let mut balancer = Balancer::new(Balance::RoundRobin, vec![3, 1]);
        let mut rng = Rng::with_seed(0);
        let order: Vec<_> = (0..4).map(|_| balancer.choose(&mut rng, |_| 0)).collect();
        assert_eq!(order, [0, 0, 1, 0]);
    }

    #[test]
    fn random_follows_the_weights() {
        let shares = shares(Balance::Random, &[1, 2], |_| 0);
        assert!((1850..2150).contains(&shares[0]), "{shares:?}");
    }

    #[test]
    fn least_requests_avoids_the_loaded_one() {
        // Of two drawn from two, the loaded one is taken only if drawn twice.
        let shares =
            shares(Balance::LeastRequests, &[1, 1], |index| if index == 0 { 9 } else { 0 });
        assert!((1350..1650).contains(&shares[0]), "{shares:?}");
    }

    #[test]
    fn least_requests_knows_that_weight_is_capacity() {
        let mut balancer = Balancer::new(Balance::LeastRequests, vec![1, 10]);
        let chosen = balancer.less_loaded(0, 1, |index| if index == 0 { 1 } else { 9 });
        assert_eq!(chosen, 1, "9 of 10 is less than 1 of 1");
        assert_eq!(balancer.choose(&mut Rng::with_seed(1), |_| 0), 1);
    }
}
