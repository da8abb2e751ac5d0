//! A copy of the fields of a request, for the rare case that the request is sent again.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a message in one piece of memory: for each field a [`Field`], its name and
/// its value. Most copies are never read, and a copy of a [`HeaderMap`] takes more allocations.
#[derive(Debug)]
pub struct FieldsCopy {
    fields: usize,
    bytes: Vec<u8>,
}

/// The bytes of a field in HTTP/1.1 beside its name and its value: a colon, a space, and the
/// end of its line.
pub const BETWEEN_FIELDS: usize = 4;

/// About the bytes of one field. A copy of longer fields grows, which is rare.
const USUAL_BYTES: usize = 64;

/// What is kept of a field beside its name and its value.
struct Field {
    name_bytes: usize,
    value_bytes: usize,
    /// Whether the value must not be compressed (RFC 7541, section 7.1.3).
    is_sensitive: bool,
}

impl Field {
    /// The length of its bytes: two lengths, and the flag.
    const BYTES: usize = 4 + 4 + 1;

    fn of(name: &HeaderName, value: &HeaderValue) -> Self {
        let name_bytes = name.as_str().len();
        let value_bytes = value.len();
        Self { name_bytes, value_bytes, is_sensitive: value.is_sensitive() }
    }

    /// Lengths have 32 bits: no head is larger than a listener admits.
    fn to_bytes(&self) -> [u8; Self::BYTES] {
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
        let [[a, b, c, d], [e, f, g, h]] = [self.name_bytes, self.value_bytes].map(length);
        [a, b, c, d, e, f, g, h, self.is_sensitive.into()]
    }

    fn from_bytes([a, b, c, d, e, f, g, h, is_sensitive]: [u8; Self::BYTES]) -> Self {
        let length = |bytes| usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
        let name_bytes = length([a, b, c, d]);
        let value_bytes = length([e, f, g, h]);
        Self { name_bytes, value_bytes, is_sensitive: is_sensitive != 0 }
    }
}

impl FieldsCopy {
    /// A copy of these fields.
    pub fn of(fields: &HeaderMap) -> Self {
        let mut bytes = Vec::with_capacity(USUAL_BYTES * fields.len());
        for (name, value) in fields {
            bytes.extend_from_slice(&Field::of(name, value).to_bytes());
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        Self { fields: fields.len(), bytes }
    }

    /// The bytes of the fields in HTTP/1.1.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.fields * BETWEEN_FIELDS - self.fields * Field::BYTES
    }

    /// The fields, in their order.
    pub fn fields(&self) -> HeaderMap {
        let mut fields = HeaderMap::new();
        let mut rest = &self.bytes[..];
        while let Some((field, after)) = rest.split_first_chunk() {
            let field = Field::from_bytes(*field);
            let (name, after) = after.split_at(field.name_bytes);
            let (value, after) = after.split_at(field.value_bytes);
            let name = HeaderName::from_bytes(name).expect("it was a name");
            let mut value = HeaderValue::from_bytes(value).expect("it was a value");
            value.set_sensitive(field.is_sensitive);
            fields.append(name, value);
            rest = after;
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_fields_are_the_same(
            pairs in prop::collection::vec(
                ("[a-c!#$_-]{1,3}", prop::collection::vec(0x20..=0xff_u8, 0..70), any::<bool>()),
                0..9,
            ),
        ) {
            let mut fields = HeaderMap::new();
            for (name, mut value, is_sensitive) in pairs {
                value.retain(|byte| *byte != 0x7f);
                let mut value = HeaderValue::from_bytes(&value).expect("a value");
                value.set_sensitive(is_sensitive);
                fields.append(name.parse::<HeaderName>().expect("a name"), value);
            }
            let copy = FieldsCopy::of(&fields);
            let lines = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
            prop_assert_eq!(copy.bytes(), lines.sum::<usize>());
            let again = copy.fields();
            let all = |of: &HeaderMap| -> Vec<(HeaderName, HeaderValue, bool)> {
                of.iter().map(|(name, it)| (name.clone(), it.clone(), it.is_sensitive())).collect()
            };
            prop_assert_eq!(all(&again), all(&fields));
        }
    }
}
