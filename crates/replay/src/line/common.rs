//! The common and the combined log format of Apache and nginx, and formats that extend them.
//!
//! `CLIENT IDENT USER [TIME] "REQUEST" STATUS BYTES`, in the combined format followed by
//! `"REFERER" "USER-AGENT"`. Apache's `vhost_combined` has `HOST:PORT` before the client, APISIX
//! the host before the request. Further parts are often added: `"$http_x_forwarded_for"`, as in
//! the `main` format of nginx packages, and `$request_time`, also as `rt=0.125`. Traefik ends its
//! lines with the duration, as `3ms`, and notes the arrival; all others note the end. Its client is
//! all of `X-Forwarded-For`, if the request has it.

use super::duration::with_units;
use super::fields::{Line, Mark, Parsed};
use super::text::{
    Cursor, client, dropped, has_address, last_forwarded, number, request_line, scaled, unescaped,
};
use super::time;

/// Reads a line. None: it has another form.
pub(super) fn parse(text: &[u8]) -> Option<Parsed<'_>> {
    if let Some(lines) = dropped(text) {
        return Some(Parsed::Dropped(lines));
    }
    let mut cursor = Cursor::new(text);
    let first = cursor.list()?;
    let second = cursor.word()?;
    // A user may contain blanks.
    while cursor.peek()? != b'[' {
        cursor.word()?;
    }
    let stamp = cursor.bracketed()?;
    let time = time::common(stamp).or_else(|| time::rfc3339(stamp))?;
    let mut line = Line::at(time, Mark::End);
    let is_list = first.contains(&b',');
    // An address instead of the identity is the client, after the host of `vhost_combined`. A
    // time instead of the host was written before the line by another program.
    if second != b"-"
        && let Some(after_host) = client(second)
        && time::rfc3339(first).is_none()
    {
        line.client = Some(after_host);
        line.host = Some(first.into()).filter(|_| !is_list);
    } else {
        line.client = last_forwarded(first);
        line.is_client_of_list = is_list;
    }
    if is_list {
        line.header("x-forwarded-for", first.into());
    }
    if cursor.peek()? != b'"' {
        line.host = Some(cursor.word()?.into());
    }
    request_line(&mut line, unescaped(cursor.quoted()?));
    line.status = match cursor.word()? {
        b"-" => 0,
        status => u16::try_from(number(status)?).ok()?,
    };
    line.bytes = cursor.word().and_then(number);
    read_rest(&mut line, cursor);
    Some(line.parsed())
}

/// Reads what may follow the bytes.
fn read_rest<'l>(line: &mut Line<'l>, mut cursor: Cursor<'l>) {
    let mut quoted = ["referer", "user-agent", "x-forwarded-for"].into_iter();
    let mut quoted_us = None;
    while let Some(first) = cursor.peek() {
        if first == b'"' {
            let Some(value) = cursor.quoted() else { break };
            // A duration may stand in quotes, too. A client can write a number into its field, so
            // a number without quotes is preferred.
            match (quoted.len(), duration(value)) {
                (..2, Some(us)) => quoted_us = quoted_us.or(Some(us)),
                // Some writers have another text here, such as the name of a router.
                (1, None) if !has_address(value) => {
                    quoted.next();
                }
                _ => {
                    if let Some(name) = quoted.next() {
                        line.header(name, unescaped(value));
                    }
                }
            }
        } else {
            let Some(word) = cursor.word() else { break };
            if line.duration_us.is_none() {
                line.duration_us = duration(word);
                if line.duration_us.is_none() && word.ends_with(b"ms") {
                    line.duration_us = with_units(word).map(|ns| ns / 1000);
                    line.mark = line.duration_us.map_or(line.mark, |_| Mark::Start);
                }
            }
        }
    }
    line.duration_us = line.duration_us.or(quoted_us);
}

/// `0.125`, `rt=0.125` or `request_time=0.125`, in microseconds. A number without a point
/// could be anything.
fn duration(word: &[u8]) -> Option<u64> {
    let value = [b"rt=".as_slice(), b"request_time="]
        .iter()
        .find_map(|name| word.strip_prefix(*name))
        .unwrap_or(word);
    let is_decimal = value.contains(&b'.') && value.first().is_some_and(u8::is_ascii_digit);
    if is_decimal { scaled(value, 1_000_000) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::damaged;

    fn read(text: &str) -> Option<Line<'_>> {
        match parse(text.as_bytes()) {
            Some(Parsed::Request(line)) => Some(line),
            _ => None,
        }
    }

    #[test]
    fn the_common_format_is_read() {
        let line =
            read("192.0.2.7 - - [21/Nov/2026:07:28:46 +0000] \"GET /a?b=c HTTP/1.1\" 200 12");
        let line = line.expect("a line");
        assert_eq!((line.time.us, line.mark), (1_795_246_126_000_000, Mark::End));
        assert_eq!(line.client.map(|it| it.address), Some([192, 0, 2, 7].into()));
        assert_eq!((&*line.method, &*line.target), (&b"GET"[..], &b"/a?b=c"[..]));
        assert_eq!((line.status, line.bytes, line.duration_us), (200, Some(12), None));
        assert!(line.headers.is_empty() && line.host.is_none());
    }

    #[test]
    fn the_combined_format_and_what_is_often_added_are_read() {
        let start = "2001:db8::1 - ann lee [21/Nov/2026:08:28:46 +0100] \"POST /o HTTP/2.0\" 201 - \
                     \"https://a.test/\" \"curl/8\"";
        let headers = |line: &Line<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            line.headers.iter().map(|(name, value)| text(name) + ": " + &text(value)).collect()
        };
        let base = vec!["referer: https://a.test/".to_owned(), "user-agent: curl/8".to_owned()];
        let forwarded = [base.clone(), vec!["x-forwarded-for: 198.51.100.1".to_owned()]].concat();
        let cases: [(&str, &Vec<String>, Option<u64>); 9] = [
            ("", &base, None),
            (" 0.125", &base, Some(125_000)),
            (" rt=0.125 uct=0.001", &base, Some(125_000)),
            (" \"198.51.100.1\"", &forwarded, None),
            (" \"198.51.100.1\" \"0.002\"", &forwarded, Some(2000)),
            (" \"-\" 17 0.002 .", &base, Some(2000)),
            // The client has written the number in quotes.
            (" \"1200.5\" 0.125", &base, Some(125_000)),
            (" \"1200.5\" \"60.5\" rt=0.125", &base, Some(125_000)),
            (" \"1.55e-2147483647\" 0.125", &base, Some(125_000)),
        ];
        for (end, expected, duration_us) in cases {
            let text = format!("{start}{end}");
            let line = read(&text).expect("a line");
            let found: Vec<String> = headers(&line);
            assert_eq!((&found, line.duration_us), (expected, duration_us), "{end}");
            assert_eq!((line.status, line.bytes), (201, None));
        }
    }

    #[test]
    fn what_sent_no_request_is_no_request() {
        for request in ["-", "", "\\x16\\x03\\x01", "GET /", "GET  HTTP/1.1"] {
            let text = format!("192.0.2.7 - - [21/Nov/2026:07:28:46 +0000] \"{request}\" 400 0");
            assert!(matches!(parse(text.as_bytes()), Some(Parsed::NoRequest)), "{request}");
        }
    }

    #[test]
    fn other_lines_are_not_read() {
        for text in [
            "",
            "x",
            "192.0.2.7 - -",
            "{\"time\":1}",
            "192.0.2.7 - - [now] \"GET / HTTP/1.1\" 200 1",
        ] {
            assert!(parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    /// Apache's log of all virtual hosts, APISIX, and Traefik's default.
    #[test]
    fn hosts_routers_and_milliseconds_are_read() {
        let time = "[21/Nov/2026:07:28:46 +0000]";
        let rest = "\"GET /a HTTP/1.1\" 200 12";
        let read = |text: &str| {
            let line = read(text).unwrap_or_else(|| panic!("{text}"));
            let host = line.host.as_deref().map(|host| String::from_utf8_lossy(host).into_owned());
            let client = line.client.map(|client| client.address.to_string());
            (client, host, line.duration_us, line.mark, line.headers.len())
        };
        let owned = |text: &str| Some(text.to_owned());
        let agents = "\"-\" \"curl/8\"";
        let cases = [
            (
                format!("a.test:443 2001:db8::7 - ann {time} {rest} {agents}"),
                (owned("2001:db8::7"), owned("a.test:443"), None, Mark::End, 1),
            ),
            (
                format!("192.0.2.1:80 192.0.2.7 - - {time} {rest} {agents}"),
                (owned("192.0.2.7"), owned("192.0.2.1:80"), None, Mark::End, 1),
            ),
            (
                format!(
                    "192.0.2.7 - - {time} a.test {rest} 0.125 {agents} 10.0.0.1:80 200 0.1 \"http://a.test/a\""
                ),
                (owned("192.0.2.7"), owned("a.test"), Some(125_000), Mark::End, 1),
            ),
            (
                format!("2001:db8::7 - - {time} - {rest} 0.125 {agents} - - - \"http:///a\""),
                (owned("2001:db8::7"), None, Some(125_000), Mark::End, 1),
            ),
            (
                format!(
                    "192.0.2.7 - - {time} {rest} {agents} 1 \"web@docker\" \"http://10.0.0.1:80\" 3ms"
                ),
                (owned("192.0.2.7"), None, Some(3000), Mark::Start, 1),
            ),
            (
                format!("192.0.2.7 - [2026-11-21T07:28:46+00:00] {rest}"),
                (owned("192.0.2.7"), None, None, Mark::End, 0),
            ),
            (format!("client.a.test - - {time} {rest}"), (None, None, None, Mark::End, 0)),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(
            text in prop::collection::vec(any::<u8>(), 0..60),
            cut in 0..140_usize,
            with in any::<u8>(),
        ) {
            let _ = parse(&text);
            let line = b"192.0.2.7 - - [21/Nov/2026:07:28:46 +0000] \"GET /a\\x22 HTTP/1.1\" 200 1 \
                \"-\" \"c\" 0.1";
            for line in damaged(line.as_slice(), cut, with) {
                let _ = parse(&line);
            }
        }
    }
}
