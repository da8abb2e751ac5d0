//! Lists of tokens, such as the value of `Connection` (RFC 9110, section 5.6.1).

use http::HeaderValue;

/// The tokens of a list.
pub fn tokens(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|token| !token.is_empty())
}

/// Whether a list contains a token, which is compared without case.
pub fn has_token(list: &HeaderValue, token: &str) -> bool {
    if list.as_bytes().eq_ignore_ascii_case(token.as_bytes()) {
        return true;
    }
    let text = list.to_str();
    text.is_ok_and(|list| tokens(list).any(|it| it.eq_ignore_ascii_case(token)))
}
