//! The target of a forwarded request, where a route gives it another one.
//!
//! The query is never touched, and neither is what is left of the path: it goes
//! on as it was written, but for slashes at its start, of which one is left. A
//! backend that answers with a redirect to `//name` leads elsewhere.

use http::header::{HOST, HeaderName};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri};

use super::Failure;
use crate::request::Malformed;

/// What was taken from the start of the path, for backends that make links.
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Another target for the requests of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Taken from the start of the path; every path of the route begins so.
    pub strip: Option<Prefix>,
    /// Put before the path; begins with a slash and does not end with one.
    pub add: Option<Box<str>>,
    /// The value of `Host`; none: as the client sent it.
    pub host: Option<HeaderValue>,
}

/// Whole segments at the start of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// How many they are: all that is needed to take them away.
    pub segments: usize,
    /// The text, as backends are told of it.
    pub text: HeaderValue,
}

impl Rewrite {
    /// Whether everything stays as it is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Gives a request its target. Fields that say whom the client asked for
    /// must have been written, and must have been cleaned of what a client that
    /// is not trusted says.
    ///
    /// # Errors
    /// If the new target is longer than the HTTP library can hold.
    pub fn apply(&self, head: &mut Parts) -> Result<(), Failure> {
        if let Some(prefix) = &self.strip {
            add_prefix_field(&mut head.headers, &prefix.text);
        }
        if self.strip.is_some() || self.add.is_some() {
            head.uri = self.target(&head.uri)?;
        }
        if let Some(host) = &self.host {
            head.headers.insert(HOST, host.clone());
        }
        Ok(())
    }

    fn target(&self, uri: &Uri) -> Result<Uri, Malformed> {
        // The target of OPTIONS for the whole server has no path.
        if !uri.path().starts_with('/') {
            return Ok(uri.clone());
        }
        let skipped = self.strip.as_ref().map_or(0, |prefix| prefix.segments);
        let mut text = String::from(self.add.as_deref().unwrap_or_default());
        text.push('/');
        text.push_str(without_segments(uri.path(), skipped));
        if let Some(query) = uri.query() {
            text.push('?');
            text.push_str(query);
        }
        let mut parts = uri.clone().into_parts();
        // Its pieces come from such texts, so only their length can be wrong.
        let path = PathAndQuery::try_from(text).map_err(|_| Malformed::TargetTooLong)?;
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| Malformed::BadTarget)
    }
}

/// What follows the first `count` segments of a path, without slashes before it.
/// Slashes in a row part two segments, as they do where routes are matched.
fn without_segments(path: &str, count: usize) -> &str {
    let mut rest = path.trim_start_matches('/');
    for _ in 0..count {
        rest = rest.find('/').map_or("", |end| rest[end..].trim_start_matches('/'));
    }
    rest
}

/// A proxy before us may have taken a prefix, too: that was the first part of it.
fn add_prefix_field(headers: &mut HeaderMap, prefix: &HeaderValue) {
    let earlier = headers.get(X_FORWARDED_PREFIX).map(HeaderValue::as_bytes);
    let whole = earlier.map(|earlier| [earlier, prefix.as_bytes()].concat());
    let whole = whole.and_then(|whole| HeaderValue::from_bytes(&whole).ok());
    headers.insert(X_FORWARDED_PREFIX, whole.unwrap_or_else(|| prefix.clone()));
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    fn rewrite(segments: usize, add: &str) -> Rewrite {
        let text = HeaderValue::from_static("/prefix");
        Rewrite {
            strip: (segments > 0).then_some(Prefix { segments, text }),
            add: (!add.is_empty()).then(|| add.into()),
            host: None,
        }
    }

    fn target(rewrite: &Rewrite, target: &str) -> String {
        let uri: Uri = target.parse().expect("a target");
        rewrite.target(&uri).expect("a target").to_string()
    }

    #[test]
    fn whole_segments_are_taken_away_and_the_rest_stays_as_it_was_written() {
        let cases = [
            (1, "", "/v1/orders/7?a=%20&b", "/orders/7?a=%20&b"),
            (1, "", "/v1", "/"),
            (1, "", "/v1?q", "/?q"),
            (1, "", "/v1/", "/"),
            (2, "", "/a/b/c//d%2Fe/", "/c//d%2Fe/"),
            (1, "", "//v1///evil.example/x", "/evil.example/x"),
            (1, "", "http://a.example/v1/x?q", "http://a.example/x?q"),
            (0, "/api", "/x?q", "/api/x?q"),
            (0, "/api", "//x", "/api/x"),
            (1, "/v2", "/v1/x", "/v2/x"),
            (1, "/v2", "/v1", "/v2/"),
            (1, "/v2", "*", "*"),
        ];
        for (segments, add, from, to) in cases {
            assert_eq!(target(&rewrite(segments, add), from), to, "{from}");
        }
    }

    #[test]
    fn the_backend_learns_what_was_taken_away_from_all_who_took() {
        let prefixes = |sent: Option<&str>| {
            let mut request = Request::builder().uri("/v1/x");
            if let Some(sent) = sent {
                request = request.header(X_FORWARDED_PREFIX, sent);
            }
            let (mut head, ()) = request.body(()).expect("a request").into_parts();
            rewrite(1, "").apply(&mut head).expect("a short target");
            head.headers[X_FORWARDED_PREFIX].to_str().expect("ASCII").to_owned()
        };
        assert_eq!(prefixes(None), "/prefix");
        assert_eq!(prefixes(Some("/shop")), "/shop/prefix");
    }

    #[test]
    fn the_host_is_another_one_only_if_said() {
        let request = || Request::builder().uri("/x").header(HOST, "a.example").body(());
        let (mut head, ()) = request().expect("a request").into_parts();
        Rewrite::default().apply(&mut head).expect("a short target");
        assert_eq!(head.headers[HOST], "a.example");
        let host = Some(HeaderValue::from_static("b.example"));
        Rewrite { host, ..Rewrite::default() }.apply(&mut head).expect("a short target");
        assert_eq!(head.headers[HOST], "b.example");
        assert_eq!(head.uri, "/x");
    }

    #[test]
    fn a_target_that_grows_too_long_is_refused() {
        const LONGEST: usize = 65_534;
        let target = |length: usize| {
            let uri: Uri = format!("/{}", "x".repeat(length - 1)).parse().expect("a target");
            rewrite(0, "/api").target(&uri).map(|uri| uri.path().len())
        };
        assert_eq!(target(LONGEST - 4), Ok(LONGEST));
        assert_eq!(target(LONGEST - 3), Err(Malformed::TargetTooLong));
        assert_eq!(target(LONGEST), Err(Malformed::TargetTooLong));
    }

    proptest! {
        #[test]
        fn a_target_begins_with_one_slash_and_keeps_its_query(
            path in "/[a-z/%2F.]{0,20}",
            query in "[a-z=&%/?]{0,10}",
            segments in 0..4_usize,
        ) {
            let uri: Uri = format!("{path}?{query}").parse().expect("a target");
            let target = rewrite(segments, "/p").target(&uri).expect("a short target");
            prop_assert_eq!(target.query(), Some(&*query));
            let rest = target.path().strip_prefix("/p/").expect("the prefix, and a slash");
            prop_assert!(!rest.starts_with('/'));
            prop_assert!(path.ends_with(rest));
        }
    }
}
