//! What compression changes in the head of a response.

use http::header::{ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, Entry, VARY};
use http::{HeaderMap, HeaderValue};

use super::settings::Encoding;
use crate::message::tokens::tokens;

/// Says that a response depends on `Accept-Encoding`.
pub fn write_vary(headers: &mut HeaderMap) {
    let has = |line: &HeaderValue| {
        line.to_str().is_ok_and(|line| {
            let mut names = tokens(line);
            names.any(|name| name == "*" || name.eq_ignore_ascii_case("accept-encoding"))
        })
    };
    if !headers.get_all(VARY).iter().any(has) {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// Makes the head of a response that of its compressed form.
pub fn write_encoding(encoding: Encoding, headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.as_str()));
    headers.remove(CONTENT_LENGTH);
    // Ranges would be those of the other form.
    headers.remove(ACCEPT_RANGES);
    weaken_etag(headers);
}

/// Makes a strong validator a weak one: it stands for all encodings (RFC 9110, section 8.8.1).
pub fn weaken_etag(headers: &mut HeaderMap) {
    if let Entry::Occupied(mut etag) = headers.entry(ETAG) {
        let value = etag.get().as_bytes();
        if value.starts_with(b"\"")
            && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", value].concat())
        {
            etag.insert(weak);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (name.parse().unwrap(), HeaderValue::from_static(value))
        };
        fields.iter().map(pair).collect()
    }

    #[test]
    fn a_strong_validator_becomes_weak() {
        for (before, after) in
            [("\"a\"", "W/\"a\""), ("W/\"a\"", "W/\"a\""), ("\"\"", "W/\"\""), ("a", "a")]
        {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_static(before));
            weaken_etag(&mut headers);
            assert_eq!(headers[ETAG], after);
        }
    }

    #[test]
    fn the_head_is_that_of_the_compressed_form() {
        let mut headers =
            map(&[("content-length", "5000"), ("accept-ranges", "bytes"), ("etag", "\"a\"")]);
        write_encoding(Encoding::Gzip, &mut headers);
        assert_eq!(headers, map(&[("content-encoding", "gzip"), ("etag", "W/\"a\"")]));
    }

    #[test]
    fn vary_names_the_field_once() {
        for (before, after) in [
            (&[][..], &["accept-encoding"][..]),
            (&["origin"], &["origin", "accept-encoding"]),
            (&["origin, Accept-Encoding"], &["origin, Accept-Encoding"]),
            (&["origin", "accept-encoding"], &["origin", "accept-encoding"]),
            (&["*"], &["*"]),
        ] {
            let mut headers = HeaderMap::new();
            for line in before {
                headers.append(VARY, HeaderValue::from_static(line));
            }
            write_vary(&mut headers);
            assert_eq!(headers.get_all(VARY).iter().collect::<Vec<_>>(), after);
        }
    }
}
