//! The head of a response in HTTP/1 (RFC 9112, sections 4 and 5).

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use httparse::{Header, Status};
use hyper::ext::ReasonPhrase;
use tollgate_core::request::Fields;

use crate::message::{
    BadLength, MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES, empty_table, has_token,
    merge_content_lengths,
};
use crate::proxy::fault::Fault;

/// Room for the fields that the gateway adds to a response, so that the map does not grow.
const OWN_FIELDS: usize = 7;

/// How the end of a body is determined (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The number of bytes; 0: there is no body.
    Length(u64),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Closed,
    /// There is no body, whatever the fields say.
    Without {
        /// Whether the fields say that there is one, so that an endpoint that does not know the
        /// rules may send it nevertheless.
        is_announced: bool,
    },
}

/// The head of a response.
#[derive(Debug)]
pub struct Head {
    pub response: Response<()>,
    /// Whether the connection can carry another request after the response (RFC 9112, section
    /// 9.3).
    pub keeps_alive: bool,
}

/// Parses the head at the start of `bytes`, and returns it with its length. None if it is not
/// complete. The values of the fields share the memory of `bytes`.
///
/// # Errors
/// If it is malformed or too large.
pub fn parse(bytes: &Bytes) -> Result<Option<(Head, usize)>, Fault> {
    let mut room = [const { MaybeUninit::uninit() }; MAX_RESPONSE_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut parsed, bytes, &mut room) {
        Ok(Status::Complete(length)) if length <= MAX_RESPONSE_HEAD_BYTES => length,
        Ok(Status::Partial) if bytes.len() < MAX_RESPONSE_HEAD_BYTES => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Fault::HeadTooLarge),
        Err(_) => return Err(Fault::Unreadable),
    };
    let mut response = Response::new(());
    let status = StatusCode::from_u16(parsed.code.unwrap_or_default());
    *response.status_mut() = status.map_err(|_| Fault::Unreadable)?;
    *response.version_mut() = match parsed.version {
        Some(1) => Version::HTTP_11,
        _ => Version::HTTP_10,
    };
    if parsed.reason != response.status().canonical_reason()
        && let Some(Ok(reason)) =
            parsed.reason.map(|reason| ReasonPhrase::try_from(reason.as_bytes()))
    {
        response.extensions_mut().insert(reason);
    }
    let mut options = ConnectionOptions::default();
    let is_kept = |name: &HeaderName, line: &HeaderValue| *name != CONNECTION || options.read(line);
    *response.headers_mut() = fields(bytes, parsed.headers, is_kept)?;
    let keeps_alive = options.keep_alive(response.status(), response.version());
    Ok(Some((Head { response, keeps_alive }, length)))
}

/// The parsed fields that `is_kept` selects. Their values are parts of `bytes`.
fn fields(
    bytes: &Bytes,
    parsed: &[Header<'_>],
    mut is_kept: impl FnMut(&HeaderName, &HeaderValue) -> bool,
) -> Result<HeaderMap, Fault> {
    let mut fields = empty_table(parsed.len() + OWN_FIELDS);
    for field in parsed {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value));
        let (Ok(name), Ok(value)) = (name, value) else { return Err(Fault::Unreadable) };
        if is_kept(&name, &value) {
            fields.append(name, value);
        }
    }
    Ok(fields)
}

/// Parses the trailer section of a chunked body, with its empty line.
///
/// # Errors
/// If it is malformed.
pub fn parse_trailers(bytes: &Bytes) -> Result<HeaderMap, Fault> {
    let mut room = [httparse::EMPTY_HEADER; MAX_RESPONSE_FIELDS];
    match httparse::parse_headers(bytes, &mut room) {
        Ok(Status::Complete((_, parsed))) => fields(bytes, parsed, |_, _| true),
        _ => Err(Fault::Unreadable),
    }
}

/// How the body of the response to a request with `method` ends. Equal lengths are merged.
///
/// # Errors
/// If the length is invalid, a transfer coding is not ASCII, or HTTP/1.0 has one.
pub fn framing(response: &mut Response<()>, method: &Method) -> Result<Framing, Fault> {
    if has_no_body(response.status(), method) {
        return Ok(Framing::Without { is_announced: announces_body(response, method) });
    }
    let codings = || Fields::of(response.headers()).get_all(&TRANSFER_ENCODING);
    // The name of a coding is a token (RFC 9112, section 7). Clients read a line with other bytes
    // in different ways.
    if codings().any(|line| line.to_str().is_err()) {
        return Err(Fault::Unreadable);
    }
    match (codings().last().map(ends_chunked), response.version()) {
        (Some(_), Version::HTTP_10) => Err(Fault::Unreadable),
        (Some(true), _) => Ok(Framing::Chunked),
        (Some(false), _) => Ok(Framing::Closed),
        (None, _) => match merge_content_lengths(response.headers_mut()) {
            Ok(length) => Ok(length.map_or(Framing::Closed, Framing::Length)),
            Err(BadLength) => Err(Fault::Unreadable),
        },
    }
}

/// Whether a response with this status to a request with this method has no body, whatever its
/// fields say.
fn has_no_body(status: StatusCode, method: &Method) -> bool {
    is_bare(status) || method == Method::HEAD
}

/// Whether a response with this status has no body, whatever its request was.
fn is_bare(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::SWITCHING_PROTOCOLS | StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    )
}

/// Whether the fields of a response that has no body say that there is one. A response to HEAD
/// without a length has the fields of one whose body ends with its connection.
fn announces_body(response: &Response<()>, method: &Method) -> bool {
    let fields = response.headers();
    let has_length = |length: &HeaderValue| length.as_bytes() != b"0";
    let is_bare = is_bare(response.status());
    fields.contains_key(TRANSFER_ENCODING)
        || fields.get(CONTENT_LENGTH).map_or(method == Method::HEAD && !is_bare, has_length)
}

/// Whether the last of these codings is `chunked`.
fn ends_chunked(codings: &HeaderValue) -> bool {
    let last = codings.as_bytes().rsplit(|byte| *byte == b',').next();
    last.is_some_and(|last| last.trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// What the field `Connection` of a response says of the connection.
#[derive(Debug, Default)]
struct ConnectionOptions {
    has_close: bool,
    has_keep_alive: bool,
}

impl ConnectionOptions {
    /// Reads a line of the field. Returns whether the line has to be kept: it may say more.
    fn read(&mut self, line: &HeaderValue) -> bool {
        let close = has_token(line, "close");
        let keep_alive = has_token(line, "keep-alive");
        self.has_close |= close;
        self.has_keep_alive |= keep_alive;
        !(close || keep_alive) || line.as_bytes().contains(&b',')
    }

    fn keep_alive(&self, status: StatusCode, version: Version) -> bool {
        let is_kept = match version {
            Version::HTTP_11 => !self.has_close,
            _ => self.has_keep_alive,
        };
        is_kept && status != StatusCode::SWITCHING_PROTOCOLS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Option<(Head, usize)>, Fault> {
        parse(&Bytes::copy_from_slice(text.as_bytes()))
    }

    fn response(text: &str) -> Response<()> {
        parsed(text).unwrap().expect("a whole head").0.response
    }

    #[test]
    fn a_head_is_a_status_line_and_fields() {
        let head = "HTTP/1.1 404 Gone Fishing\r\nA: 1\r\nb:2 \r\na: é\r\n\r\n";
        let (Head { response, .. }, length) = parsed(&format!("{head}rest")).unwrap().unwrap();
        assert_eq!((length, response.status()), (head.len(), StatusCode::NOT_FOUND));
        let all: Vec<_> = response.headers().get_all("a").iter().collect();
        assert_eq!(
            all,
            ["1", "é"].map(|it| HeaderValue::from_bytes(it.as_bytes()).unwrap()).each_ref()
        );
        assert_eq!(response.headers()["b"], "2");
        let reason = response.extensions().get::<ReasonPhrase>().expect("not the usual one");
        assert_eq!(reason.as_bytes(), b"Gone Fishing");
        let usual = self::response("HTTP/1.0 200 OK\r\n\r\n");
        assert_eq!(usual.version(), Version::HTTP_10);
        assert!(usual.extensions().get::<ReasonPhrase>().is_none());
    }

    #[test]
    fn a_head_that_is_no_http_or_too_large_is_refused() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MAX_RESPONSE_FIELDS + 1));
        let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(MAX_RESPONSE_HEAD_BYTES));
        let endless = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MAX_RESPONSE_HEAD_BYTES));
        for (text, fault) in [
            ("HTTP/2.0 200 OK\r\n\r\n", Fault::Unreadable),
            ("SSH-2.0-OpenSSH\r\n\r\n", Fault::Unreadable),
            ("HTTP/1.1 20 OK\r\n\r\n", Fault::Unreadable),
            ("HTTP/1.1 099 OK\r\n\r\n", Fault::Unreadable),
            ("HTTP/1.1 200 OK\r\na : b\r\n\r\n", Fault::Unreadable),
            ("HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n", Fault::Unreadable),
            ("HTTP/1.1 200 OK\r\na: \0\r\n\r\n", Fault::Unreadable),
            (&many, Fault::HeadTooLarge),
            (&long, Fault::HeadTooLarge),
            (&endless, Fault::HeadTooLarge),
        ] {
            assert_eq!(parsed(text).unwrap_err(), fault, "{text:.40}");
        }
    }

    proptest! {
        /// Bytes that follow do not change a head, and a part of it is not one.
        #[test]
        fn a_head_ends_with_its_empty_line(cut in 0..60_usize, more in ".{0,20}") {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: backend\r\n\r\n";
            let text = format!("{head}{more}");
            let (_, length) = parsed(&text).unwrap().unwrap();
            prop_assert_eq!(length, head.len());
            let part = &head[..cut.min(head.len() - 1)];
            prop_assert!(part.is_empty() || parsed(part).unwrap().is_none(), "{part}");
        }
    }

    /// The rules of RFC 9112, section 6.3.
    #[test]
    fn the_end_of_a_body_follows_from_the_head() {
        let framing = |lines: &str, method: &Method| {
            framing(&mut response(&format!("HTTP/1.{lines}\r\n\r\n")), method)
        };
        for (lines, expected) in [
            ("1 200 OK\r\nContent-Length: 5", Ok(Framing::Length(5))),
            ("1 200 OK\r\nContent-Length: 5, 5\r\nContent-Length: 5", Ok(Framing::Length(5))),
            ("1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6", Err(Fault::Unreadable)),
            ("1 200 OK\r\nContent-Length: +5", Err(Fault::Unreadable)),
            ("1 200 OK\r\nContent-Length: ", Err(Fault::Unreadable)),
            ("1 200 OK\r\nTransfer-Encoding: Chunked", Ok(Framing::Chunked)),
            ("1 200 OK\r\nTransfer-Encoding: gzip, chunked", Ok(Framing::Chunked)),
            ("1 200 OK\r\nTransfer-Encoding: chunked, gzip", Ok(Framing::Closed)),
            ("1 200 OK\r\nTransfer-Encoding: \u{e9}, chunked", Err(Fault::Unreadable)),
            ("0 200 OK\r\nTransfer-Encoding: chunked", Err(Fault::Unreadable)),
            ("0 200 OK", Ok(Framing::Closed)),
        ] {
            assert_eq!(framing(lines, &Method::GET), expected, "{lines}");
        }
        for (lines, method, is_announced) in [
            ("1 204 No Content", Method::GET, false),
            ("1 204 No Content\r\nContent-Length: 0", Method::GET, false),
            ("1 204 No Content\r\nContent-Length: 5", Method::GET, true),
            ("1 304 Not Modified\r\nContent-Length: 5", Method::GET, true),
            ("1 304 Not Modified\r\nTransfer-Encoding: chunked", Method::GET, true),
            ("1 304 Not Modified", Method::HEAD, false),
            ("1 101 Switching Protocols", Method::GET, false),
            ("1 200 OK\r\nContent-Length: 5", Method::HEAD, true),
            ("1 200 OK\r\nContent-Length: 0", Method::HEAD, false),
            ("1 200 OK\r\nTransfer-Encoding: chunked", Method::HEAD, true),
            ("1 200 OK", Method::HEAD, true),
        ] {
            let expected = Ok(Framing::Without { is_announced });
            assert_eq!(framing(lines, &method), expected, "{method} {lines}");
        }
    }

    #[test]
    fn a_connection_is_kept_as_its_version_and_its_options_say() {
        for (lines, expected) in [
            ("1 200 OK", true),
            ("1 200 OK\r\nConnection: keep-alive", true),
            ("1 200 OK\r\nConnection: x, Close", false),
            ("1 200 OK\r\nConnection: x\r\nConnection: close", false),
            ("0 200 OK", false),
            ("0 200 OK\r\nConnection: Keep-Alive", true),
            ("1 101 Switching Protocols", false),
        ] {
            let (head, _) = parsed(&format!("HTTP/1.{lines}\r\n\r\n")).unwrap().unwrap();
            assert_eq!(head.keeps_alive, expected, "{lines}");
            // A line that says more is kept: it names fields, or another protocol.
            let says_more = lines.contains(" x");
            assert_eq!(head.response.headers().contains_key(CONNECTION), says_more, "{lines}");
        }
    }
}
