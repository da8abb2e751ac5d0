//! Conditions of a route on named parts of a request: header fields, parameters of the query, and
//! cookies.
//!
//! A request may have several values of one name, and backends may read any of them. So a
//! condition has three results. If it is met by some readings and not by others, the backend
//! determines the route, and the request is refused.

use std::borrow::Cow;
use std::fmt;

use http::HeaderName;

use crate::policy::{Reading, cookie_readings, parameter_readings};
use crate::request::RequestView;

/// A condition on the values of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMatch {
    /// The part.
    pub part: Part,
    /// What its value must be.
    pub wanted: Wanted,
}

/// A named part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A header field.
    Header(HeaderName),
    /// A parameter of the query, by its decoded name.
    Query(Box<str>),
    /// A cookie.
    Cookie(Box<str>),
}

/// What the value of a part must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Exactly this.
    Equal(Box<[u8]>),
    /// Something that begins so.
    Prefix(Box<[u8]>),
    /// Exactly one of these.
    Any(Vec<Box<[u8]>>),
    /// Anything or nothing: whether the part is there, also with an empty value.
    Present(bool),
}

/// Whether a request meets a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    Yes,
    No,
    /// It depends on the backend.
    Unclear,
}

impl PartMatch {
    /// A header field with exactly this value.
    pub fn header(name: HeaderName, value: &[u8]) -> Self {
        Self { part: Part::Header(name), wanted: Wanted::Equal(value.into()) }
    }

    /// Whether every request that meets `later` meets this one.
    pub(super) fn follows_from(&self, later: &Self) -> bool {
        self.part == later.part && self.wanted.follows_from(&later.wanted)
    }

    /// Whether a request meets it.
    pub(super) fn met(&self, request: &RequestView<'_>) -> Met {
        let mut all: Option<Met> = None;
        let mut see = |reading: Reading<'_>| {
            let met = match reading {
                Reading::Value(value) => Met::of(self.wanted.admits(Some(&value))),
                Reading::Absent => Met::of(self.wanted.admits(None)),
                Reading::Unreadable => Met::Unclear,
            };
            all = Some(all.map_or(met, |before| before.or_else(met)));
        };
        match &self.part {
            Part::Header(name) => {
                let mut lines = request.fields().get_all(name).peekable();
                if lines.peek().is_none() {
                    see(Reading::Absent);
                }
                lines.for_each(|line| see(Reading::Value(Cow::Borrowed(line.as_bytes()))));
            }
            Part::Query(name) => parameter_readings(request.query(), name, see),
            Part::Cookie(name) => cookie_readings(request.headers(), name, see),
        }
        all.unwrap_or(Met::No)
    }
}

impl Met {
    const fn of(is_met: bool) -> Self {
        if is_met { Self::Yes } else { Self::No }
    }

    /// The result of two readings, of which a backend chooses one.
    fn or_else(self, other: Self) -> Self {
        if self == other { self } else { Self::Unclear }
    }

    /// The result of two conditions, both of which must be met.
    pub(super) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unclear,
        }
    }
}

impl Wanted {
    /// Whether the part may have this value. None: the request does not have the part.
    pub(super) fn admits(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (Self::Present(wanted), value) => *wanted == value.is_some(),
            (_, None) => false,
            (Self::Equal(wanted), Some(value)) => **wanted == *value,
            (Self::Prefix(start), Some(value)) => value.starts_with(start),
            (Self::Any(all), Some(value)) => all.iter().any(|wanted| **wanted == *value),
        }
    }

    fn follows_from(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Present(wanted), Self::Present(other)) => wanted == other,
            (_, Self::Present(_)) => false,
            (Self::Present(wanted), _) => *wanted,
            (_, Self::Equal(value)) => self.admits(Some(value)),
            (_, Self::Any(values)) => values.iter().all(|value| self.admits(Some(value))),
            (Self::Prefix(start), Self::Prefix(longer)) => longer.starts_with(start),
            (Self::Equal(_) | Self::Any(_), Self::Prefix(_)) => false,
        }
    }
}

/// The kind and the name, without values: these may be secrets.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query {name}"),
            Self::Cookie(name) => write!(f, "cookie {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::{COOKIE, HeaderValue};
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::testing::cases;

    fn equal(text: &str) -> Wanted {
        Wanted::Equal(text.as_bytes().into())
    }

    fn prefix(text: &str) -> Wanted {
        Wanted::Prefix(text.as_bytes().into())
    }

    fn any(texts: &[&str]) -> Wanted {
        Wanted::Any(texts.iter().map(|text| text.as_bytes().into()).collect())
    }

    fn lines(name: HeaderName, lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (name.clone(), HeaderValue::from_str(line).unwrap())).collect()
    }

    fn by_header(wanted: &Wanted, values: &[&str]) -> Met {
        let name = HeaderName::from_static("x-a");
        let headers = lines(name.clone(), values);
        let request = RequestView::sample("a.test", "/", &headers);
        PartMatch { part: Part::Header(name), wanted: wanted.clone() }.met(&request)
    }

    fn by_query(wanted: &Wanted, query: &str) -> Met {
        let headers = HeaderMap::new();
        let request = RequestView::sample("a.test", "/", &headers).with_query(Some(query));
        PartMatch { part: Part::Query("mode".into()), wanted: wanted.clone() }.met(&request)
    }

    fn by_cookie(wanted: &Wanted, values: &[&str]) -> Met {
        let headers = lines(COOKIE, values);
        let request = RequestView::sample("a.test", "/", &headers);
        PartMatch { part: Part::Cookie("mode".into()), wanted: wanted.clone() }.met(&request)
    }

    #[test]
    fn a_part_meets_a_condition_if_all_readings_do() {
        let yes = Met::Yes;
        let no = Met::No;
        let unclear = Met::Unclear;
        let present = Wanted::Present;
        for (wanted, values, expected) in [
            (equal("a"), &["a"][..], yes),
            (equal("a"), &["b"], no),
            (equal("a"), &[], no),
            (equal("a"), &["a", "a"], yes),
            (equal("a"), &["a", "b"], unclear),
            (prefix("a"), &["ab", "ac"], yes),
            (prefix("a"), &["ab", "b"], unclear),
            (any(&["a", "b"]), &["a", "b"], yes),
            (any(&["a", "b"]), &["a", "c"], unclear),
            (present(true), &[""], yes),
            (present(true), &[], no),
            (present(false), &[], yes),
            (present(false), &["a", "b"], no),
        ] {
            assert_eq!(by_header(&wanted, values), expected, "{wanted:?} {values:?}");
        }
        for (wanted, query, expected) in [
            (equal("a b"), "mode=a+b", no),
            (equal("a+b"), "mode=a+b", yes),
            (equal("a+b"), "m%6fde=a%20b", yes),
            (equal("a"), "x=1&mode=a", yes),
            (equal("a"), "mode=a&mode=b", unclear),
            (any(&["a", "b"]), "mode=a&mode=b", yes),
            (equal("a"), "Mode=a", unclear),
            (equal("a"), "mode=a&Mode=b", unclear),
            (equal("a"), "mode=b&Mode=b", no),
            (equal("a"), "x=1;mode=a", unclear),
            (equal("a"), "mode=a;x=1", unclear),
            (equal("a"), "mode=%", unclear),
            (present(true), "mode", yes),
            (present(true), "mode=", yes),
            (present(false), "modes=1", yes),
            (present(false), "Mode=1", unclear),
        ] {
            assert_eq!(by_query(&wanted, query), expected, "{wanted:?} {query}");
        }
        for (wanted, cookies, expected) in [
            (equal("a"), &["mode=a"][..], yes),
            (equal("a"), &["x=1; mode=\"a\""], yes),
            (equal("a"), &["mode=a; mode=b"], unclear),
            (equal("a"), &["mode=a", "mode=b"], unclear),
            (equal("a"), &["MODE=a"], unclear),
            (equal("a"), &["x=1, mode=a"], unclear),
            (equal("a"), &["mode=\"a"], unclear),
            (present(true), &["mode="], yes),
            (present(false), &["x=1"], yes),
        ] {
            assert_eq!(by_cookie(&wanted, cookies), expected, "{wanted:?} {cookies:?}");
        }
    }

    #[test]
    fn a_part_without_a_readable_end_is_unclear() {
        let many = "&x=1".repeat(2000);
        assert_eq!(by_query(&equal("a"), &format!("mode=a{many}")), Met::Unclear);
        assert_eq!(by_query(&equal("a"), &format!("mode=b{many}")), Met::Unclear);
    }

    fn wanted() -> impl Strategy<Value = Wanted> {
        let text = "[ab]{0,2}";
        prop_oneof![
            text.prop_map(|it| equal(&it)),
            text.prop_map(|it| prefix(&it)),
            prop::collection::vec(text, 1..3)
                .prop_map(|it| any(&it.iter().map(String::as_str).collect::<Vec<_>>())),
            any_bool().prop_map(Wanted::Present),
        ]
    }

    fn any_bool() -> impl Strategy<Value = bool> {
        prop::bool::ANY
    }

    proptest! {
        #![proptest_config(cases())]

        /// What one condition implies holds for every value.
        #[test]
        fn a_condition_follows_from_a_narrower_one(
            mine in wanted(),
            later in wanted(),
            value in prop::option::of("[ab]{0,3}"),
        ) {
            let value = value.as_deref().map(str::as_bytes);
            if mine.follows_from(&later) && later.admits(value) {
                prop_assert!(mine.admits(value), "{mine:?} {later:?} {value:?}");
            }
            prop_assert!(mine.follows_from(&mine));
        }

        /// Two lines are one of the two, and which one depends on the backend.
        #[test]
        fn two_values_are_clear_only_if_both_say_the_same(
            wanted in wanted(),
            values in prop::array::uniform2("[ab]{0,2}"),
        ) {
            let [one, other] = values.each_ref().map(|it| by_header(&wanted, &[it]));
            let both = by_header(&wanted, &[&values[0], &values[1]]);
            prop_assert_eq!(both, if one == other { one } else { Met::Unclear });
        }
    }
}
