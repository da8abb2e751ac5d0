//! Compares the decisions of the nodes with those of one counter without delay.

use tollgate_core::algorithm::{Algorithm, Op, Quota, State, TokenBucket};
use tollgate_core::time::Timestamp;

/// The exact count can be up to this multiple of the capacity.
const HEADROOM: u64 = 8;

/// Counts over all clients. docs/redis.md defines them.
pub(crate) struct Tally<'a> {
    algorithm: &'a Algorithm,
    /// The same rate with room for more than the limit.
    truth: Algorithm,
    clients: Vec<Client>,
    /// Calls of the store, whether or not a request waited for them.
    pub(crate) calls: u64,
    /// The most units that were counted above the capacity at once.
    most_above: u64,
}

#[derive(Clone, Default)]
struct Client {
    requests: u64,
    admitted: u64,
    /// All admitted requests, as one counter without delay counts them.
    admitted_state: Option<State>,
    /// Admitted by one counter that decides without delay.
    ideal: u64,
    ideal_state: Option<State>,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(algorithm: &'a Algorithm, clients: usize) -> Self {
        Self {
            algorithm,
            truth: roomy(algorithm),
            clients: vec![Client::default(); clients],
            calls: 0,
            most_above: 0,
        }
    }

    /// Counts a request that comes.
    pub(crate) fn offered(&mut self, client: usize, now: Timestamp) {
        let client = &mut self.clients[client];
        client.requests += 1;
        let (next, verdict) = self.algorithm.apply(client.ideal_state.as_ref(), Op::Take(1), now);
        if verdict.admitted {
            client.ideal += 1;
            client.ideal_state = next;
        }
    }

    /// Counts a decision of a node or of the store.
    pub(crate) fn judged(&mut self, client: usize, admitted: bool, now: Timestamp) {
        if !admitted {
            return;
        }
        let client = &mut self.clients[client];
        client.admitted += 1;
        let (next, verdict) = self.truth.apply(client.admitted_state.as_ref(), Op::Take(1), now);
        client.admitted_state = next.or(client.admitted_state.take());
        let counted = self.truth.capacity() - verdict.remaining;
        self.most_above = self.most_above.max(counted.saturating_sub(self.algorithm.capacity()));
    }

    fn sum(&self, of: impl Fn(&Client) -> u64) -> u64 {
        self.clients.iter().map(of).sum()
    }

    /// The most units above the limit at one time, in hundredths of a percent of it.
    #[cfg(test)]
    pub(crate) fn most_above(&self) -> u64 {
        self.most_above * 10_000 / self.algorithm.capacity()
    }

    /// How many fewer requests were admitted than by the ideal, in hundredths of a
    /// percent.
    #[cfg(test)]
    pub(crate) fn fewer(&self) -> u64 {
        self.sum(|it| it.ideal.saturating_sub(it.admitted)) * 10_000 / self.sum(|it| it.ideal)
    }

    /// The last five columns of the table.
    pub(crate) fn row(&self) -> String {
        let ideal = self.sum(|it| it.ideal);
        let innocent = |it: &Client| it.ideal == it.requests;
        let innocents = self.sum(|it| if innocent(it) { it.requests } else { 0 });
        let refused = self.sum(|it| if innocent(it) { it.requests - it.admitted } else { 0 });
        let requests = self.sum(|it| it.requests);
        let thousandths = (self.calls * 1000 + requests / 2) / requests;
        format!(
            "{}.{:03} | {} | {} | {} | {}",
            thousandths / 1000,
            thousandths % 1000,
            percent(self.most_above, self.algorithm.capacity()),
            percent(self.sum(|it| it.admitted.saturating_sub(it.ideal)), ideal),
            percent(self.sum(|it| it.ideal.saturating_sub(it.admitted)), ideal),
            percent(refused, innocents),
        )
    }
}

/// The same algorithm with room for several times its capacity.
fn roomy(algorithm: &Algorithm) -> Algorithm {
    let roomy = match algorithm {
        // Its limit is also the rate at which it refills.
        Algorithm::TokenBucket(bucket) => Quota::new(algorithm.limit(), algorithm.window())
            .and_then(|quota| TokenBucket::new(quota, HEADROOM * bucket.burst()))
            .map(Algorithm::TokenBucket),
        _ => algorithm.with_limit(HEADROOM * algorithm.limit()),
    };
    roomy.expect("the limits of the traffic are small")
}

/// A percentage with two decimals, rounded to the nearest; a dash if `whole` is 0.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let hundredths = (part * 10_000 + whole / 2) / whole;
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}
