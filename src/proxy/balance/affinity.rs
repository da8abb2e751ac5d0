//! Consistent hashing: requests with the same key go to the same endpoint. When an
//! endpoint is added or removed, only the keys that it gains or loses move.
//!
//! Each endpoint gets a score for the key, and the lowest score wins (weighted
//! rendezvous hashing: D. Thaler and C. V. Ravishankar, "A name-based mapping scheme
//! for rendezvous"; weights by exponential scores, as in P. S. Efraimidis and P. G.
//! Spirakis, "Weighted random sampling with a reservoir"). A hash ring was rejected:
//! here weights are exact, there is no structure to build, and scoring the few endpoints
//! of an upstream is faster than searching a large ring. No endpoint gets more than its
//! share of the requests in flight plus a quarter, so that a popular key spreads over
//! several endpoints (V. Mirrokni, M. Thorup and M. Zadimoghaddam, "Consistent hashing
//! with bounded loads").

use super::candidate::Candidate;

/// With fewer requests in flight no endpoint is overloaded, and a key does not move.
const FEW: u128 = 8;

/// The index of the endpoint for `key`. One of the weights must be above 0.
pub fn choose(candidates: &[Candidate], key: u64, load: impl Fn(usize) -> usize) -> usize {
    let load = |index| u128::try_from(load(index)).unwrap_or(u128::MAX >> 64);
    let in_use = || candidates.iter().enumerate().filter(|(_, it)| it.weight > 0);
    let in_flight: u128 = in_use().map(|(index, _)| load(index)).sum();
    let total: u128 = in_use().map(|(_, it)| u128::from(it.weight)).sum();
    // The mean is below this bound, so that at least one endpoint has room.
    let has_room = |index: usize, weight: u32| {
        let load = load(index);
        load < FEW || load * total * 4 < 5 * (in_flight + 1) * u128::from(weight)
    };
    let scores = in_use()
        .filter(|(index, candidate)| has_room(*index, candidate.weight))
        .map(|(index, candidate)| (index, score(key, *candidate)));
    scores.min_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(index, _)| index)
}

/// An exponentially distributed number with the weight as its rate: each endpoint has
/// the lowest score with the probability of its share.
fn score(key: u64, Candidate { identity, weight }: Candidate) -> f64 {
    let [high, low] = halves(mix(key ^ mix(identity)));
    // Uniform, and neither 0 nor 1.
    let uniform = (f64::from(high) + (f64::from(low) + 0.5) / TWO_TO_32) / TWO_TO_32;
    -uniform.ln() / f64::from(weight)
}

const TWO_TO_32: f64 = 4_294_967_296.0;

fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

/// The finalizer of SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast
/// splittable pseudorandom number generators"): every bit depends on every bit.
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
