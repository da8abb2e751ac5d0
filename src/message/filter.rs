//! Which fields outside of a message's head are passed on: those of trailers and those of
//! interim responses. And which fields of a head `Connection` cannot remove.
//!
//! The gateway reads, writes and edits only fields in heads. A backend or a client may
//! merge other fields into the head. Therefore a trailer or an interim response loses
//! each field that has a meaning for the gateway or for its peer's HTTP library, also
//! under another spelling that some backends accept. Unknown fields are passed on.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::Frame;

use tollgate_core::request::folded_name;

/// Fields of one connection (RFC 9110, section 7.6.1), and fields that frame, route,
/// modify, authenticate or control a message, or say how to process its content (section
/// 6.5.1). A `*` matches any suffix.
const OF_HEAD: [&str; 41] = [
    "connection",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-*",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "content-length",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "content-security-policy*",
    "content-type",
    "accept*",
    "access-control-*",
    "if-*",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "x-http-method*",
    "x-method-override",
    "authorization",
    "cookie",
    "set-cookie",
    "www-authenticate",
    "age",
    "cache-control",
    "clear-site-data",
    "date",
    "expires",
    "location",
    "strict-transport-security",
    "vary",
    "warning",
];

/// Fields that the gateway itself writes for the backend or for the client.
const OF_GATEWAY: [&str; 10] = [
    "anthropic-ratelimit-*",
    "forwarded",
    "ratelimit",
    "ratelimit-*",
    "retry-after",
    "via",
    "x-forwarded-*",
    "x-ratelimit-*",
    "x-real-ip",
    "x-request-id",
];

/// Fields by which the gateway identifies or traces a request. Trailers may have them.
const OF_REQUEST: [&str; 6] =
    ["signature", "signature-agent", "signature-input", "traceparent", "tracestate", "user-agent"];

/// Which fields of trailers and of interim responses are passed on, in one
/// direction on one route.
#[derive(Clone, Debug, Default)]
pub struct FieldFilter {
    /// Names that have a meaning in the configuration.
    configured: HashSet<Box<str>>,
}

impl FieldFilter {
    /// A filter that also removes the fields with these names.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n HeaderName>) -> Self {
        let folded = names.into_iter().map(|name| folded_name(name.as_str()).into());
        Self { configured: folded.collect() }
    }

    /// The same frame of a body. Trailers lose the fields that belong in a head. If no
    /// field is left, the frame becomes empty data.
    pub fn frame(&self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let trailers = match frame.into_trailers() {
            Ok(trailers) => trailers,
            Err(frame) => return frame,
        };
        let kept = self.kept(trailers, &[&OF_HEAD, &OF_GATEWAY]);
        if kept.is_empty() { Frame::data(Bytes::new()) } else { Frame::trailers(kept) }
    }

    /// The fields of an interim response, without those that only the final response may
    /// have: fields that the gateway writes, fields that the route edits, and cookies,
    /// which only some clients accept in interim responses.
    pub fn interim(&self, fields: HeaderMap) -> HeaderMap {
        self.kept(fields, &[&OF_GATEWAY, &["set-cookie"]])
    }

    /// Whether a request keeps a field with this name if its `Connection` names it: the gateway reads
    /// or writes such a field, or it is for all recipients (RFC 9110, section 7.6.1). A client that
    /// could remove it would be counted by a key that the backend does not see.
    pub fn keeps_in_head(&self, name: &HeaderName) -> bool {
        name != "http2-settings" && self.is_among(name, &[&OF_HEAD, &OF_GATEWAY, &OF_REQUEST])
    }

    fn kept(&self, fields: HeaderMap, lists: &[&[&str]]) -> HeaderMap {
        let mut kept = HeaderMap::with_capacity(fields.len());
        let mut current = None;
        for (name, value) in fields {
            // Only the first line of a field has its name.
            if let Some(name) = name {
                current = (!self.is_among(&name, lists)).then_some(name);
            }
            if let Some(name) = &current {
                kept.append(name, value);
            }
        }
        kept
    }

    /// Whether a name is in one of these lists, or has a meaning in the configuration.
    fn is_among(&self, name: &HeaderName, lists: &[&[&str]]) -> bool {
        let name = folded_name(name.as_str());
        let is_listed = lists.iter().flat_map(|list| *list).any(|listed| {
            listed.strip_suffix('*').map_or(name == *listed, |prefix| name.starts_with(prefix))
        });
        is_listed || self.configured.contains(&*name)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(names: &[&'static str]) -> HeaderMap {
        let value = HeaderValue::from_static("1");
        names.iter().map(|name| (HeaderName::from_static(name), value.clone())).collect()
    }

    fn trailers(filter: &FieldFilter, names: &[&'static str]) -> Option<HeaderMap> {
        filter.frame(Frame::trailers(fields(names))).into_trailers().ok()
    }

    const UNKNOWN: [&str; 6] =
        ["grpc-status", "grpc-message", "x-checksum", "content-digest", "etag", "server-timing"];

    #[test]
    fn fields_of_heads_are_removed_from_trailers() {
        let names = [
            "connection",
            "proxy-authorization",
            "te",
            "content-length",
            "content-type",
            "host",
            "x-http-method-override",
            "authorization",
            "cookie",
            "set-cookie",
            "if-match",
            "x-forwarded-for",
            "x_forwarded.for",
            "ratelimit",
            "ratelimit-policy",
            "x-ratelimit-remaining",
            "x-request-id",
        ];
        let filter = FieldFilter::default();
        for name in names {
            assert_eq!(trailers(&filter, &[name]), None, "{name}");
            assert_eq!(trailers(&filter, &[name, "x-sum"]), Some(fields(&["x-sum"])), "{name}");
        }
        assert_eq!(trailers(&filter, &UNKNOWN), Some(fields(&UNKNOWN)));
    }

    #[test]
    fn configured_names_are_no_trailers_however_they_are_spelt() {
        let filter = FieldFilter::new(&[HeaderName::from_static("x-user")]);
        for name in ["x-user", "x_user", "x.user"] {
            assert_eq!(trailers(&filter, &[name]), None, "{name}");
        }
        assert_eq!(trailers(&filter, &["x-users"]), Some(fields(&["x-users"])));
    }

    #[test]
    fn all_lines_of_a_field_are_kept_or_removed_together() {
        let filter = FieldFilter::default();
        let mut many = fields(&["x-sum", "cookie"]);
        many.append("x-sum", HeaderValue::from_static("2"));
        many.append("cookie", HeaderValue::from_static("2"));
        let kept = filter.frame(Frame::trailers(many)).into_trailers().unwrap();
        assert_eq!(kept.get_all("x-sum").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(kept.len(), 2);
    }

    #[test]
    fn data_passes_unchanged() {
        let data = FieldFilter::default().frame(Frame::data("data".into())).into_data();
        assert_eq!(data.unwrap(), "data");
    }

    #[test]
    fn an_interim_response_loses_the_fields_of_the_gateway() {
        let filter = FieldFilter::new(&[HeaderName::from_static("x-internal")]);
        let said = fields(&["link", "ratelimit", "retry-after", "set-cookie", "x-internal"]);
        assert_eq!(filter.interim(said), fields(&["link"]));
    }
}
