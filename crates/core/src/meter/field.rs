//! A number in a field of the response.

use http::{HeaderMap, HeaderName};

use super::number::Number;

/// The number in this field. If it has several lines, all must be equal.
pub(super) fn in_field(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut lines = headers.get_all(name).iter();
    let value = lines.next()?;
    let is_clear = lines.all(|line| line == value);
    is_clear.then(|| Number::parse(value.as_bytes().trim_ascii())).flatten()
}
