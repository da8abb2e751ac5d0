//! The guarantees of each balancing method.

use fastrand::Rng;
use proptest::prelude::*;

use super::{Balancer, Candidate, affinity};
use crate::proxy::Balance;

fn candidates(weights: &[u32]) -> Vec<Candidate> {
    (1..).zip(weights).map(|(identity, weight)| Candidate { identity, weight: *weight }).collect()
}

fn shares(method: Balance, weights: &[u32], load: impl Fn(usize) -> usize + Copy) -> Vec<usize> {
    let mut balancer = Balancer::new(method, candidates(weights));
    let mut rng = Rng::with_seed(7);
    let mut shares = vec![0; weights.len()];
    for key in 0..6000 {
        shares[balancer.choose(&mut rng, Some(key), load).unwrap()] += 1;
    }
    shares
}

#[test]
fn round_robin_is_exact_and_smooth() {
    assert_eq!(shares(Balance::RoundRobin, &[1, 1, 1], |_| 0), [2000, 2000, 2000]);
    assert_eq!(shares(Balance::RoundRobin, &[3, 2, 1], |_| 0), [3000, 2000, 1000]);
    let mut balancer = Balancer::new(Balance::RoundRobin, candidates(&[3, 1]));
    let mut rng = Rng::with_seed(0);
    let order: Vec<_> = (0..4).filter_map(|_| balancer.choose(&mut rng, None, |_| 0)).collect();
    assert_eq!(order, [0, 0, 1, 0]);
}

#[test]
fn random_follows_the_weights() {
    let shares = shares(Balance::Random, &[1, 2], |_| 0);
    assert!((1850..2150).contains(&shares[0]), "{shares:?}");
}

#[test]
fn hashing_follows_the_weights() {
    let shares = shares(Balance::Hash, &[1, 2], |_| 0);
    assert!((1850..2150).contains(&shares[0]), "{shares:?}");
}

#[test]
fn least_requests_avoids_the_loaded_one() {
    // Of two random endpoints, the loaded one is chosen only if it is both of them.
    let load = |index| if index == 0 { 9 } else { 0 };
    let shares = shares(Balance::LeastRequests, &[1, 1], load);
    assert!((1350..1650).contains(&shares[0]), "{shares:?}");
}

#[test]
fn least_requests_treats_weight_as_capacity() {
    let mut balancer = Balancer::new(Balance::LeastRequests, candidates(&[1, 10]));
    let chosen = balancer.less_loaded(0, 1, |index| if index == 0 { 1 } else { 9 });
    assert_eq!(chosen, 1, "9 of 10 is less than 1 of 1");
    assert_eq!(balancer.choose(&mut Rng::with_seed(1), None, |_| 0), Some(1));
}

#[test]
fn a_popular_key_spreads() {
    let mut balancer = Balancer::new(Balance::Hash, candidates(&[1, 1, 1, 1]));
    let mut rng = Rng::with_seed(0);
    let mut loads = [0_usize; 4];
    for _ in 0..400 {
        let chosen = balancer.choose(&mut rng, Some(42), |index| loads[index]).unwrap();
        loads[chosen] += 1;
    }
    assert!(loads.iter().all(|load| *load <= 126), "{loads:?}");
}

#[test]
fn the_next_attempt_is_made_at_another_endpoint() {
    for method in METHODS {
        let mut rng = Rng::with_seed(3);
        let balancer = Balancer::new(method, candidates(&[1, 1, 1]));
        for _ in 0..100 {
            let other = balancer.without(|index| index != 2).choose(&mut rng, Some(1), |_| 0);
            assert_eq!(other, Some(2), "{method:?}");
        }
        assert_eq!(balancer.without(|_| true).choose(&mut rng, None, |_| 0), None);
    }
}

#[test]
fn without_a_key_hashing_chooses_the_less_loaded() {
    let mut balancer = Balancer::new(Balance::Hash, candidates(&[1, 1]));
    let mut rng = Rng::with_seed(7);
    let chosen = (0..1000).filter_map(|_| balancer.choose(&mut rng, None, |index| index * 9));
    let loaded = chosen.filter(|index| *index == 1).count();
    assert!((200..300).contains(&loaded), "{loaded}");
}

const METHODS: [Balance; 4] =
    [Balance::LeastRequests, Balance::RoundRobin, Balance::Random, Balance::Hash];

proptest! {
    #[test]
    fn weight_0_gets_nothing(
        method in prop::sample::select(&METHODS),
        weights in prop::collection::vec(0_u32..4, 0..8),
        keys in prop::collection::vec(any::<Option<u64>>(), 1..50),
        seed: u64,
    ) {
        let mut balancer = Balancer::new(method, candidates(&weights));
        let mut rng = Rng::with_seed(seed);
        for key in keys {
            let chosen = balancer.choose(&mut rng, key, |index| index);
            match chosen {
                Some(index) => prop_assert!(weights[index] > 0),
                None => prop_assert!(weights.iter().all(|weight| *weight == 0)),
            }
        }
    }

    /// Keys of the other endpoints stay where they were.
    #[test]
    fn only_the_keys_of_a_removed_endpoint_move(
        weights in prop::collection::vec(1_u32..5, 2..10),
        lost in any::<prop::sample::Index>(),
        keys in prop::collection::vec(any::<u64>(), 50),
    ) {
        let lost = lost.index(weights.len());
        let all = candidates(&weights);
        let mut rest = all.clone();
        rest[lost].weight = 0;
        for key in keys {
            let [old, new] = [&all, &rest].map(|it| affinity::choose(it, key, |_| 0));
            prop_assert!(old == lost || old == new);
            prop_assert!(new != lost);
        }
    }

    /// An endpoint in slow start takes keys from others, and loses none.
    #[test]
    fn a_growing_weight_only_gains_keys(
        weights in prop::collection::vec(1_u32..5, 2..10),
        keys in prop::collection::vec(any::<u64>(), 50),
    ) {
        let small = candidates(&weights);
        let mut grown = small.clone();
        grown[0].weight += 3;
        for key in keys {
            let [old, new] = [&small, &grown].map(|it| affinity::choose(it, key, |_| 0));
            prop_assert!(old == new || new == 0);
        }
    }
}
