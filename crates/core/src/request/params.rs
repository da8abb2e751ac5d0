//! The parameters of a matched path.

use std::fmt;

use super::{PathMatch, PathPattern, Segment};

/// Path parameters by name: a view of the pattern and of the path that it matched. It
/// stores no values, so it needs no bound. A look-up takes as many steps as the pattern has
/// segments.
#[derive(Clone, Copy)]
pub struct Params<'a>(Option<Matched<'a>>);

#[derive(Clone, Copy)]
struct Matched<'a> {
    pattern: &'a PathPattern,
    how: PathMatch,
    path: &'a str,
}

impl<'a> Params<'a> {
    /// The parameters of `path`, which matches `pattern`.
    pub const fn new(pattern: &'a PathPattern, how: PathMatch, path: &'a str) -> Self {
        Self(Some(Matched { pattern, how, path }))
    }

    /// No parameters, for requests without a route.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// The value of the parameter `name`, as the path contains it.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// All parameters, name and value, in the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let pairs = self.0.into_iter().flat_map(|Matched { pattern, how, path }| {
            pattern.segments.iter().zip(how.segments(path))
        });
        pairs.filter_map(|(segment, value)| match segment {
            Segment::Param(name) => Some((&**name, value)),
            Segment::Literal(_) | Segment::Prefix(_) => None,
        })
    }
}

/// As a map from name to value.
impl fmt::Debug for Params<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_slices_of_the_path() {
        let pattern: PathPattern = "/t/{tenant}/{id}/*".parse().unwrap();
        let how = PathMatch::default();
        let path = "/t/acme;v=1/a%2Fb/rest/of/it";
        let params = Params::new(&pattern, how, path);
        assert_eq!(params.get("tenant"), Some("acme"));
        assert_eq!(params.get("id"), Some("a%2Fb"));
        assert_eq!(params.get("rest"), None);
        assert_eq!(format!("{params:?}"), r#"{"tenant": "acme", "id": "a%2Fb"}"#);
        let how = PathMatch { exact_parameters: true, ..how };
        assert_eq!(Params::new(&pattern, how, path).get("tenant"), Some("acme;v=1"));
    }
}
