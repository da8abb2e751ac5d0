//! Which encoding a client prefers (RFC 9110, section 12.5.3).

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL};

use super::settings::Encoding;
use crate::message::has_token;
use crate::message::tokens::tokens;

/// A weight is at most this.
const WHOLE: u16 = 1000;

/// The encoding among `offered`, the best one first, that the client with this request prefers.
/// None: it gets the body as it is.
pub fn accepted(headers: &HeaderMap, offered: &[Encoding]) -> Option<Encoding> {
    // Without the field any encoding is acceptable, and a client that knows none sends no field.
    let weights = Weights::of(headers)?;
    if headers.get_all(CACHE_CONTROL).iter().any(|line| has_token(line, "no-transform")) {
        return None;
    }
    let weight = |encoding: &Encoding| weights.of_coding(encoding.as_str()).unwrap_or(0);
    // Of equal ones the last is the maximum, and the list begins with the best.
    let best = offered.iter().rev().max_by_key(|encoding| weight(encoding))?;
    let plain = weights.plain();
    (weight(best) > 0 && weight(best) >= plain).then_some(*best)
}

/// The weights in `Accept-Encoding`.
struct Weights<'a>(Vec<(&'a str, u16)>);

impl<'a> Weights<'a> {
    /// None if there is no such field.
    fn of(headers: &'a HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(ACCEPT_ENCODING).iter().peekable();
        lines.peek()?;
        let codings = lines.filter_map(|line| line.to_str().ok()).flat_map(tokens);
        Some(Self(codings.filter_map(weighted).collect()))
    }

    fn named(&self, name: &str) -> Option<u16> {
        let named = self.0.iter().find(|(coding, _)| coding.eq_ignore_ascii_case(name));
        named.map(|(_, weight)| *weight)
    }

    /// None if the client says nothing of it.
    fn of_coding(&self, name: &str) -> Option<u16> {
        self.named(name)
            .or_else(|| self.named("x-gzip").filter(|_| name == "gzip"))
            .or_else(|| self.named("*"))
    }

    /// The weight of no encoding. If the client does not name it, any other one is better.
    fn plain(&self) -> u16 {
        self.named("identity").unwrap_or(0)
    }
}

/// `gzip;q=0.5`. None if it cannot be read.
fn weighted(coding: &str) -> Option<(&str, u16)> {
    let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
    let parameters = parameters.trim();
    let weight = match parameters.is_empty() {
        true => WHOLE,
        false => weight(parameters.strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('=')?)?,
    };
    Some((name.trim(), weight))
}

/// A weight of at most three digits after the point (RFC 9110, section 12.4.2), in thousandths.
fn weight(text: &str) -> Option<u16> {
    let (whole, rest) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_valid = rest.len() <= 3 && rest.bytes().all(|digit| digit.is_ascii_digit());
    let thousandths = match (whole, is_valid) {
        ("0", true) => format!("{rest:0<3}").parse().ok()?,
        ("1", true) if rest.bytes().all(|digit| digit == b'0') => WHOLE,
        _ => return None,
    };
    Some(thousandths)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_client_decides_before_the_list() {
        for (line, expected) in [
            ("gzip, zstd", Some(Encoding::Zstd)),
            ("gzip, deflate, br, zstd", Some(Encoding::Zstd)),
            ("gzip, zstd;q=0.9", Some(Encoding::Gzip)),
            ("*, zstd;q=0", Some(Encoding::Gzip)),
            ("*", Some(Encoding::Zstd)),
            ("zstd;q=0.5, identity", None),
            ("br", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(line));
            let offered = [Encoding::Zstd, Encoding::Gzip];
            assert_eq!(accepted(&headers, &offered), expected, "{line}");
        }
    }

    #[test]
    fn the_weights_of_the_client_decide() {
        for (lines, expected) in [
            (&[][..], false),
            (&[""], false),
            (&["gzip"], true),
            (&["GZIP"], true),
            (&["x-gzip"], true),
            (&["gzip, deflate, br"], true),
            (&["deflate", "gzip"], true),
            (&["deflate, br"], false),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["*;q=0, gzip"], true),
            (&["gzip;q=0"], false),
            (&["gzip;q=0, *"], false),
            (&["gzip;q=0.000"], false),
            (&["gzip;q=0.001"], true),
            (&["gzip; Q = 0.5"], true),
            (&["gzip;q=0.5, identity"], false),
            (&["gzip;q=0.5, identity;q=0.4"], true),
            (&["gzip, identity"], true),
            (&["identity"], false),
            (&["gzip;q=1.001"], false),
            (&["gzip;q=x"], false),
            (&["gzip;level=9"], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line));
            }
            let encoding = accepted(&headers, &[Encoding::Gzip]);
            assert_eq!(encoding.is_some(), expected, "{lines:?}");
            assert_eq!(accepted(&headers, &[]), None);
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=0, no-transform"));
            assert_eq!(accepted(&headers, &[Encoding::Gzip]), None);
        }
    }
}
