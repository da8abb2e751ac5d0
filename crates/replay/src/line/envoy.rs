//! Envoy's default text format (Envoy documentation, "Access logging", "Default format
//! string"), and Istio's, which adds the details of the response code before the sizes and, after
//! the upstream's address, `CLUSTER UPSTREAM_LOCAL DOWNSTREAM_LOCAL DOWNSTREAM_REMOTE SERVER_NAME
//! ROUTE` (Istio documentation, "Envoy Access Logs", "Default access log format").

use super::fields::{Client, Line, Mark, Parsed};
use super::text::{Cursor, client, last_forwarded, number, request_line, unescaped};
use super::time;

/// Reads a line. None: it has another form. The client is Istio's `DOWNSTREAM_REMOTE`, else the
/// last address in `X-Forwarded-For`, which Envoy adds itself. Between the services of a mesh
/// there is no `X-Forwarded-For`.
pub(super) fn parse(text: &[u8]) -> Option<Parsed<'_>> {
    let mut cursor = Cursor::new(text);
    let mut line = Line::at(time::rfc3339(cursor.bracketed()?)?, Mark::Start);
    request_line(&mut line, unescaped(cursor.quoted()?));
    line.status = u16::try_from(number(cursor.word()?)?).ok()?;
    let _flags = cursor.word()?;
    // Newer versions and Istio write the details of the response code and of the failure here.
    let received = loop {
        if cursor.peek()? == b'"' {
            cursor.quoted()?;
        } else if let Some(bytes) = number(cursor.word()?) {
            break bytes;
        }
    };
    line.request_bytes = Some(received);
    line.bytes = number(cursor.word()?);
    line.duration_us = number(cursor.word()?).and_then(|ms| ms.checked_mul(1000));
    let _upstream = cursor.word()?;
    let forwarded = cursor.quoted()?;
    line.header("x-forwarded-for", unescaped(forwarded));
    line.header("user-agent", unescaped(cursor.quoted()?));
    let _request_id = cursor.quoted()?;
    line.host = Some(unescaped(cursor.quoted()?));
    line.client = remote(cursor).or_else(|| last_forwarded(forwarded));
    Some(line.parsed())
}

/// The client in what Istio adds: the fourth word after the upstream's address.
fn remote(mut cursor: Cursor<'_>) -> Option<Client> {
    let _upstream_host = cursor.quoted()?;
    let _cluster = cursor.word()?;
    let _upstream_local = cursor.word()?;
    let _local = cursor.word()?;
    client(cursor.word()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::damaged;

    const LINE: &str = "[2026-11-21T07:28:46.123Z] \"POST /x HTTP/2\" 204 - 154 0 226 100 \
        \"198.51.100.1, 192.0.2.7\" \"curl/8\" \"cc21d9b0\" \"a.test\" \"tcp://10.0.2.1:80\"";

    #[test]
    fn the_default_format_is_read() {
        let details = LINE.replace(" - 154", " UF via_upstream - \"-\" 154");
        for text in [LINE, &details] {
            let Some(Parsed::Request(line)) = parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((line.time.us, line.mark), (1_795_246_126_123_000, Mark::Start));
            assert_eq!((&*line.method, &*line.target), (&b"POST"[..], &b"/x"[..]));
            assert_eq!(line.client.map(|it| it.address), Some([192, 0, 2, 7].into()));
            assert_eq!(line.host.as_deref(), Some(&b"a.test"[..]));
            assert_eq!((line.status, line.request_bytes, line.bytes), (204, Some(154), Some(0)));
            assert_eq!((line.duration_us, line.headers.len()), (Some(226_000), 2));
        }
    }

    /// Between services `X-Forwarded-For` is `-`. All clients were one, and the format was not
    /// recognised.
    #[test]
    fn the_client_of_istio_is_the_remote_address() {
        let details = LINE.replace(" - 154", " - via_upstream - \"-\" 154");
        let end = "outbound|8000||a.b.svc.cluster.local 127.0.0.1:41854 10.0.1.27:80";
        for (forwarded, remote, expected) in [
            ("-", "192.0.2.23:37652", Some("192.0.2.23")),
            ("-", "[2001:db8::23]:37652", Some("2001:db8::23")),
            ("198.51.100.1", "192.0.2.23:0", Some("192.0.2.23")),
            ("198.51.100.1", "envoy://internal_client_address/", Some("198.51.100.1")),
            ("-", "-", None),
        ] {
            let text = details.replace("198.51.100.1, 192.0.2.7", forwarded);
            let text = format!("{text} {end} {remote} outbound_.8000_._.a.b default");
            let Some(Parsed::Request(line)) = parse(text.as_bytes()) else { panic!("{text}") };
            let expected = expected.and_then(|address| address.parse().ok());
            assert_eq!(line.client.map(|it| it.address), expected, "{text}");
            assert_eq!((line.request_bytes, line.duration_us), (Some(154), Some(226_000)));
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(cut in 0..200_usize, with in any::<u8>(), text in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&text);
            for line in damaged(LINE.as_bytes().to_vec(), cut, with) {
                let _ = parse(&line);
            }
        }
    }
}
