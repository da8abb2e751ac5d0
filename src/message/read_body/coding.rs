//! The content coding of a request (RFC 9110, section 8.4).

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// A content coding in which the gateway can read a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// None.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// The body is in another coding, or in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCoding;

impl Coding {
    /// The coding of the body of a request with these fields.
    ///
    /// # Errors
    /// If the gateway cannot read it.
    pub fn of(headers: &HeaderMap) -> Result<Self, UnknownCoding> {
        let lines = headers.get_all(CONTENT_ENCODING).iter();
        let words = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        let mut found = Self::Identity;
        for word in words.map(<[u8]>::trim_ascii).filter(|word| !word.is_empty()) {
            let coding = match word.to_ascii_lowercase().as_slice() {
                b"identity" => continue,
                b"gzip" | b"x-gzip" => Self::Gzip,
                b"zstd" => Self::Zstd,
                _ => return Err(UnknownCoding),
            };
            if found != Self::Identity {
                return Err(UnknownCoding);
            }
            found = coding;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_coding_can_be_read_and_two_cannot() {
        let cases: [(&[&'static str], _); 12] = [
            (&[], Ok(Coding::Identity)),
            (&[""], Ok(Coding::Identity)),
            (&["identity"], Ok(Coding::Identity)),
            (&["gzip"], Ok(Coding::Gzip)),
            (&["X-GZIP"], Ok(Coding::Gzip)),
            (&[" identity, zstd ,"], Ok(Coding::Zstd)),
            (&["gzip, gzip"], Err(UnknownCoding)),
            (&["gzip", "zstd"], Err(UnknownCoding)),
            (&["br"], Err(UnknownCoding)),
            (&["deflate"], Err(UnknownCoding)),
            (&["zstd, br"], Err(UnknownCoding)),
            (&["gzip\u{0}"], Err(UnknownCoding)),
        ];
        for (lines, expected) in cases {
            let mut headers = HeaderMap::new();
            let value = |line: &&'static str| HeaderValue::from_bytes(line.as_bytes());
            let values = lines.iter().filter_map(|line| value(line).ok());
            values.for_each(|value| _ = headers.append(CONTENT_ENCODING, value));
            if headers.len() == lines.len() {
                assert_eq!(Coding::of(&headers), expected, "{lines:?}");
            }
        }
    }
}
