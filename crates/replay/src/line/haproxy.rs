//! HAProxy's lines of `option httplog` and `option httpslog` (HAProxy configuration manual,
//! section 8.2, "Log formats"):
//!
//! `CLIENT:PORT [ACCEPTED] FRONTEND BACKEND/SERVER TR/Tw/Tc/Tr/Ta STATUS BYTES COOKIE COOKIE STATE
//! CONNECTIONS QUEUES {REQUEST FIELDS} {RESPONSE FIELDS} "REQUEST"`
//!
//! The parts in braces are there if fields are captured. `option httplog clf` writes the
//! [common format](super::common). The time is that of the first byte of the request, without
//! a zone.

use std::borrow::Cow;

use memchr::{memchr, memrchr};

use super::fields::{Line, Mark, Parsed};
use super::text::{Cursor, client_before_port, hex, number, request_line};
use super::time;

/// How HAProxy's messages about itself begin. They are in the same log.
const OWN_MESSAGES: [&[u8]; 10] = [
    b"Server ",
    b"Proxy ",
    b"Backend ",
    b"Health check ",
    b"Connect from ",
    b"Stopping ",
    b"Pausing ",
    b"[NOTICE]",
    b"[WARNING]",
    b"[ALERT]",
];

/// Reads a line. None: it has another form.
pub(super) fn parse(text: &[u8]) -> Option<Parsed<'_>> {
    if OWN_MESSAGES.iter().any(|message| text.starts_with(message)) {
        return Some(Parsed::NoRequest);
    }
    let mut cursor = Cursor::new(text);
    let client = cursor.word()?;
    // All addresses have a port, those of Unix sockets a number.
    memchr(b':', client)?;
    let mut line = Line::at(time::common(cursor.bracketed()?)?, Mark::Start);
    line.client = client_before_port(client);
    let _frontend = cursor.word()?;
    let server = cursor.word()?;
    if !server.contains(&b'/') {
        // `FRONTEND/LISTENER: SSL handshake failure`
        return Some(Parsed::NoRequest);
    }
    let times = cursor.word()?;
    if times.iter().filter(|byte| **byte == b'/').count() < 4 {
        // A connection of `option tcplog` has three times or fewer.
        return Some(Parsed::NoRequest);
    }
    line.duration_us = times.rsplit(|byte| *byte == b'/').next().and_then(milliseconds);
    line.status = number(cursor.word()?).and_then(|it| u16::try_from(it).ok()).unwrap_or(0);
    line.bytes = number(unsigned(cursor.word()?));
    if let Some((request, is_whole)) = request(cursor.rest()) {
        read_request(&mut line, request, is_whole);
    }
    Some(line.parsed())
}

/// With `option logasap`, numbers that were not final have a `+`.
fn unsigned(number: &[u8]) -> &[u8] {
    number.strip_prefix(b"+").unwrap_or(number)
}

/// A time in microseconds. -1: the step was not reached.
fn milliseconds(text: &[u8]) -> Option<u64> {
    number(unsigned(text))?.checked_mul(1000)
}

/// The request line, and whether it is whole: a message that is too long for syslog ends within
/// it. Quotes inside the quotes are written as `#22`.
fn request(rest: &[u8]) -> Option<(&[u8], bool)> {
    let inner = &rest[memchr(b'"', rest)? + 1..];
    match memrchr(b'"', inner) {
        Some(end) => Some((&inner[..end], true)),
        None => Some((inner, false)),
    }
}

fn read_request<'l>(line: &mut Line<'l>, request: &'l [u8], is_whole: bool) {
    request_line(line, unescaped(request));
    if !is_whole && line.target.is_empty() {
        let space = memchr(b' ', request);
        let cut = space.map(|space| (&request[..space], &request[space + 1..]));
        if let Some((method, target)) = cut.filter(|(_, target)| !target.contains(&b' ')) {
            (line.method, line.target) = (method.into(), unescaped(target));
        }
    }
}

/// A text in which a byte may be written as `#HH`.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'#', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'#', [high, low, after @ ..]) => hex(*high, *low).map(|byte| (byte, after)),
            _ => None,
        };
        let (byte, after) = escaped.unwrap_or((*first, after));
        plain.push(byte);
        rest = after;
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::damaged;

    const LINE: &str = "2001:db8::7:35284 [21/Nov/2026:07:28:46.482] http-in~ static/srv1 10/0/30/69/109 200 \
        124 - - ---- 1/1/0/0/0 0/0 {a.test|Mozilla/5.0 (X11; #22q#22 #7Bx#7D#7Cy)} {text/html} \
        \"GET /index.html?x=#221#22 HTTP/1.1\"";

    fn read(text: &str) -> Line<'_> {
        match parse(text.as_bytes()) {
            Some(Parsed::Request(line)) => line,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_line_is_read() {
        let line = read(LINE);
        assert_eq!((line.time.us, line.mark), (1_795_246_126_482_000, Mark::Start));
        assert_eq!((&*line.method, &*line.target), (&b"GET"[..], &b"/index.html?x=\"1\""[..]));
        assert_eq!(line.client.map(|it| it.address), "2001:db8::7".parse().ok());
        assert_eq!((line.status, line.bytes, line.duration_us), (200, Some(124), Some(109_000)));
    }

    /// The manual: the request is the last field, because a long message is cut.
    #[test]
    fn a_request_that_is_cut_off_is_a_request() {
        for (cut, target) in
            [("x=#221#22 HTTP/1.1\"", "/index.html?"), (" HTTP/1.1\"", "/index.html?x=\"1\"")]
        {
            let line = LINE.strip_suffix(cut).expect("the end of the line");
            assert_eq!(&*read(line).target, target.as_bytes(), "{line}");
        }
    }

    #[test]
    fn what_is_no_request_is_none() {
        for text in [
            "192.0.2.7:50718 [21/Nov/2026:07:28:46.123] https-in/1: SSL handshake failure",
            "192.0.2.7:33313 [21/Nov/2026:07:28:46.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
            "192.0.2.7:35110 [21/Nov/2026:07:28:46.008] in in/<NOSRV> -1/-1/-1/-1/0 400 0 - - CR-- 1/1/0/0/0 0/0 \"<BADREQ>\"",
            "Server static/srv1 is DOWN, reason: Layer4 connection problem",
            "Proxy http-in stopped (cumulated conns: FE: 3, BE: 0).",
        ] {
            assert!(matches!(parse(text.as_bytes()), Some(Parsed::NoRequest)), "{text}");
        }
        for text in ["", "x", "192.0.2.7 - - [21/Nov/2026:07:28:46 +0000] \"GET / HTTP/1.1\" 200 1"]
        {
            assert!(parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(cut in 0..220_usize, with in any::<u8>(), text in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&text);
            for line in damaged(LINE, cut, with) {
                let _ = parse(&line);
            }
        }
    }
}
