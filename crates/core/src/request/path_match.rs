//! The comparison of paths with a route's pattern.
//!
//! Backends differ in whether `/Login`, `/login/` and `/login;x` are the same as `/login`.
//! By default a route matches all of them, so that no client evades its policies by another
//! spelling. A route whose backend is known can select an exact comparison.

use super::pattern;
use super::{PathPattern, Segment, without_parameters};

/// The differences between paths that a route does not ignore. By default it ignores all of
/// these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathMatch {
    /// Whether `/Login` and `/login` are different paths.
    pub exact_case: bool,
    /// Whether `/login/` and `/login` are different paths.
    pub exact_trailing_slash: bool,
    /// Whether `/login;x` and `/login` are different paths (RFC 3986, section 3.3).
    pub exact_parameters: bool,
    /// Whether `/a%2Fb` and `/a/b` are different paths. The router always compares them as
    /// different. If the other interpretation leads to another route, it refuses the
    /// request, unless its route sets this option.
    pub exact_escaped_slash: bool,
}

impl PathMatch {
    /// Whether `pattern` matches `path`, which is in normal form. The caller has checked
    /// that it matches the loose form, which the router compares.
    pub fn admits(self, pattern: &PathPattern, path: &str) -> bool {
        let is_loose = !(self.exact_case || self.exact_trailing_slash || self.exact_parameters);
        if is_loose {
            return true;
        }
        let ends_in_slash = self.segments(path).last() == Some("");
        let is_same_end = ends_in_slash == pattern.ends_in_slash();
        // Slashes at the end do not begin a segment in this comparison.
        let count = self.segments(path).count() - usize::from(ends_in_slash);
        let wanted = pattern.segments.len() - usize::from(pattern.ends_in_slash());
        if !pattern.tail && (count != wanted || self.exact_trailing_slash && !is_same_end) {
            return false;
        }
        pattern.segments.iter().zip(self.segments(path)).all(|(segment, given)| match segment {
            Segment::Literal(text) => self.is_same(text, given),
            Segment::Param(_) => !without_parameters(given).is_empty(),
            Segment::Prefix(start) => {
                given.get(..start.len()).is_some_and(|given| self.is_same(start, given))
            }
        })
    }

    /// The segments of a path, in the form that is compared.
    pub fn segments(self, path: &str) -> impl Iterator<Item = &str> {
        let compared = move |segment| match self.exact_parameters {
            true => segment,
            false => without_parameters(segment),
        };
        pattern::segments(path).map(compared)
    }

    fn is_same(self, text: &str, given: &str) -> bool {
        if self.exact_case { text == given } else { text.eq_ignore_ascii_case(given) }
    }

    /// Whether `mine`, compared by `self`, matches every path that `theirs`, compared by
    /// `later`, matches.
    pub fn covers(self, mine: &PathPattern, later: Self, theirs: &PathPattern) -> bool {
        let leaves_some = self.exact_case && !later.exact_case
            || self.exact_trailing_slash && !later.exact_trailing_slash
            || self.exact_parameters && !later.exact_parameters;
        if leaves_some {
            return false;
        }
        let is_other_end = self.exact_trailing_slash
            && !mine.tail
            && mine.ends_in_slash() != theirs.ends_in_slash();
        !is_other_end && self.known(mine).covers(&self.known(theirs))
    }

    /// The pattern without the ignored differences.
    fn known(self, pattern: &PathPattern) -> PathPattern {
        let mut known = pattern.loose();
        if self.exact_case || self.exact_parameters {
            known.segments.clone_from(&pattern.without_trailing_slash().segments);
        }
        if !self.exact_case && self.exact_parameters {
            known.segments.iter_mut().for_each(Segment::make_lower_case);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{loose_path, normal_path};

    const EXACT: PathMatch = PathMatch {
        exact_case: true,
        exact_trailing_slash: true,
        exact_parameters: true,
        exact_escaped_slash: false,
    };

    fn pattern(text: &str) -> PathPattern {
        text.parse().unwrap()
    }

    fn admits(how: PathMatch, text: &str, path: &str) -> bool {
        how.admits(&pattern(text), &normal_path(path).unwrap())
    }

    #[test]
    fn each_option_makes_one_difference_exact() {
        let case = PathMatch { exact_case: true, ..PathMatch::default() };
        let slash = PathMatch { exact_trailing_slash: true, ..PathMatch::default() };
        let parameters = PathMatch { exact_parameters: true, ..PathMatch::default() };
        let spellings = [("/Login", case), ("/login/", slash), ("/login;x", parameters)];
        for (path, exact) in spellings {
            assert_eq!(loose_path(path), "/login", "the router treats it as /login");
            for how in [PathMatch::default(), case, slash, parameters, EXACT] {
                let is_refused = how == exact || how == EXACT;
                assert_eq!(admits(how, "/login", path), !is_refused, "{path} {how:?}");
            }
        }
        assert!(admits(EXACT, "/login", "/login"));
        assert!(admits(EXACT, "/A.*", "/A.b/c") && !admits(EXACT, "/A.*", "/a.b/c"));
        assert!(admits(EXACT, "/v1/*", "/v1/") && admits(EXACT, "/v1/*", "/v1"));
        assert!(admits(slash, "/login/", "/login/") && !admits(slash, "/login/", "/login"));
        assert!(admits(slash, "/", "/"));
    }

    #[test]
    fn a_route_covers_another_only_if_it_is_not_more_exact() {
        let covers = |how: PathMatch, mine, later, theirs| {
            how.covers(&pattern(mine), later, &pattern(theirs))
        };
        let loose = PathMatch::default();
        assert!(covers(loose, "/Login/", loose, "/login"));
        assert!(covers(loose, "/login", EXACT, "/Login/"));
        assert!(covers(loose, "/login", EXACT, "/login;x"));
        assert!(covers(EXACT, "/login", EXACT, "/login"));
        assert!(covers(EXACT, "/v1/*", EXACT, "/v1/"));
        assert!(!covers(EXACT, "/login", loose, "/login"));
        assert!(!covers(EXACT, "/login", EXACT, "/Login"));
        assert!(!covers(EXACT, "/login", EXACT, "/login/"));
        assert!(!covers(loose, "/", loose, "/login"));
    }
}
