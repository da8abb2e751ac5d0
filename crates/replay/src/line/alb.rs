//! The access log of an AWS Application Load Balancer (Elastic Load Balancing user guide,
//! "Access log entries"). Its time is the end; a later field has the arrival.

use super::fields::{Line, Mark, Moment, Parsed};
use super::text::{Cursor, client_before_port, number, request_line, scaled, unescaped};
use super::time;

/// Fields between the user agent and the time of the arrival: cipher, protocol, target
/// group, trace id, domain name, certificate, rule.
const BEFORE_ARRIVAL: usize = 7;

/// Reads a line. None: it has another form.
pub(super) fn parse(text: &[u8]) -> Option<Parsed<'_>> {
    let mut cursor = Cursor::new(text);
    if !matches!(cursor.word()?, b"http" | b"https" | b"h2" | b"grpcs" | b"ws" | b"wss") {
        return None;
    }
    let mut line = Line::at(time::rfc3339(cursor.word()?)?, Mark::End);
    let _balancer = cursor.word()?;
    line.client = client_before_port(cursor.word()?);
    let _target = cursor.word()?;
    let mut duration_us = Some(0_u64);
    for _ in 0..3 {
        // -1: the connection ended before.
        let part = scaled(cursor.word()?, 1_000_000);
        duration_us = duration_us.zip(part).and_then(|(sum, part)| sum.checked_add(part));
    }
    line.duration_us = duration_us;
    line.status = number(cursor.word()?).and_then(|it| u16::try_from(it).ok()).unwrap_or(0);
    let _target_status = cursor.word()?;
    // Of the request, the log counts the header, too.
    let _received = cursor.word()?;
    line.bytes = number(cursor.word()?);
    request_line(&mut line, unescaped(cursor.quoted()?));
    line.header("user-agent", unescaped(cursor.quoted()?));
    if let Some(arrival) = arrival(cursor) {
        (line.time, line.mark) = (arrival, Mark::Start);
    }
    Some(line.parsed())
}

/// The time at which the balancer received the request, in a line long enough to have it.
fn arrival(mut cursor: Cursor<'_>) -> Option<Moment> {
    for _ in 0..BEFORE_ARRIVAL {
        if cursor.peek()? == b'"' {
            cursor.quoted()?;
        } else {
            cursor.word()?;
        }
    }
    time::rfc3339(cursor.word()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::damaged;

    const LINE: &str = "https 2026-11-21T07:28:46.123456Z app/lb/50dc6c495c0c9188 192.0.2.7:2817 10.0.0.1:80 \
        0.086 0.048 0.037 200 200 30 57 \"GET https://a.test:443/x?y=1 HTTP/1.1\" \"curl/8\" ECDHE-RSA TLSv1.2 \
        arn:aws:tg \"Root=1-5833\" \"a.test\" \"arn:aws:cert\" 1 2026-11-21T07:28:45.900000Z \"forward\" \"-\"";

    #[test]
    fn a_line_is_read_with_the_time_of_the_arrival() {
        let Some(Parsed::Request(line)) = parse(LINE.as_bytes()) else { panic!("a request") };
        assert_eq!((line.time.us, line.mark), (1_795_246_125_900_000, Mark::Start));
        assert_eq!((&*line.method, &*line.target), (&b"GET"[..], &b"https://a.test:443/x?y=1"[..]));
        assert_eq!(line.client.map(|it| it.address), Some([192, 0, 2, 7].into()));
        assert_eq!((line.status, line.bytes, line.duration_us), (200, Some(57), Some(171_000)));
    }

    /// An IPv6 address stands without brackets. Two clients were read as none, and so as one.
    #[test]
    fn clients_have_ports_and_no_brackets() {
        let cases = [
            ("2001:db8:4538:1:bcf4:5264:e01c:f215:50718", "2001:db8:4538:1:bcf4:5264:e01c:f215"),
            ("2001:db8:1::f215:4711", "2001:db8:1::f215"),
            ("[2001:db8:1::f215]:4711", "2001:db8:1::f215"),
        ];
        for (text, expected) in cases {
            let text = LINE.replace("192.0.2.7:2817", text);
            let Some(Parsed::Request(line)) = parse(text.as_bytes()) else { panic!("a request") };
            assert_eq!(line.client.map(|it| it.address), expected.parse().ok(), "{text}");
        }
    }

    #[test]
    fn an_older_line_has_the_end_only() {
        let old = LINE.split(" ECDHE").next().expect("a start").replace("0.048", "-1");
        let Some(Parsed::Request(line)) = parse(old.as_bytes()) else { panic!("a request") };
        assert_eq!((line.time.us, line.mark), (1_795_246_126_123_456, Mark::End));
        assert_eq!(line.duration_us, None);
    }

    proptest! {
        #[test]
        fn no_input_panics(cut in 0..360_usize, with in any::<u8>(), text in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&text);
            for line in damaged(LINE.as_bytes().to_vec(), cut, with) {
                let _ = parse(&line);
            }
        }
    }
}
