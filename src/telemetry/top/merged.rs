//! The keys of several sketches, minutes or nodes in one list.
//!
//! Guarantees: the count of a key is never too low, and too high by its `error` at most. A key
//! without an entry was observed `rest` times at most. The same holds for the sum of lists.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use tollgate_core::digest::{Principal, PrincipalId};

use super::ClientText;
use super::sketch::{ENTRIES, Entry, Sketch, merge};
use crate::telemetry::WholeKey;

/// Entries of a list that is kept: candidates of several workers beyond these cannot be
/// among the clients that the lists promise, but for rare streams.
pub const MAX_ENTRIES: usize = 4 * ENTRIES;

/// The keys of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// All observations.
    pub observed: u64,
    /// The most observations of a key that has no entry.
    pub rest: u64,
    /// The keys with the most observations first.
    pub entries: Vec<Entry<ClientText>>,
}

/// The count and the error of a key in the admitted and in the refused stream.
type Counts = [Option<(u64, u64)>; 2];

/// What was admitted, and what was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The requests that were admitted.
    pub admitted: Merged,
    /// Those that were refused.
    pub refused: Merged,
}

/// The heaviest clients of one policy over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopList {
    /// All requests that the policy has judged.
    pub requests: u64,
    /// Of these, those that were refused.
    pub refused: u64,
    /// The most requests of a client that is not listed.
    pub unlisted: u64,
    /// The clients with the most requests first.
    pub clients: Vec<Listed>,
}

/// One client of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: PrincipalId,
    /// What operators may see of its key.
    pub text: ClientText,
    /// Its requests: this number at most.
    pub requests: u64,
    /// Of these, those that were refused: this number at most.
    pub refused: u64,
    /// By how many each of the two can be too high.
    pub error: u64,
    /// The largest share of its limit that it had used after a request, in thousandths. None:
    /// it has no limit, or it is not known.
    pub used: Option<u16>,
}

impl Merged {
    /// The keys of sketches of different streams.
    pub fn of<'s>(sketches: impl IntoIterator<Item = &'s Sketch<ClientText>>) -> Self {
        let sketches: Vec<_> = sketches.into_iter().collect();
        let mut merged = Self {
            observed: sketches.iter().map(|sketch| sketch.observed()).sum(),
            rest: sketches.iter().map(|sketch| sketch.most_of_others()).sum(),
            entries: merge(&sketches),
        };
        merged.shorten(MAX_ENTRIES);
        merged
    }

    /// Adds the counts of another stream.
    pub fn add(&mut self, other: &Self) {
        self.observed = self.observed.saturating_add(other.observed);
        let known: HashMap<u128, &Entry<ClientText>> =
            other.entries.iter().map(|entry| (entry.id, entry)).collect();
        for entry in &mut self.entries {
            let (count, error) = match known.get(&entry.id) {
                Some(more) => {
                    entry.take_larger(more);
                    (more.count, more.error)
                }
                None => (other.rest, other.rest),
            };
            entry.count = entry.count.saturating_add(count);
            entry.error = entry.error.saturating_add(error);
        }
        let own: HashSet<u128> = self.entries.iter().map(|it| it.id).collect();
        let new = other.entries.iter().filter(|entry| !own.contains(&entry.id));
        self.entries.extend(new.map(|entry| Entry {
            count: entry.count.saturating_add(self.rest),
            error: entry.error.saturating_add(self.rest),
            ..entry.clone()
        }));
        self.rest = self.rest.saturating_add(other.rest);
        self.entries.sort_by_key(|entry| (Reverse(entry.count), entry.error, entry.id));
        self.shorten(MAX_ENTRIES);
    }

    /// Leaves out all keys but the first `most`.
    fn shorten(&mut self, most: usize) {
        if let Some(first) = self.entries.get(most) {
            self.rest = self.rest.max(first.count);
            self.entries.truncate(most);
        }
    }
}

impl Streams {
    /// Adds the counts of other streams.
    pub fn add(&mut self, other: &Self) {
        self.admitted.add(&other.admitted);
        self.refused.add(&other.refused);
    }

    /// The principal with this id, if one of the streams has it.
    pub fn principal(&self, id: PrincipalId) -> Option<Principal> {
        let mut all = self.admitted.entries.iter().chain(&self.refused.entries);
        let principal = all.find(|it| PrincipalId::from(Principal::from_bits(it.id)) == id)?;
        Some(Principal::from_bits(principal.id))
    }

    /// The text of this principal, if one of the streams has it. One with an API key says more.
    pub fn text(&self, principal: Principal) -> Option<&ClientText> {
        let all = self.admitted.entries.iter().chain(&self.refused.entries);
        let texts = all.filter(|it| Principal::from_bits(it.id) == principal).map(|it| &it.text);
        texts.max_by_key(|text| text.api_key.is_some())
    }

    /// The whole key of this principal, if one of the streams keeps it.
    pub fn whole_key(&self, principal: Principal) -> Option<&WholeKey> {
        let mut all = self.admitted.entries.iter().chain(&self.refused.entries);
        let is_meant = |it: &&Entry<ClientText>| Principal::from_bits(it.id) == principal;
        all.find(|it| is_meant(it) && it.text.whole.is_some())?.text.whole.as_ref()
    }

    /// Forgets the whole keys.
    pub fn forget_whole(&mut self) {
        let all = self.admitted.entries.iter_mut().chain(&mut self.refused.entries);
        all.for_each(|entry| entry.text.whole = None);
    }

    /// The first `most` clients of both streams in one list.
    pub fn list(&self, most: usize) -> TopList {
        let Self { admitted, refused } = self;
        let mut clients: BTreeMap<u128, (&ClientText, Counts, Option<u16>)> = BTreeMap::new();
        for (stream, merged) in [admitted, refused].into_iter().enumerate() {
            for entry in &merged.entries {
                let client = clients.entry(entry.id).or_insert((&entry.text, [None; 2], None));
                client.1[stream] = Some((entry.count, entry.error));
                if entry.peak > client.2 {
                    (client.0, client.2) = (&entry.text, entry.peak);
                }
            }
        }
        let mut clients: Vec<Listed> = clients
            .into_iter()
            .map(|(id, (text, counts, used))| {
                let [admitted, refused] = [
                    counts[0].unwrap_or((admitted.rest, admitted.rest)),
                    counts[1].unwrap_or((refused.rest, refused.rest)),
                ];
                Listed {
                    id: Principal::from_bits(id).into(),
                    text: text.clone(),
                    requests: admitted.0.saturating_add(refused.0),
                    refused: refused.0,
                    error: admitted.1.saturating_add(refused.1),
                    used,
                }
            })
            .collect();
        clients.sort_by_key(|it| (Reverse(it.requests), it.error, it.id));
        let unlisted = admitted.rest.saturating_add(refused.rest);
        let left_out = clients.get(most).map_or(0, |it| it.requests);
        clients.truncate(most);
        TopList {
            requests: admitted.observed.saturating_add(refused.observed),
            refused: refused.observed,
            unlisted: unlisted.max(left_out),
            clients,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Requests: the node or minute, the key, and whether it was refused.
    fn requests() -> impl Strategy<Value = Vec<(usize, u128, bool)>> {
        let key = prop_oneof![0..8_u128, 0..300_u128, 0..3_000_u128];
        prop::collection::vec((0..3_usize, key, any::<bool>()), 0..3000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn sums_are_never_too_low_and_too_high_by_their_error_at_most(
            requests in requests(),
            most in 1..200_usize,
        ) {
            let mut sketches: [[Sketch<ClientText>; 2]; 3] = Default::default();
            let mut exact: BTreeMap<u128, (u64, u64)> = BTreeMap::new();
            for (part, key, is_refused) in requests {
                // Spread over the cells, as digests are.
                let id = key.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                sketches[part][usize::from(is_refused)].observe(id, None, || "a".into());
                let count = exact.entry(id).or_default();
                count.0 += 1;
                count.1 += u64::from(is_refused);
            }
            let mut sum = Streams::default();
            for [admitted, refused] in &sketches {
                let mut admitted = Merged::of([admitted]);
                let mut refused = Merged::of([refused]);
                admitted.shorten(most);
                refused.shorten(most);
                sum.add(&Streams { admitted, refused });
            }
            let list = sum.list(most);
            prop_assert_eq!(list.requests, exact.values().map(|it| it.0).sum::<u64>());
            prop_assert_eq!(list.refused, exact.values().map(|it| it.1).sum::<u64>());
            for (id, (requests, refused)) in exact {
                let id = PrincipalId::from(Principal::from_bits(id));
                match list.clients.iter().find(|it| it.id == id) {
                    Some(it) => {
                        prop_assert!(it.requests >= requests && it.refused >= refused);
                        prop_assert!(it.requests - it.error <= requests);
                        prop_assert!(it.refused.saturating_sub(it.error) <= refused);
                    }
                    None => prop_assert!(requests <= list.unlisted, "{requests}: {list:?}"),
                }
            }
        }
    }

    #[test]
    fn a_client_is_found_by_its_id() {
        let mut sketch = Sketch::default();
        sketch.observe(7, None, || "a".into());
        let refused = Merged::of([&sketch]);
        let streams = Streams { refused, ..Streams::default() };
        let principal = Principal::from_bits(7);
        assert_eq!(streams.principal(principal.into()), Some(principal));
        assert_eq!(streams.principal(Principal::from_bits(8).into()), None);
    }
}
