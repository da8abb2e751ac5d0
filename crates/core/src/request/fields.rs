//! The fields of a message, with a filter that answers most lookups.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a message. Most requests have few of the fields that are looked for, so one pass
/// over the names fills a filter of 64 bits (a Bloom filter with one hash function), and a lookup
/// tests a bit first.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    all: &'a HeaderMap,
    names: u64,
}

impl<'a> Fields<'a> {
    /// All fields of a message.
    pub fn of(all: &'a HeaderMap) -> Self {
        Self { all, names: all.keys().fold(0, |names, name| names | bit(name)) }
    }

    /// All fields as a table.
    pub const fn all(self) -> &'a HeaderMap {
        self.all
    }

    /// Whether there is a field with this name.
    #[inline]
    pub fn has(self, name: &HeaderName) -> bool {
        self.may_have(name) && self.all.contains_key(name)
    }

    /// The value of the first field with this name.
    #[inline]
    pub fn get(self, name: &HeaderName) -> Option<&'a HeaderValue> {
        if self.may_have(name) { self.all.get(name) } else { None }
    }

    /// The values of all fields with this name.
    #[inline]
    pub fn get_all(self, name: &HeaderName) -> impl Iterator<Item = &'a HeaderValue> + use<'a> {
        self.may_have(name).then(|| self.all.get_all(name)).into_iter().flatten()
    }

    /// Whether there may be a field with this name. False is certain.
    #[inline]
    fn may_have(self, name: &HeaderName) -> bool {
        self.names & bit(name) != 0
    }
}

/// The bit of a name. The factors were chosen so that none of the names that are looked for shares
/// a bit with a name that browsers commonly send.
#[inline]
fn bit(name: &HeaderName) -> u64 {
    let text = name.as_str().as_bytes();
    let first = text.first().copied().unwrap_or(0);
    let last = text.last().copied().unwrap_or(0);
    let hash = text.len() * 23 + usize::from(first) * 7 + usize::from(last) * 14;
    1 << (hash % 64)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{
        ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, ORIGIN, TRANSFER_ENCODING, UPGRADE,
    };
    use proptest::prelude::*;

    use super::*;

    const VALUE: HeaderValue = HeaderValue::from_static("1");

    proptest! {
        #[test]
        fn no_name_is_missed(names in prop::collection::vec("[a-z][a-z0-9-]{0,20}", 0..30)) {
            let names: Vec<HeaderName> = names.iter().map(|it| it.parse().unwrap()).collect();
            let all: HeaderMap = names.iter().map(|name| (name.clone(), VALUE)).collect();
            let fields = Fields::of(&all);
            for name in &names {
                prop_assert!(fields.has(name) && fields.get(name) == Some(&VALUE));
                prop_assert!(fields.get_all(name).eq(all.get_all(name)));
            }
        }
    }

    #[test]
    fn the_fields_of_a_browser_are_not_taken_for_others() {
        let names = "host connection cache-control sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform \
                     upgrade-insecure-requests user-agent sec-fetch-site sec-fetch-mode \
                     sec-fetch-user sec-fetch-dest accept-encoding accept-language cookie referer \
                     dnt priority if-none-match if-modified-since";
        let names = names.split(' ').map(|it| it.parse::<HeaderName>().expect("a name"));
        let all = names.map(|name| (name, VALUE)).collect();
        let fields = Fields::of(&all);
        for name in
            [ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, ORIGIN, TRANSFER_ENCODING, UPGRADE]
        {
            assert!(!fields.may_have(&name), "{name}");
        }
    }
}
