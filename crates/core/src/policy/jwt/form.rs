//! The reasons why a text is not a valid token (RFC 7515, section 7.1).
//!
//! In base64url each value has exactly one form (RFC 4648, sections 3.2 and 3.5). Lenient
//! decoders accept padding, `+` and `/`, and ignore the unused bits of the last character.
//! A token in such a form is not valid here and may be valid at the backend, so it is
//! ambiguous.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use crate::policy::token::Fault;

/// A decoder that accepts what lenient decoders accept.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The reason why `token`, whose signature could not be verified, is not valid.
pub(super) fn fault_of(token: &[u8]) -> Fault {
    let mut parts = token.split(|&byte| byte == b'.');
    let (Some(header), Some(payload), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Fault::Opaque;
    };
    if !decode(header).is_some_and(|text| text.trim_ascii_start().starts_with(b"{")) {
        return Fault::Opaque;
    }
    if [header, payload, signature].into_iter().all(is_canonical) {
        Fault::Invalid
    } else {
        Fault::Ambiguous
    }
}

/// Decodes a part as lenient decoders do. Some accept the standard alphabet, and some skip
/// characters of neither alphabet.
fn decode(part: &[u8]) -> Option<Vec<u8>> {
    let letters = part.iter().filter_map(|&byte| match byte {
        b'+' => Some(b'-'),
        b'/' => Some(b'_'),
        byte => (byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).then_some(byte),
    });
    LENIENT.decode(letters.collect::<Vec<u8>>()).ok()
}

/// Whether the part has the form that a strict encoder writes.
fn is_canonical(part: &[u8]) -> bool {
    decode(part).is_some_and(|bytes| {
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes).as_bytes() == part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "eyJhbGciOiJIUzI1NiJ9";

    #[test]
    fn a_token_that_lenient_backends_may_take_is_ambiguous() {
        for bad in ["e30.QQ==", "e30.QR", "e30.+_8", "e30=.QQ", "e3\"0.QQ"] {
            assert_eq!(fault_of(format!("{HEADER}.{bad}").as_bytes()), Fault::Ambiguous, "{bad}");
        }
        assert_eq!(fault_of(format!("{HEADER}=.e30.QQ").as_bytes()), Fault::Ambiguous);
    }

    #[test]
    fn a_token_in_canonical_form_is_invalid() {
        for token in ["e30.QQ", "e30.", "e30.-_8"] {
            assert_eq!(fault_of(format!("{HEADER}.{token}").as_bytes()), Fault::Invalid, "{token}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_token_is_opaque() {
        for text in ["", "key", "a.b", "x.y.z", "1.2.3", "e30.e30.e30.e30", "W10.e30.QQ"] {
            assert_eq!(fault_of(text.as_bytes()), Fault::Opaque, "{text}");
        }
    }
}
