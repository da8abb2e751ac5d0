//! Fields that belong to one connection and not to the message (RFC 9110, section 7.6.1),
//! and the id that identifies a request in all logs.

use std::cell::RefCell;
use std::collections::HashSet;

use bytes::BytesMut;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName, MAX_FORWARDS, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Version};
use smallvec::SmallVec;
use tollgate_core::decision::varying;
use tollgate_core::request::Fields;

use super::filter::FieldFilter;
use super::tokens::{has_token, tokens};

/// The field that carries a request's id.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is accepted from a client, so that logs stay readable.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// [`strip_hop_by_hop`] for a request, which keeps `TE: trailers`. It also removes the fields
/// with names that `is_other` selects. `Connection` cannot remove a field that belongs to the head
/// by `filter`: it counts for the gateway, so the backend must see it, too.
pub fn strip_request(
    headers: &mut HeaderMap,
    filter: &FieldFilter,
    is_other: impl Fn(&HeaderName) -> bool,
) {
    let Some(names) = names(headers, |name| is_hop_by_hop(name) || is_other(name)) else { return };
    // Read before `TE` is removed.
    let takes_trailers =
        names.contains(&TE) && headers.get_all(TE).iter().any(|value| has_token(value, "trailers"));
    strip(headers, names, |name| filter.keeps_in_head(name));
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Appends a field to the head of a message in HTTP/1.1 (RFC 9112, section 5).
pub fn write_field(name: &str, value: &[u8], text: &mut Vec<u8>) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

/// Removes the fields of the connection over which a message came: those that `Connection`
/// names, and those that are always hop-by-hop.
///
/// The framing of the message stays, in the one spelling that every reader knows: it was
/// checked when the message was read, and the HTTP library frames the message in the same
/// way for the next hop. `Expect` is removed too: it applies to the gateway, which adds
/// its own on each connection to a next hop.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if let Some(names) = names(headers, is_hop_by_hop) {
        strip(headers, names, |name| KEPT.contains(name));
    }
}

type Names = SmallVec<[HeaderName; 4]>;

/// The names of the fields that are meant, if there are any. Most messages have none, and one pass
/// over all names is cheaper than a lookup of each.
fn names(headers: &HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) -> Option<Names> {
    let mut meant = headers.keys().filter(|name| is_meant(name));
    let first = meant.next()?;
    Some([first].into_iter().chain(meant).cloned().collect())
}

/// Removes or normalizes the fields with these names. `Connection` cannot name those that are kept.
fn strip(headers: &mut HeaderMap, names: Names, is_kept: impl Fn(&HeaderName) -> bool) {
    for name in names {
        match name {
            CONNECTION => strip_named(headers, &is_kept),
            TRANSFER_ENCODING => normalize_coding(headers),
            name => {
                headers.remove(name);
            }
        }
    }
}

/// Only some backends accept `CHUNKED` as `chunked`.
fn normalize_coding(headers: &mut HeaderMap) {
    if let Some(coding) = headers.get_mut(TRANSFER_ENCODING)
        && coding.as_bytes().eq_ignore_ascii_case(b"chunked")
    {
        *coding = HeaderValue::from_static("chunked");
    }
}

/// Whether a field with this name must be removed or normalized.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    let text = name.as_str();
    matches!(*name, CONNECTION | TE | UPGRADE | EXPECT | TRANSFER_ENCODING)
        || text == "keep-alive"
        || text.starts_with("proxy-")
}

/// Fields that a message keeps even if `Connection` names them: without them the next hop would read
/// another message than the gateway. A request keeps more, see [`FieldFilter::keeps_in_head`].
pub const KEPT: [HeaderName; 5] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, X_REQUEST_ID];

/// Removes `Connection` and the fields that it names, except those that are kept.
fn strip_named(headers: &mut HeaderMap, is_kept: &impl Fn(&HeaderName) -> bool) {
    let is_plain = |line: &HeaderValue| {
        let line = line.as_bytes();
        line.eq_ignore_ascii_case(b"keep-alive") || line.eq_ignore_ascii_case(b"close")
    };
    let lines = headers.get_all(CONNECTION).iter().filter(|line| !is_plain(line));
    let tokens = lines.filter_map(|line| line.to_str().ok()).flat_map(tokens);
    let names = tokens.filter_map(|token| token.parse::<HeaderName>().ok());
    // A client can name thousands, and each of them many times. Only those that are there are judged,
    // once each.
    let named: HashSet<HeaderName> = names.filter(|name| headers.contains_key(name)).collect();
    headers.remove(CONNECTION);
    for name in named.iter().filter(|name| !is_kept(name)) {
        headers.remove(name);
    }
}

/// Whether a request has an unknown expectation: any other than `100-continue`. HTTP/1.0
/// has no expectations (RFC 9110, section 10.1.1).
pub fn has_unknown_expectation(version: Version, fields: Fields<'_>) -> bool {
    let is_known = |value: &HeaderValue| {
        value.as_bytes().eq_ignore_ascii_case(b"100-continue") || is_empty_list(value)
    };
    version > Version::HTTP_10 && fields.get_all(&EXPECT).any(|value| !is_known(value))
}

/// Whether a list has no element (RFC 9110, section 5.6.1).
fn is_empty_list(value: &HeaderValue) -> bool {
    value.as_bytes().iter().all(|byte| matches!(byte, b',' | b' ' | b'\t'))
}

/// Whether a client may wait for `100 Continue` before it sends its body. Requests with
/// unknown expectations must have been refused before.
pub fn expects_continue(version: Version, headers: &HeaderMap) -> bool {
    version > Version::HTTP_10 && headers.get_all(EXPECT).iter().any(|value| !is_empty_list(value))
}

/// Decrements `Max-Forwards` of an OPTIONS request. Returns whether the request may be
/// forwarded (RFC 9110, section 7.6.2).
pub fn decrement_max_forwards(method: &Method, headers: &mut HeaderMap) -> bool {
    if method != Method::OPTIONS {
        return true;
    }
    let Some(left) = headers.get_mut(MAX_FORWARDS) else {
        return true;
    };
    // An invalid number is treated as 0.
    let hops = left.to_str().ok().and_then(|text| text.parse::<u32>().ok());
    let Some(fewer) = hops.and_then(|hops| hops.checked_sub(1)) else {
        return false;
    };
    *left = HeaderValue::from(fewer);
    true
}

/// Joins the lines into which HTTP/2 allows a client to split its cookies (RFC 9113,
/// section 8.2.3). HTTP/1.1 allows only one line.
pub fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(COOKIE).iter();
    if lines.nth(1).is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&lines.join(&b"; "[..]));
    headers.insert(COOKIE, joined.expect("valid values joined with `; ` are a valid value"));
}

/// The request's id: the client's id if it is short and printable, else a new one.
pub fn request_id(fields: Fields<'_>) -> RequestId {
    let is_usable = |id: &HeaderValue| {
        (1..=MAX_REQUEST_ID_BYTES).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    let mut lines = fields.get_all(&X_REQUEST_ID);
    // With several ids the backend could log another one than the gateway.
    if let (Some(id), None) = (lines.next(), lines.next())
        && is_usable(id)
    {
        return RequestId { id: varying(id.clone()), is_new: false };
    }
    RequestId { id: varying(new_request_id(fastrand::u128(..))), is_new: true }
}

/// The id of a request.
#[must_use = "the backend logs it"]
pub struct RequestId {
    id: HeaderValue,
    is_new: bool,
}

impl RequestId {
    /// Writes the id into the request, so that the backend can log it.
    pub fn write(self, headers: &mut HeaderMap) -> HeaderValue {
        if self.is_new {
            headers.insert(X_REQUEST_ID, self.id.clone());
        }
        self.id
    }
}

/// How many ids share a piece of memory. An id that is kept keeps the others.
const ID_COUNT: usize = 16;

thread_local! {
    /// Where ids are written. One alone would need two allocations, because it is used twice.
    static IDS: RefCell<BytesMut> = RefCell::default();
}

/// 32 hexadecimal digits.
fn new_request_id(random: u128) -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(random.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    let text = IDS.with_borrow_mut(|ids| {
        if ids.capacity() < text.len() {
            *ids = BytesMut::with_capacity(ID_COUNT * text.len());
        }
        ids.extend_from_slice(&text);
        ids.split().freeze()
    });
    HeaderValue::from_maybe_shared(text).expect("hexadecimal digits are visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn fields_of_the_connection_are_removed() {
        let mut headers = fields(&[
            ("connection", "keep-alive, X-Hop,, bad name, TE"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eDp5"),
            ("te", "gzip, Trailers"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("accept", "*/*"),
        ]);
        let mut response = headers.clone();
        headers.insert("x-other", HeaderValue::from_static("1"));
        strip_hop_by_hop(&mut response);
        assert_eq!(response, fields(&[("accept", "*/*")]));
        strip_request(&mut headers, &FieldFilter::default(), |name| name == "x-other");
        assert_eq!(headers, fields(&[("te", "trailers"), ("accept", "*/*")]));
    }

    #[test]
    fn connection_cannot_remove_what_the_gateway_has_read_in_a_request() {
        let read = HeaderName::from_static("x-api-key");
        let filter = FieldFilter::new([&read]);
        let kept = [
            ("x-api-key", "k"),
            ("authorization", "Bearer t"),
            ("cookie", "a=1"),
            ("content-type", "application/json"),
            ("x-forwarded-for", "192.0.2.7"),
            ("traceparent", "00-1"),
        ];
        let mut headers = fields(&kept);
        let names: Vec<&str> = kept.map(|(name, _)| name).to_vec();
        let named = format!("{}, x-hop, HTTP2-Settings", names.join(", "));
        headers.insert(CONNECTION, named.parse().expect("a list of names"));
        headers.extend(fields(&[("x-hop", "1"), ("http2-settings", "AAMAAABk")]));
        strip_request(&mut headers, &filter, |_| false);
        assert_eq!(headers, fields(&kept));
    }

    #[test]
    fn each_line_of_connection_names_fields() {
        let mut headers = fields(&[
            ("connection", "keep-alive"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("accept", "*/*"),
        ]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers, fields(&[("accept", "*/*")]));
    }

    #[test]
    fn connection_cannot_remove_fields_that_frame_address_or_trace_the_message() {
        let kept = [("host", "a"), ("content-length", "3"), ("x-request-id", "id-1")];
        let mut headers = fields(&kept);
        let named = HeaderValue::from_static("host, content-length, x-request-id, close");
        headers.insert(CONNECTION, named);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers, fields(&kept));
    }

    #[test]
    fn the_framing_is_written_as_all_backends_read_it() {
        for (coding, spelt) in [("CHUNKED", "chunked"), ("gzip, Chunked", "gzip, Chunked")] {
            let mut headers = fields(&[("transfer-encoding", coding)]);
            strip_hop_by_hop(&mut headers);
            assert_eq!(headers, fields(&[("transfer-encoding", spelt)]));
        }
    }

    #[test]
    fn the_only_expectation_is_100_continue() {
        for (version, value, unknown) in [
            (Version::HTTP_11, "100-Continue", false),
            (Version::HTTP_11, "100-continue, 200-ok", true),
            (Version::HTTP_2, "", false),
            (Version::HTTP_11, " , ", false),
            (Version::HTTP_10, "200-ok", false),
        ] {
            let headers = fields(&[("expect", value)]);
            let is_unknown = has_unknown_expectation(version, Fields::of(&headers));
            assert_eq!(is_unknown, unknown, "{version:?} {value}");
        }
        assert!(!has_unknown_expectation(Version::HTTP_11, Fields::of(&HeaderMap::new())));
    }

    #[test]
    fn max_forwards_bounds_the_hops_of_options() {
        for (method, hops, after) in [
            (Method::OPTIONS, "2", Some("1")),
            (Method::OPTIONS, "1", Some("0")),
            (Method::OPTIONS, "0", None),
            (Method::OPTIONS, "many", None),
            (Method::GET, "0", Some("0")),
        ] {
            let mut headers = HeaderMap::new();
            assert!(decrement_max_forwards(&method, &mut headers), "any number");
            headers.insert(MAX_FORWARDS, HeaderValue::from_static(hops));
            assert_eq!(
                decrement_max_forwards(&method, &mut headers),
                after.is_some(),
                "{method} {hops}"
            );
            assert!(after.is_none_or(|after| headers[MAX_FORWARDS] == after), "{method} {hops}");
        }
    }

    #[test]
    fn cookies_in_several_lines_become_one_line() {
        let mut headers = fields(&[("cookie", "a=1"), ("accept", "*/*")]);
        join_cookies(&mut headers);
        assert_eq!(headers, fields(&[("cookie", "a=1"), ("accept", "*/*")]));
        headers.append(COOKIE, HeaderValue::from_static("b=2; c=3"));
        headers.append(COOKIE, HeaderValue::from_static("d=4"));
        join_cookies(&mut headers);
        assert_eq!(headers, fields(&[("accept", "*/*"), ("cookie", "a=1; b=2; c=3; d=4")]));
    }

    fn identify(headers: &mut HeaderMap) -> HeaderValue {
        request_id(Fields::of(headers)).write(headers)
    }

    #[test]
    fn a_usable_request_id_is_kept() {
        let mut headers = fields(&[("x-request-id", "abc-123")]);
        let id = identify(&mut headers);
        assert_eq!(id, "abc-123");
        assert!(id.is_sensitive(), "HTTP/2 does not enter it into its table");
        assert_eq!(headers["x-request-id"], "abc-123");
    }

    #[test]
    fn an_unusable_request_id_is_replaced() {
        for bad in ["", "two words", &"x".repeat(129)] {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_str(bad).expect("a value"));
            let id = identify(&mut headers);
            assert!(id.len() == 32 && id.is_sensitive(), "{bad:?}");
            assert_eq!(headers[X_REQUEST_ID], id);
        }
        let mut headers = fields(&[("x-request-id", "one")]);
        headers.append(X_REQUEST_ID, HeaderValue::from_static("two words"));
        let id = identify(&mut headers);
        assert_eq!(headers.get_all(X_REQUEST_ID).iter().collect::<Vec<_>>(), [&id]);
        assert_eq!(id.len(), 32);
        assert_eq!(new_request_id(0xabc), "00000000000000000000000000000abc");
    }
}
