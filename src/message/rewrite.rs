//! Rewrites the target of a forwarded request as its route says.
//!
//! The query and the rest of the path stay as they were sent. Only slashes at the start
//! of the rest become one slash: a backend that redirects to `//name` would send its
//! client to another host.

use http::header::{HOST, HeaderName};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri};
use tollgate_core::request::Malformed;

use super::Failure;

/// The prefix that was removed from the path, for backends that generate links.
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The rewrite of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Removed from the start of the path. Every path of the route begins with it.
    pub strip: Option<Prefix>,
    /// Added before the path. It begins with a slash and does not end with one.
    pub add: Option<Box<str>>,
    /// The value of `Host`. None: the client's value stays.
    pub host: Option<HeaderValue>,
}

/// Whole segments at the start of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Number of segments.
    pub segments: usize,
    /// The text, for `X-Forwarded-Prefix`.
    pub text: HeaderValue,
}

impl Rewrite {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Rewrites the target of a request. The `X-Forwarded-*` fields must have been written
    /// before, without values from clients that are not trusted.
    ///
    /// # Errors
    /// If the new target is longer than the HTTP library supports.
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
        // The parts are valid, so only the length can be wrong.
        let path = PathAndQuery::try_from(text).map_err(|_| Malformed::TargetTooLong)?;
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| Malformed::BadTarget)
    }
}

/// The rest of a path after its first `count` segments, without leading slashes. Several
/// slashes in a row separate two segments, as in the matching of routes.
fn without_segments(path: &str, count: usize) -> &str {
    let mut rest = path.trim_start_matches('/');
    for _ in 0..count {
        rest = rest.find('/').map_or("", |end| rest[end..].trim_start_matches('/'));
    }
    rest
}

/// Writes `X-Forwarded-Prefix`. A proxy in front of the gateway may have removed a prefix
/// too, which was the first part of the original path.
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
    fn whole_segments_are_removed_and_the_rest_stays_as_it_was_sent() {
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
    fn the_backend_is_told_the_prefixes_that_all_proxies_have_removed() {
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
    fn the_host_changes_only_if_the_route_says_so() {
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
