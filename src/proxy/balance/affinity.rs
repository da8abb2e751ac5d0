//! Consistent hashing: requests of one key go to one endpoint, and when an
//! endpoint comes or goes, only the keys that it gains or loses move.
//!
//! Every endpoint draws a lot for the key, and the best lot wins (weighted
//! rendezvous hashing: D. Thaler and C. V. Ravishankar, "A name-based mapping
//! scheme for rendezvous"; weights by drawing exponential times, as in P. S.
//! Efraimidis and P. G. Spirakis, "Weighted random sampling with a reservoir").
//! A ring was rejected: weights are exact here, nothing has to be built, and the
//! few endpoints of an upstream are looked at faster than a large ring. Nobody
//! takes more than their share and a quarter of what is in flight, so a key
//! that everybody asks for spreads (V. Mirrokni, M. Thorup and M. Zadimoghaddam,
//! "Consistent hashing with bounded loads").

use super::Candidate;

/// With so few in flight nobody is overloaded, and a key stays where it is.
const FEW: u128 = 8;

/// The index of the endpoint for `key`. One of the weights must be above 0.
pub(super) fn choose(candidates: &[Candidate], key: u64, load: impl Fn(usize) -> usize) -> usize {
    let load = |index| u128::try_from(load(index)).unwrap_or(u128::MAX >> 64);
    let in_use = || candidates.iter().enumerate().filter(|(_, it)| it.weight > 0);
    let in_flight: u128 = in_use().map(|(index, _)| load(index)).sum();
    let total: u128 = in_use().map(|(_, it)| u128::from(it.weight)).sum();
    // The mean is below this bound, so somebody has room.
    let has_room = |index: usize, weight: u32| {
        let load = load(index);
        load < FEW || load * total * 4 < 5 * (in_flight + 1) * u128::from(weight)
    };
    let lots = in_use()
        .filter(|(index, candidate)| has_room(*index, candidate.weight))
        .map(|(index, candidate)| (index, lot(key, *candidate)));
    lots.min_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(index, _)| index)
}

/// An exponential time with the weight as its rate: the smallest of several
/// belongs to each with the probability of its share.
fn lot(key: u64, Candidate { identity, weight }: Candidate) -> f64 {
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
