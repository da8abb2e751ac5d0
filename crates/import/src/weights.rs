//! Endpoints with weights, whose range here is smaller than that of others.

use crate::out::{Map, Value};

/// The largest weight of an endpoint.
const MAX: u64 = 1000;

/// A server that gets requests.
pub struct Server {
    /// The endpoint.
    pub url: String,
    /// Its share of the requests, above 0.
    pub weight: u64,
}

/// The list `endpoints` of an upstream.
pub struct Endpoints {
    /// The endpoints, with weights if they are not equal.
    pub list: Vec<Value>,
    /// How the shares differ from what is written, if they do.
    pub difference: Option<String>,
}

/// The endpoints for these servers.
pub fn endpoints(servers: Vec<Server>) -> Endpoints {
    let weights: Vec<u64> = servers.iter().map(|it| it.weight).collect();
    let largest = weights.iter().copied().max().unwrap_or(1);
    let common = weights.iter().copied().fold(0, divisor).max(1);
    let are_equal = weights.iter().all(|it| *it == largest);
    let rounded = |weight: u64| {
        let share = u128::from(weight) * u128::from(MAX) + u128::from(largest / 2);
        u64::try_from(share / u128::from(largest)).unwrap_or(MAX).max(1)
    };
    let scaled = |weight: u64| match (largest <= MAX, largest / common <= MAX) {
        (true, _) => weight,
        (false, true) => weight / common,
        (false, false) => rounded(weight),
    };
    let is_rounded = !are_equal && largest / common > MAX;
    let list = servers.into_iter().zip(weights).map(|(server, weight)| match scaled(weight) {
        _ if are_equal => server.url.into(),
        1 => server.url.into(),
        weight => Map::default().with("url", server.url).with("weight", weight).into(),
    });
    let list = list.collect();
    let difference = is_rounded.then(|| {
        format!("weights of at most {MAX} here: {largest} is {MAX}, and the others are rounded")
    });
    Endpoints { list, difference }
}

/// The greatest common divisor.
const fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        let rest = one % other;
        one = other;
        other = rest;
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::flow;

    #[test]
    fn weights_keep_their_proportions() {
        for (weights, is, is_rounded) in [
            (&[][..], "[]", false),
            (&[7], "[a0]", false),
            (&[100, 100], "[a0, a1]", false),
            (&[5000, 5000], "[a0, a1]", false),
            (&[3, 1], "[{ url: a0, weight: 3 }, a1]", false),
            (&[1000, 500], "[{ url: a0, weight: 1000 }, { url: a1, weight: 500 }]", false),
            (&[5000, 2500], "[{ url: a0, weight: 2 }, a1]", false),
            (&[5000, 1], "[{ url: a0, weight: 1000 }, a1]", true),
            (&[65_535, 32_000], "[{ url: a0, weight: 1000 }, { url: a1, weight: 488 }]", true),
            (&[u64::MAX, 1], "[{ url: a0, weight: 1000 }, a1]", true),
            (&[2_000_000_000, 1_000_000_000], "[{ url: a0, weight: 2 }, a1]", false),
        ] {
            let servers = weights.iter().enumerate();
            let servers =
                servers.map(|(at, weight)| Server { url: format!("a{at}"), weight: *weight });
            let made = endpoints(servers.collect());
            assert_eq!(flow(&Value::List(made.list)), is, "{weights:?}");
            assert_eq!(made.difference.is_some(), is_rounded, "{weights:?}");
        }
    }
}
