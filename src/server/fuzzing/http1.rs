//! Another parser of HTTP/1, made of the one that the HTTP library uses.

use http::{HeaderName, HeaderValue, Method, Uri};
use httparse::{EMPTY_HEADER, Request, Status};
use tollgate_core::request::REFUSED_METHOD;

use super::Head;
use crate::server::http1::guard::REFUSED;
use crate::server::http1::head::Framing;

/// More than the bounds of the fuzz targets allow.
const MAX_FIELDS: usize = 64;

/// A head, and whether it is the request of the guard.
pub struct Read {
    pub head: Head,
    is_refused: bool,
}

/// The complete head at the start of `bytes`, if the library accepts it.
pub fn read_head(bytes: &[u8]) -> Option<Read> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut request = Request::new(&mut fields);
    let Ok(Status::Complete(len)) = request.parse(bytes) else { return None };
    let method = request.method?;
    let version = request.version?;
    Method::from_bytes(method.as_bytes()).ok()?;
    Uri::try_from(request.path?).ok()?;
    let mut framing = Framing::Length(0);
    let mut asks_upgrade = method == "CONNECT";
    for field in &*request.headers {
        HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(field.value).ok()?;
        match &*field.name.to_ascii_lowercase() {
            "upgrade" => asks_upgrade |= version == 1,
            "content-length" => framing = Framing::Length(value.to_str().ok()?.parse().ok()?),
            "transfer-encoding" => framing = Framing::Chunked,
            _ => {}
        }
    }
    let is_refused = method == REFUSED_METHOD;
    Some(Read { head: Head { len, framing, asks_upgrade }, is_refused })
}

/// The length of the chunked body at the start of `bytes`, if it is complete.
pub fn read_chunks(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let Ok(Status::Complete((line, size))) = httparse::parse_chunk_size(&bytes[at..]) else {
            return None;
        };
        at += line;
        if size == 0 {
            break;
        }
        let end = usize::try_from(size).ok().and_then(|size| at.checked_add(size)?.checked_add(2));
        let end = end.filter(|end| *end <= bytes.len())?;
        assert_eq!(&bytes[end - 2..end], b"\r\n", "a chunk ends elsewhere");
        at = end;
    }
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    match httparse::parse_headers(&bytes[at..], &mut fields) {
        Ok(Status::Complete((trailers, _))) => Some(at + trailers),
        _ => None,
    }
}

/// Reads the bytes that passed the guard: complete requests, except for the body of the
/// last one. Returns them without empty lines before heads.
pub fn read_connection(mut seen: &[u8], grants_upgrade: bool) -> Vec<u8> {
    let mut without_empty_lines = Vec::new();
    let mut pass = |bytes: &[u8]| without_empty_lines.extend_from_slice(bytes);
    while !seen.is_empty() {
        let read = read_head(seen).expect("only complete heads that the library accepts pass");
        let empty = seen.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        pass(&seen[empty..read.head.len]);
        if read.is_refused {
            assert_eq!(&seen[empty..], REFUSED, "nothing follows a refused request");
            break;
        }
        seen = &seen[read.head.len..];
        let body = match read.head.framing {
            Framing::Length(length) => usize::try_from(length).ok(),
            Framing::Chunked => read_chunks(seen),
        };
        let end = body.unwrap_or(usize::MAX).min(seen.len());
        let is_over = body.is_none_or(|body| body > seen.len());
        pass(&seen[..end]);
        seen = &seen[end..];
        if is_over || (read.head.asks_upgrade && grants_upgrade) {
            pass(seen);
            break;
        }
    }
    without_empty_lines
}
