//! Syntax that requests of HTTP/1 and HTTP/2 have in common.

use http::HeaderMap;

/// The bytes of a field in the size of a head or of trailers (RFC 9113, section 6.5.2).
pub const fn field_bytes(name: &str, value: &[u8]) -> usize {
    name.len() + value.len() + 32
}

/// The size of these fields in bytes.
pub fn size_of_fields(fields: &HeaderMap) -> usize {
    fields.iter().map(|(name, value)| field_bytes(name.as_str(), value.as_bytes())).sum()
}

/// The bounds of the fields of a message of HTTP/2, in its head or in its trailers. The library lets
/// more pass.
#[derive(Clone, Copy, Debug)]
pub struct FieldBounds {
    /// Number of fields.
    pub fields: usize,
    /// The largest size in bytes.
    pub bytes: usize,
}

impl FieldBounds {
    /// Whether a message may have these fields.
    pub fn admit(self, fields: &HeaderMap) -> bool {
        fields.len() <= self.fields && size_of_fields(fields) <= self.bytes
    }
}
