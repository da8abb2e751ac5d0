//! What policies have decided in each of the last seconds.
//!
//! A second has an entry of 16 bytes for each policy that has decided in it, and none for the
//! others. The seconds and the names are bounded, so memory is, too: 9.6 MB if 1000 policies
//! decide in each of 600 seconds.

use std::collections::{BTreeMap, VecDeque};

use crate::telemetry::metrics::PolicyCounts;

/// What one policy has decided in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// All decisions.
    pub decisions: u64,
    /// Of these, the refusals.
    pub refused: u64,
    /// Of these, those that would have been refusals if the policy were not in shadow.
    pub shadow_refused: u64,
}

/// What one policy has decided in each step of some time, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySteps {
    /// The name of the policy.
    pub policy: Box<str>,
    pub steps: Vec<Decided>,
}

/// The decisions of policies by seconds.
#[derive(Debug)]
pub struct Policies {
    /// The most seconds that are kept.
    most_seconds: usize,
    /// The most names that are known: the first ones.
    most_names: usize,
    /// The number of each policy.
    names: BTreeMap<Box<str>, u16>,
    /// As many as the seconds of the node, and for the same times.
    seconds: VecDeque<Box<[Entry]>>,
}

/// What one policy has decided in a second.
#[derive(Clone, Copy, Debug)]
struct Entry {
    policy: u16,
    /// Decisions, refusals, and refusals in shadow.
    counts: [u32; 3],
}

impl Policies {
    /// Keeps at most this many seconds of this many policies.
    pub const fn new(most_seconds: usize, most_names: usize) -> Self {
        Self { most_seconds, most_names, names: BTreeMap::new(), seconds: VecDeque::new() }
    }

    /// Keeps what policies have counted in one more second.
    pub fn add(&mut self, grown: &[(&str, PolicyCounts)]) {
        let entries = grown.iter().filter_map(|(name, growth)| {
            let of = &growth.by_outcome;
            let counts = [of.sum(), of.refusals(), of.shadow_refused];
            let policy = if counts[0] > 0 { self.number(name)? } else { return None };
            Some(Entry { policy, counts: counts.map(|it| u32::try_from(it).unwrap_or(u32::MAX)) })
        });
        let entries = entries.collect();
        if self.seconds.len() == self.most_seconds {
            self.seconds.pop_front();
        }
        self.seconds.push_back(entries);
    }

    /// The number of a policy. None: there is no room for another name.
    fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(number) = self.names.get(name) {
            return Some(*number);
        }
        if self.names.len() == self.most_names {
            return None;
        }
        let number = u16::try_from(self.names.len()).ok()?;
        self.names.insert(name.into(), number);
        Some(number)
    }

    /// The sums of steps. `lengths` has the number of seconds of each step; the last step ends
    /// with the last second. Of the policies that have decided in this time, the `most` with the
    /// most refusals, refusals in shadow and decisions are listed, in this order.
    pub fn steps(&self, lengths: &[usize], most: usize) -> Vec<PolicySteps> {
        let mut sums: Vec<(Decided, Vec<Decided>)> = Vec::new();
        sums.resize_with(self.names.len(), || (Decided::default(), Vec::new()));
        let seconds: usize = lengths.iter().sum();
        let mut rest = self.seconds.range(self.seconds.len().saturating_sub(seconds)..);
        for (step, length) in lengths.iter().enumerate() {
            for entry in rest.by_ref().take(*length).flatten() {
                let Some((sum, steps)) = sums.get_mut(usize::from(entry.policy)) else { continue };
                steps.resize(lengths.len(), Decided::default());
                sum.add(entry);
                steps[step].add(entry);
            }
        }
        let numbers = self.names.iter().map(|(name, number)| (name, usize::from(*number)));
        let mut found: Vec<_> = numbers.filter(|(_, at)| sums[*at].0.decisions > 0).collect();
        found.sort_by_key(|(_, at)| std::cmp::Reverse(sums[*at].0.weight()));
        let listed = found.into_iter().take(most);
        let listed = listed.map(|(name, at)| PolicySteps {
            policy: name.clone(),
            steps: std::mem::take(&mut sums[at].1),
        });
        listed.collect()
    }

    /// The number of names and of entries.
    #[cfg(test)]
    pub fn len(&self) -> (usize, usize) {
        (self.names.len(), self.seconds.iter().map(|it| it.len()).sum())
    }
}

impl Decided {
    fn add(&mut self, entry: &Entry) {
        let [decisions, refused, shadow_refused] = entry.counts.map(u64::from);
        self.decisions += decisions;
        self.refused += refused;
        self.shadow_refused += shadow_refused;
    }

    /// By what policies are compared.
    const fn weight(&self) -> (u64, u64, u64) {
        (self.refused, self.shadow_refused, self.decisions)
    }
}
