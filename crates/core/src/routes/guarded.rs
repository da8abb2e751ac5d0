//! Fields that policies and routes use or edit, and other names for them.

use std::collections::HashMap;

use crate::policy::{
    ClientSettings, Cost, ForwardedHeader, KeyExpr, Policy, Reservation, UserSource,
};
use crate::request::{folded_name, is_plain_name};
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName};

use super::{Part, Route};

/// Names of fields that may occur only in this spelling, and not under a name that some
/// backends treat as the same.
#[derive(Clone, Debug)]
pub(super) struct GuardedNames {
    by_form: HashMap<Box<str>, Vec<HeaderName>>,
    /// The [`length_bit`] of each name. Another spelling has the same length.
    lengths: u64,
    /// Whether all of them have plain names. Then only names that are not plain can be
    /// other spellings.
    are_plain: bool,
}

impl GuardedNames {
    pub(super) fn new(names: impl IntoIterator<Item = HeaderName>) -> Self {
        let mut guarded = Self { by_form: HashMap::new(), lengths: 0, are_plain: true };
        names.into_iter().for_each(|name| guarded.add(name));
        guarded
    }

    pub(super) fn add(&mut self, name: HeaderName) {
        self.lengths |= length_bit(&name);
        self.are_plain &= is_plain_name(name.as_str().as_bytes());
        self.by_form.entry(folded_name(name.as_str()).into()).or_default().push(name);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeaderName> {
        self.by_form.values().flatten()
    }

    /// Whether some backends treat the name of a field as that of a guarded field.
    pub(super) fn is_disguised_in(&self, headers: &HeaderMap) -> bool {
        self.lengths != 0 && headers.keys().any(|name| self.is_disguised(name))
    }

    fn is_disguised(&self, name: &HeaderName) -> bool {
        if self.lengths & length_bit(name) == 0
            || self.are_plain && is_plain_name(name.as_str().as_bytes())
        {
            return false;
        }
        let same = self.by_form.get(&*folded_name(name.as_str()));
        same.is_some_and(|guarded| !guarded.contains(name))
    }
}

/// A bit for each length of a name; names of 63 bytes and more share one.
fn length_bit(name: &HeaderName) -> u64 {
    1 << name.as_str().len().min(63)
}

/// The fields that identify clients and select routes.
pub(super) fn names(client: &ClientSettings, routes: &[Route]) -> Vec<HeaderName> {
    let mut names = client.api_key.headers.clone();
    if let Some(keys) = &client.keys {
        names.extend(keys.identity_headers.iter().map(|(_, name)| name.clone()));
    }
    if client.classes.as_ref().is_some_and(|classes| classes.has_texts()) {
        names.push(USER_AGENT);
    }
    if let ForwardedHeader::Single(name) = &client.forwarded_header {
        names.push(name.clone());
    }
    if let Some(UserSource::Header(name)) = &client.user {
        names.push(name.clone());
    }
    for route in routes {
        names.extend(route.parts.iter().filter_map(|matched| match &matched.part {
            Part::Header(name) => Some(name.clone()),
            Part::Query(_) | Part::Cookie(_) => None,
        }));
        route.own_keys().for_each(|key| add_key(key, &mut names));
        route.policies.iter().for_each(|policy| add_policy(policy, &mut names));
        for list in &route.access {
            list.keys().for_each(|key| add_key(key, &mut names));
            names.extend(list.header_names().cloned());
        }
    }
    names
}

fn add_policy(policy: &Policy, names: &mut Vec<HeaderName>) {
    add_key(&policy.key, names);
    if let Some(plans) = &policy.plans {
        add_key(&plans.from, names);
    }
    if let Cost::Field { name, .. } = &policy.cost {
        names.push(name.clone());
    }
    if let Some(key) = policy.cost.reservation().and_then(Reservation::model) {
        add_key(key, names);
    }
    names.extend(policy.exempt.headers.iter().map(|(name, _)| name.clone()));
}

fn add_key(key: &KeyExpr, names: &mut Vec<HeaderName>) {
    key.visit(&mut |key| {
        if let KeyExpr::Header(name) = key {
            names.push(name.clone());
        }
    });
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn is_disguised(guarded: &[&str], name: &str) -> bool {
        let name_of = |text: &str| text.parse::<HeaderName>().expect("a name");
        let guarded = GuardedNames::new(guarded.iter().map(|it| name_of(it)));
        let line = (name_of(name), HeaderValue::from_static("x"));
        guarded.is_disguised_in(&HeaderMap::from_iter([line]))
    }

    #[test]
    fn a_guarded_field_has_one_name() {
        for name in ["x_api_key", "x-api_key", "x.api.key"] {
            assert!(is_disguised(&["x-api-key"], name), "{name}");
        }
        for name in ["x-api-key", "x-api-keys", "my_field"] {
            assert!(!is_disguised(&["x-api-key"], name), "{name}");
        }
        assert!(is_disguised(&["api_key"], "api-key"));
        assert!(!is_disguised(&["api_key"], "api_key"));
        assert!(!is_disguised(&["api_key", "api-key"], "api-key"));
        assert!(!is_disguised(&[], "x_api_key"));
        let long = ["x-"; 32].concat();
        let longer = ["x_"; 40].concat();
        assert!(is_disguised(&[&long], &long.replace('-', "_")));
        assert!(!is_disguised(&[&long], &longer));
    }

    proptest! {
        #[test]
        fn a_name_is_disguised_if_another_spelling_of_it_is_guarded(
            guarded in prop::collection::vec("[ab_.-]{1,4}", 0..4),
            name in "[ab_.-]{1,4}",
        ) {
            let guarded: Vec<&str> = guarded.iter().map(|it| &**it).collect();
            let is_other = |it: &&str| folded_name(it) == folded_name(&name);
            let expected = guarded.iter().any(is_other) && !guarded.contains(&&*name);
            prop_assert_eq!(is_disguised(&guarded, &name), expected);
        }
    }
}
