//! The head of a request in HTTP/1.1, as it is written (RFC 9112, sections 3 and 5).

use std::io::Write as _;

use http::header::{CONTENT_LENGTH, HOST, HeaderName, TRAILER, TRANSFER_ENCODING};
use http::{HeaderValue, Request};
use http_body::Body as _;

use crate::message::{Forwarding, content_length, write_field};
use crate::proxy::body::RequestBody;

/// How the end of the body of a request is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By a length; this number of bytes is to come.
    Length(u64),
    /// By the last chunk. Only trailers with these names were announced.
    Chunked(Vec<HeaderName>),
}

/// Writes the head of `request`, and returns how its body is framed. The target is a path and
/// the host is a field. A request that names no host is for `authority`. The fields about the
/// client are added, if they are given.
pub fn write(
    request: &Request<RequestBody>,
    authority: &HeaderValue,
    forwarding: Option<&Forwarding>,
    text: &mut Vec<u8>,
) -> Framing {
    let uri = request.uri();
    let fields = request.headers();
    text.extend_from_slice(request.method().as_str().as_bytes());
    text.push(b' ');
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    text.extend_from_slice(target.as_bytes());
    text.extend_from_slice(b" HTTP/1.1\r\n");
    let has_body = !request.body().is_end_stream();
    let mut host = None;
    let mut is_chunked = false;
    let mut length = None;
    for (name, value) in fields {
        match *name {
            HOST => host = Some(value),
            // The framing is written below: it must say what is sent, and nothing else.
            TRANSFER_ENCODING => {
                is_chunked = true;
                continue;
            }
            CONTENT_LENGTH => {
                length = content_length(value.as_bytes());
                continue;
            }
            _ => {}
        }
        write_field(name.as_str(), value.as_bytes(), text);
    }
    if host.is_none() {
        let named = uri.authority().map(|named| named.as_str().as_bytes());
        write_field(HOST.as_str(), named.unwrap_or(authority.as_bytes()), text);
    }
    if let Some(forwarding) = forwarding {
        forwarding.write_lines(host, request.version(), text);
    }
    let is_held = request.body().expectation().is_some_and(|expectation| expectation.is_waiting());
    if is_held {
        // The client's own `Expect` was removed: it applies to the gateway alone.
        write_field("expect", b"100-continue", text);
    }
    let framing = match length {
        None if !has_body => Framing::Length(0),
        Some(length) if !has_body || !is_chunked => {
            let length = if has_body { length } else { 0 };
            write!(text, "content-length: {length}\r\n").expect("memory can be written to");
            Framing::Length(length)
        }
        // Over HTTP/2 a body needs neither field.
        _ => {
            write_field(TRANSFER_ENCODING.as_str(), b"chunked", text);
            Framing::Chunked(announced_trailers(request))
        }
    };
    text.extend_from_slice(b"\r\n");
    framing
}

/// The names of the trailers that the request announces.
fn announced_trailers(request: &Request<RequestBody>) -> Vec<HeaderName> {
    let lines = request.headers().get_all(TRAILER).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use http::uri::Scheme;

    use super::*;
    use crate::proxy::endpoint::http2;

    const AUTHORITY: HeaderValue = HeaderValue::from_static("10.0.0.1:80");

    fn request(target: &str, host: Option<&'static str>) -> Request<RequestBody> {
        let mut request = Request::new(RequestBody::EMPTY);
        *request.uri_mut() = target.parse().unwrap();
        request.headers_mut().extend(host.map(|host| (HOST, HeaderValue::from_static(host))));
        request
    }

    fn text(request: &Request<RequestBody>) -> String {
        let mut text = Vec::new();
        assert_eq!(write(request, &AUTHORITY, None, &mut text), Framing::Length(0));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_target_is_a_path_and_the_host_is_a_field() {
        for (target, host, expected) in [
            ("/a?b", Some("a.test"), ("/a?b", "a.test")),
            ("http://a.test:81/a", None, ("/a", "a.test:81")),
            ("http://a.test", Some("b.test"), ("/", "b.test")),
            ("/", None, ("/", "10.0.0.1:80")),
            ("*", None, ("*", "10.0.0.1:80")),
        ] {
            let target = text(&request(target, host));
            let host = expected;
            let expected = format!("GET {} HTTP/1.1\r\nhost: {}\r\n\r\n", host.0, host.1);
            assert_eq!(target, expected);
        }
    }

    /// A request that was not sent over HTTP/2 may be sent to an endpoint that speaks HTTP/1.1.
    #[test]
    fn a_request_can_be_converted_to_http_1_again() {
        let mut request = request("/a?b", Some("a.test"));
        http2::prepare(&mut request, &AUTHORITY, Scheme::HTTP);
        assert_eq!(text(&request), "GET /a?b HTTP/1.1\r\nhost: a.test\r\n\r\n");
    }

    #[test]
    fn a_request_without_a_body_states_none() {
        let mut request = request("/", Some("a.test"));
        let coding = HeaderValue::from_static("chunked");
        request.headers_mut().insert(TRANSFER_ENCODING, coding);
        assert_eq!(text(&request), "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
        for length in ["0", "5"] {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static(length));
            let expected = "GET / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 0\r\n\r\n";
            assert_eq!(text(&request), expected);
        }
    }
}
