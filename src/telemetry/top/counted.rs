//! What one worker has counted in one minute.

use std::collections::HashMap;
use std::sync::Arc;

use super::sketch::Sketch;
use super::text::ClientText;

/// The sketches of one policy in one minute.
#[derive(Clone, Debug, Default)]
pub struct Sketches {
    pub admitted: Sketch<ClientText>,
    pub refused: Sketch<ClientText>,
}

impl Sketches {
    /// Forgets the whole keys.
    pub fn forget_whole(&mut self) {
        let texts = self.admitted.texts_mut().chain(self.refused.texts_mut());
        texts.for_each(|text| text.whole = None);
    }
}

/// The sketches of all policies, by the policies' names. There are few policies, and their names
/// are not chosen by clients.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// In the order in which they have judged a request first. So the policies of a route are
    /// mostly neighbours.
    policies: Vec<(Arc<str>, Sketches)>,
    places: HashMap<Arc<str>, usize>,
    /// The place behind the policy that was found last.
    next: usize,
}

impl Counted {
    /// The sketches of a policy. They are empty at first.
    pub fn of(&mut self, policy: &Arc<str>) -> &mut Sketches {
        let place = match self.policies.get(self.next) {
            Some((name, _)) if name == policy => self.next,
            _ => self.find(policy),
        };
        let is_last = place + 1 == self.policies.len();
        self.next = if is_last { 0 } else { place + 1 };
        &mut self.policies[place].1
    }

    fn find(&mut self, policy: &Arc<str>) -> usize {
        let Self { policies, places, .. } = self;
        if let Some(&place) = places.get(policy) {
            return place;
        }
        policies.push((Arc::clone(policy), Sketches::default()));
        places.insert(Arc::clone(policy), policies.len() - 1);
        policies.len() - 1
    }

    /// The sketches of a policy that has judged a request.
    pub fn get(&self, policy: &str) -> Option<&Sketches> {
        Some(&self.policies[*self.places.get(policy)?].1)
    }

    /// The names of the policies.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.policies.iter().map(|(name, _)| name)
    }

    /// Forgets the whole keys of all clients.
    pub fn forget_whole(&mut self) {
        self.policies.iter_mut().for_each(|(_, sketches)| sketches.forget_whole());
    }
}

impl IntoIterator for Counted {
    type Item = (Arc<str>, Sketches);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.policies.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_policy_finds_its_own_sketches(names in prop::collection::vec("[abc]{1,2}", 1..60)) {
            let mut counted = Counted::default();
            let mut expected = HashMap::<_, u64>::new();
            for name in &names {
                let policy: Arc<str> = name.as_str().into();
                counted.of(&policy).admitted.observe(7, None, || "x".into());
                *expected.entry(policy).or_default() += 1;
            }
            prop_assert_eq!(counted.names().count(), expected.len());
            for (name, times) in expected {
                prop_assert_eq!(counted.get(&name).map(|it| it.admitted.observed()), Some(times));
            }
        }
    }
}
