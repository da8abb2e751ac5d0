//! The text format of our own access log: `TIME CLIENT METHOD "PATH" STATUS nB nus OUTCOME`,
//! followed by `NAME=VALUE` for what only some requests have.

use super::fields::{Line, Mark, Parsed};
use super::json;
use super::text::{Cursor, client, dropped, number};
use super::time;

/// Reads a line. None: it has another form.
pub(super) fn parse(text: &[u8]) -> Option<Parsed<'_>> {
    if let Some(lines) = dropped(text) {
        return Some(Parsed::Dropped(lines));
    }
    let mut cursor = Cursor::new(text);
    let mut line = Line::at(time::rfc3339(cursor.word()?)?, Mark::Start);
    line.client = client(cursor.word()?);
    line.method = cursor.word()?.into();
    line.target = json::unescaped(cursor.quoted()?);
    line.status = u16::try_from(number(cursor.word()?)?).ok()?;
    line.bytes = Some(number(cursor.word()?.strip_suffix(b"B")?)?);
    line.duration_us = Some(number(cursor.word()?.strip_suffix(b"us")?)?);
    cursor.word()?;
    while let Some((name, value)) = cursor.named() {
        match name {
            b"host" => line.host = Some(json::unescaped(value)),
            b"sample" => line.sample = number(value),
            _ => {}
        }
    }
    Some(line.parsed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line::damaged;

    const LINE: &[u8] =
        b"2026-11-21T07:28:46.123Z 203.0.113.0/24 GET \"/a\\\"b c\" 429 12B 34us refused \
        host=\"api.test:8080\" route=\"orders now\" remaining=0 sample=10 id=id-1";

    #[test]
    fn a_line_is_read() {
        let Some(Parsed::Request(line)) = parse(LINE) else { panic!("a request") };
        assert_eq!((line.time.us, line.mark), (1_795_246_126_123_000, Mark::Start));
        assert!(line.client.is_some_and(|client| client.is_masked));
        assert_eq!((&*line.method, &*line.target), (&b"GET"[..], &b"/a\"b c"[..]));
        assert_eq!((line.status, line.bytes, line.duration_us), (429, Some(12), Some(34)));
        assert_eq!(line.host.as_deref(), Some(&b"api.test:8080"[..]));
        assert_eq!(line.sample, Some(10));
        assert!(matches!(parse(b"7 lines dropped"), Some(Parsed::Dropped(7))));
        for other in ["", "x lines dropped", "2026-11-21T07:28:46.123Z - GET /"] {
            assert!(parse(other.as_bytes()).is_none(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(
            text in prop::collection::vec(any::<u8>(), 0..60),
            cut in 0..160_usize,
            with in any::<u8>(),
        ) {
            let _ = parse(&text);
            for line in damaged(LINE, cut, with) {
                let _ = parse(&line);
            }
        }
    }
}
