//! Asks for the tokens of a streamed chat completion, if its client has not asked.

use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderName, HeaderValue};

use super::additions::Asked;
use super::exchange::Exchange;
use crate::message::Coding;
use crate::server::ClientBody;

/// Fields by which an upstream, or something before it, checks the bytes of a body.
const SIGNED: [HeaderName; 7] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("signature"),
    HeaderName::from_static("signature-input"),
    HeaderName::from_static("x-amz-content-sha256"),
];

/// Makes a request ask for the tokens of its answer, if one of its policies wants that and the
/// client has not asked. None: the request stays as it is.
pub fn ask_usage(
    exchange: &mut Exchange,
    headers: &mut HeaderMap,
    body: &mut ClientBody,
) -> Option<Asked> {
    let replacement = exchange.usage_to_ask()?;
    if is_signed(headers) || Coding::of(headers) != Ok(Coding::Identity) {
        return None;
    }
    let length = body.replace(&replacement.range, replacement.text.as_bytes())?;
    if headers.contains_key(CONTENT_LENGTH) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let replaced = replacement.range.end - replacement.range.start;
    let bytes = |count: u64| i64::try_from(count).unwrap_or(0);
    let written = u64::try_from(replacement.text.len()).unwrap_or(0);
    let asked = Asked { added: bytes(written) - bytes(replaced) };
    exchange.has_asked(asked);
    Some(asked)
}

/// Whether a change of the body would break a signature or a checksum.
fn is_signed(headers: &HeaderMap) -> bool {
    let is_aws = |value: &HeaderValue| value.as_bytes().starts_with(b"AWS4-");
    SIGNED.iter().any(|name| headers.contains_key(name))
        || headers.get_all(AUTHORIZATION).iter().any(is_aws)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(field).collect()
    }

    #[test]
    fn a_signed_body_is_not_changed() {
        for line in [
            ("content-digest", "sha-256=:AA==:"),
            ("digest", "sha-256=AA=="),
            ("signature", "sig=:AA==:"),
            ("x-amz-content-sha256", "00"),
            ("authorization", "AWS4-HMAC-SHA256 Credential=x"),
        ] {
            assert!(is_signed(&fields(&[("accept", "*/*"), line])), "{line:?}");
        }
        assert!(!is_signed(&fields(&[("authorization", "Bearer AWS4-"), ("accept", "*/*")])));
    }
}
