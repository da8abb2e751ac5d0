//! The standard log of CloudFront (Amazon CloudFront developer guide, "Standard log file
//! format"): fields in a fixed order with tabs between them, after two comments.

use std::borrow::Cow;

use super::fields::{Line, Mark, Moment, Parsed};
use super::text::{client, number, percent_decoded, scaled};
use super::time;

/// Reads a line. None: it has another form.
pub(super) fn parse(text: &[u8]) -> Option<Parsed<'_>> {
    if text.starts_with(b"#") {
        return Some(Parsed::NoRequest);
    }
    let mut columns = text.split(|&byte| byte == b'\t');
    let mut next = || columns.next();
    let date = next()?;
    let clock = next()?;
    let us = time::rfc3339(&[date, b"T", clock, b"Z"].concat())?.us;
    let mut line = Line::at(Moment { us, is_whole_second: true }, Mark::End);
    let _edge = next()?;
    line.bytes = number(next()?);
    line.client = client(next()?);
    line.method = Cow::Borrowed(next()?);
    let distribution = next()?;
    let path = next()?;
    line.status = number(next()?).and_then(|it| u16::try_from(it).ok()).unwrap_or(0);
    line.header("referer", Cow::Borrowed(next()?));
    // Encoded once by the viewer's rules, and once by those of the log.
    line.header("user-agent", percent_decoded(next()?));
    let query = next()?;
    line.header("cookie", percent_decoded(next()?));
    let _result = next()?;
    let _request_id = next()?;
    let host = next().unwrap_or(distribution);
    line.host = Some(Cow::Borrowed(if matches!(host, b"-" | b"") { distribution } else { host }));
    let _protocol = next();
    let _request_bytes = next();
    line.duration_us = next().and_then(|seconds| scaled(seconds, 1_000_000));
    line.target = match query {
        b"-" | b"" => Cow::Borrowed(path),
        query => Cow::Owned([path, b"?", query].concat()),
    };
    Some(line.parsed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::damaged;

    const LINE: &str = "2026-11-21|07:28:46|LAX1|2390282|192.0.2.7|GET|d111.cloudfront.net|/x|200|-|Mozilla/5.0%20(X)|\
        y=1|-|Hit|SOX4xwn4XV6Q4rgb7XiVGOHms==|a.test|https|23|0.125|-|TLSv1.2";

    #[test]
    fn a_line_is_read() {
        let text = LINE.replace('|', "\t");
        let Some(Parsed::Request(line)) = parse(text.as_bytes()) else { panic!("a request") };
        assert_eq!(line.time, Moment { us: 1_795_246_126_000_000, is_whole_second: true });
        assert_eq!((&*line.method, &*line.target), (&b"GET"[..], &b"/x?y=1"[..]));
        assert_eq!(line.client.map(|it| it.address), Some([192, 0, 2, 7].into()));
        assert_eq!(line.host.as_deref(), Some(&b"a.test"[..]));
        assert_eq!(
            (line.status, line.bytes, line.duration_us),
            (200, Some(2_390_282), Some(125_000))
        );
        let headers: Vec<_> = line.headers.iter().map(|(_, value)| &**value).collect();
        assert_eq!(headers, [b"Mozilla/5.0 (X)"]);
        assert!(matches!(parse(b"#Version: 1.0"), Some(Parsed::NoRequest)));
    }

    proptest! {
        #[test]
        fn no_input_panics(cut in 0..200_usize, with in any::<u8>(), text in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&text);
            for line in damaged(LINE.replace('|', "\t").into_bytes(), cut, with) {
                let _ = parse(&line);
            }
        }
    }
}
