//! Conditions on a request that exemptions and access lists share: its method, its header fields,
//! and the address of its client with its place.

use http::{HeaderName, HeaderValue, Method};

use super::fields::Lack;
use super::{GeoCode, Subject};
use crate::digest::Secret;

/// How many lines of a header field have a wanted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// None of them, or there is no such field.
    None,
    /// Some, but not all: backends may read another value.
    Some,
    /// All of them.
    All,
}

impl Subject<'_, '_> {
    /// Whether the method is one of these. A field that replaces the method makes it ambiguous.
    pub(super) fn has_one_of_methods(&self, methods: &[Method]) -> Result<bool, Lack> {
        self.method().map(|method| methods.contains(method))
    }

    /// How many lines of the field `name` have exactly the value `wanted`. The comparison takes
    /// the same time wherever two values differ, because the value may act as a secret.
    pub(super) fn lines_with(&self, name: &HeaderName, wanted: &HeaderValue) -> Lines {
        let lines = self.request.headers().get_all(name).iter();
        let is_wanted =
            |line: &HeaderValue| are_equal(&self.secret, line.as_bytes(), wanted.as_bytes());
        lines
            .map(is_wanted)
            .map(|is_wanted| if is_wanted { Lines::All } else { Lines::None })
            .reduce(|one, other| if one == other { one } else { Lines::Some })
            .unwrap_or(Lines::None)
    }

    /// Whether the client's address is in one of these places. A place that is not known is in
    /// none of them.
    pub(super) fn is_in_one_of(&self, places: &[GeoCode]) -> bool {
        !places.is_empty() && self.place().is_one_of(places)
    }
}

/// Whether two values are the same. The duration of a comparison of keyed digests does not depend
/// on where two values differ.
fn are_equal(secret: &Secret, one: &[u8], other: &[u8]) -> bool {
    let digest = |value| {
        let mut digest = secret.digest();
        digest.value(value);
        digest.finish()
    };
    digest(one) == digest(other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_values_are_equal_if_their_bytes_are(
            one in prop::collection::vec(any::<u8>(), 0..8),
            other in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let secret = Secret::from_bytes([9; 16]);
            prop_assert_eq!(are_equal(&secret, &one, &other), one == other);
            prop_assert!(are_equal(&secret, &one, &one.clone()));
        }
    }
}
